package firstrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/scaffold"
	"github.com/inspan/inspan/internal/scaffold/project"
	"github.com/inspan/inspan/internal/trust"
	"github.com/inspan/inspan/pkg/events"
)

// Builtin is the name of the agent for directories that have none.
const Builtin = "coder"

// conversation returns the command line of the conversation about the working directory; none where there is no model
// for it, which was said.
func conversation(ctx context.Context, a *app.App) ([]string, error) {
	names, err := running(ctx, a)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return talkTo(ctx, a, names)
	}
	if names, err = ofDirectory(a); err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return talkTo(ctx, a, names)
	}
	return builtin(a)
}

// running are the agents of the station that runs; none where none does.
func running(ctx context.Context, a *app.App) ([]string, error) {
	if a.Local {
		return nil, nil
	}
	c, err := a.Connect(ctx)
	if errors.Is(err, app.ErrNoServer) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	wait, cancel := context.WithTimeout(ctx, a.Wait)
	defer cancel()
	all, err := c.Agents(wait)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, agent := range all {
		names = append(names, agent.Name)
	}
	if len(names) == 0 {
		return nil, app.Usage("the station at %s has no agents: start it with --agents DIR; inspan init --project makes one",
			a.Address())
	}
	return names, nil
}

// ofDirectory are the agents that the directory or the settings have.
func ofDirectory(a *app.App) ([]string, error) {
	l := app.OwnStation{Agents: a.Lookup("INSPAN_AGENTS", "")}
	l.Guess()
	if l.Agents == "" {
		return nil, nil
	}
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	all, _, err := cfg.AgentDefaults.LoadDir(l.Agents)
	if err != nil {
		return nil, app.Usage("agents in %s: %w", l.Agents, err)
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// talkTo chooses one of several agents: the configured one, the only one, or the one that a person names.
func talkTo(ctx context.Context, a *app.App, names []string) ([]string, error) {
	if want := a.Lookup("INSPAN_AGENT", ""); slices.Contains(names, want) {
		return []string{"repl", want}, nil
	}
	if i := slices.Index(names, Builtin); i > 0 {
		names = append([]string{Builtin}, slices.Delete(slices.Clone(names), i, i+1)...)
	}
	if len(names) == 1 {
		return []string{"repl", names[0]}, nil
	}
	s, p := newSetup(a), a.Paint()
	fmt.Fprintln(a.Out, p.Bold("Which agent?")+p.Dim("  (inspan config set agent NAME --project answers this for good)"))
	for i, n := range names {
		fmt.Fprintf(a.Out, "  %s  %s\n", p.Cyan(fmt.Sprintf("%2d", i+1)), n)
	}
	i, err := s.number(ctx, "Number", len(names))
	if err != nil {
		return nil, s.left(err)
	}
	return []string{"repl", names[i]}, nil
}

// builtin is the conversation with the agent of this program.
func builtin(a *app.App) ([]string, error) {
	dir, err := Agents(a)()
	if err != nil {
		return nil, err
	}
	if dir == "" {
		p := a.Paint()
		fmt.Fprintln(a.Out, p.Bold("There is no model yet, and no agent in this directory."))
		newSetup(a).next(false)
		return nil, nil
	}
	return []string{"repl", Builtin, "--agents", dir}, nil
}

// Agents is app.Finders.Builtin. The file of the agent is this program's own, below the folder for what it keeps, so
// that nothing is put into the directory but the station's store.
func Agents(a *app.App) func() (string, error) {
	return func() (string, error) { return builtinDir(a.DefaultModel()) }
}

func builtinDir(model string) (string, error) {
	if model == "" {
		return "", nil
	}
	files, err := project.Look(".")
	if err != nil {
		return "", err
	}
	data, _, err := scaffold.Agent{Name: Builtin, Template: "coding", Model: model, Sandbox: "auto",
		Project: project.Detect(files)}.File()
	if err != nil {
		return "", app.Usage("the built-in agent with model %s: %w", model, err)
	}
	home, err := trust.Home()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(home, "builtin", events.HashOf(data)[:16]) // one for each kind of project
	path := filepath.Join(dir, Builtin+".prompt")
	if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, data) {
		if _, err := app.WriteFile(path, data, true); err != nil {
			return "", fmt.Errorf("the built-in agent: %w", err)
		}
	}
	return dir, nil
}
