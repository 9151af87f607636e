package shipped

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/follow"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/scaffold/shipped"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// tryCommand is inspan agent try.
type tryCommand struct {
	App            *app.App
	model, sandbox string
	yes, keep      bool
}

// Try makes inspan agent try.
func Try(a *app.App) *cobra.Command {
	c := &tryCommand{App: a}
	cmd := &cobra.Command{
		Use: "try NAME", Short: "See an agent of the catalogue at work on a small repository with a defect",
		Long: `Makes a small git repository with a defect, shows that the check of its task fails there, starts a station in
this process, and lets the agent do the task. The model is a script unless another is named with --model or MODEL and
its key is set; the tools, the sandbox and the check are real. The check is carried out in a sandbox of its own on the
files that the agent left, and the command fails where it does not pass.

It needs git and sh, and go for the upgrader. Nothing is written outside of a temporary folder, which is removed unless
--keep is given.`,
		Example: `  inspan agent try reviewer
  inspan agent try coder --keep
  MODEL=anthropic/claude-sonnet-5-5 inspan agent try debugger`,
		Args:              app.Args(1),
		ValidArgsFunction: names,
		RunE:              c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.model, "model", a.Lookup("MODEL", ""), "model instead of the scripted one, provider/name (MODEL)")
	f.StringVar(&c.sandbox, "sandbox", "auto", "auto, bwrap, landlock or host")
	f.BoolVarP(&c.yes, "yes", "y", false, "approve every gate")
	f.BoolVar(&c.keep, "keep", false, "keep the folder with the repository and the station")
	return cmd
}

// ErrNotVerified means that an agent did not do the task of its trial.
var ErrNotVerified = errors.New("the agent did not do the task of its trial")

func (c *tryCommand) run(cmd *cobra.Command, args []string) error {
	agent, err := find(args[0])
	if err != nil {
		return err
	}
	t, err := agent.Trial()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "inspan-try-")
	if err != nil {
		return fmt.Errorf("folder of the trial: %w", err)
	}
	if c.keep {
		fmt.Fprintf(c.App.Err, "The folder of the trial is %s.\n", dir)
	} else {
		defer func() { _ = os.RemoveAll(dir) }() // it is in the system's place for temporary files
	}
	if err := lay(cmd.Context(), dir, agent, t); err != nil {
		return err
	}
	check, why, err := t.Seeded(cmd.Context(), filepath.Join(dir, repoDir))
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Err, "Task: %s\nBefore, the check %q fails: %s\n", t.Task, check, view.Clip(why, 200))
	s, err := c.follow(cmd.Context(), dir, agent, t)
	if err != nil {
		return err
	}
	byCheck := func(v events.Verified) bool { return v.Name == check }
	if s.Result == nil || !slices.ContainsFunc(s.Result.Verified, byCheck) {
		return app.Exit(app.ExitFailed, fmt.Errorf("%w: the run is not verified by %q; --keep keeps its folder",
			ErrNotVerified, check))
	}
	fmt.Fprintf(c.App.Err, "Now it passes, in a sandbox of its own on the files that %s left.\n", agent.Name)
	return nil
}

// Folders of a trial.
const (
	repoDir    = "repository"
	agentsDir  = "agents"
	scriptsDir = "scripts"
)

// lay writes the files of a trial.
func lay(ctx context.Context, dir string, agent shipped.Agent, t shipped.Trial) error {
	for _, name := range []string{repoDir, agentsDir, scriptsDir} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return fmt.Errorf("folder of the trial: %w", err)
		}
	}
	for path, data := range map[string][]byte{filepath.Join(agentsDir, agent.Name+".prompt"): agent.File,
		filepath.Join(scriptsDir, agent.Name+".yaml"): t.Script} {
		if err := os.WriteFile(filepath.Join(dir, path), data, 0o644); err != nil {
			return fmt.Errorf("files of the trial: %w", err)
		}
	}
	return t.Make(ctx, filepath.Join(dir, repoDir))
}

// follow carries the task out in a station of this process, and shows it.
func (c *tryCommand) follow(ctx context.Context, dir string, agent shipped.Agent, t shipped.Trial) (s run.State,
	err error) {
	base, err := c.App.Config()
	if err != nil {
		return s, err
	}
	log, err := c.App.Logger()
	if err != nil {
		return s, err
	}
	st, err := station.Up(ctx, station.Config{StoreDir: filepath.Join(dir, "store"), Sandbox: c.sandbox, Base: base,
		Log: log, AgentsDir: filepath.Join(dir, agentsDir), ScriptsDir: filepath.Join(dir, scriptsDir)})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	to, err := operator.On(st.Conn(), st.Name())
	if err != nil {
		return s, err
	}
	defer to.Close()
	task := events.Task{ID: "try-" + agent.Name, Agent: agent.Name, Task: t.Task, Accept: t.Accept, Model: c.model}
	repo, err := workcopy.Find(ctx, filepath.Join(dir, repoDir), nil)
	if err != nil {
		return s, err
	}
	defer repo.Close()
	if err := repo.Into(ctx, st.Workspace(), &task); err != nil {
		return s, err
	}
	id, err := to.Start(ctx, task)
	if err != nil {
		return s, err
	}
	return follow.Run(ctx, c.App, to, id, follow.Gates{Yes: c.yes, Alone: true, Leave: true})
}
