// Package runtimes has the commands about agents that are programs of others: list, show, check. Only check starts one.
package runtimes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/agents"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/runtime/work"
	"github.com/inspan/inspan/pkg/events"
)

// command is what the commands share.
type command struct {
	App            *app.App
	dir, sandbox   string
	network, trust bool
}

// Command makes inspan runtimes.
func Command(a *app.App) *cobra.Command {
	c := &command{App: a}
	cmd := &cobra.Command{
		Use: "runtimes", Aliases: []string{"runtime"}, Short: "List and check agents that are programs of others",
		Long: `A runtime is a program of others that works as an agent: Claude Code, Codex, OpenCode, Gemini CLI, or any program that speaks the
Agent Client Protocol. An agent file names one with runtime: NAME. Presets come with this program; the file runtimes/NAME.toml in the
folder of agents adds one or takes the place of a preset. docs/runtimes.md has the keys.`,
		Example: "  inspan runtimes list\n  inspan runtimes show codex --json\n  inspan runtimes check opencode --network",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.PersistentFlags().StringVar(&c.dir, "agents", a.Lookup("INSPAN_AGENTS", "agents"),
		"folder of agent files, with runtimes in runtimes (INSPAN_AGENTS)")
	cmd.AddCommand(c.list(), c.show(), c.check())
	return cmd
}

// load reads the runtimes of a folder of agents; one that is not there has the presets alone.
func load(dir string) (map[string]runtime.Entry, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return runtime.Load(nil)
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	all, err := runtime.Load(root.FS())
	if err != nil {
		return all, app.Exit(app.ExitUsage, fmt.Errorf("runtimes of %s: %w", dir, err))
	}
	return all, nil
}

// shown is a runtime for programs.
type shown struct {
	runtime.Entry
	Status  string   `json:"status"`
	Checked *checked `json:"checked,omitempty"`
	Command []string `json:"starts"`
}

func of(e runtime.Entry) (shown, error) {
	text, c, err := status(e)
	return shown{e, text, c, e.Runtime().Command}, err
}

func (c *command) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the runtimes that agents can name", Example: "  inspan runtimes list\n  inspan runtimes list --json",
		Args: app.Args(0),
		RunE: func(*cobra.Command, []string) error {
			all, err := load(c.dir)
			if err != nil {
				return err
			}
			l := app.Listing{Heads: []string{"NAME", "FROM", "KIND", "ASKS", "RESUMES", "STATUS", "STARTS"},
				Empty: "There are no runtimes."}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				e := all[name]
				from := filepath.Join(c.dir, runtime.Folder)
				if e.Preset {
					from = "preset"
				}
				asks := "yes"
				if e.Capabilities.Gate == events.RuntimeAsksNot {
					asks = "no"
				}
				s, err := of(e)
				if err != nil {
					return err
				}
				l.Add(name, s, name, from, e.Kind, asks, resumes[resumption(e)].short, s.Status, strings.Join(e.Runtime().Command, " "))
			}
			return c.App.Print(l)
		},
	}
}

func (c *command) find(dir, name string) (runtime.Entry, error) {
	all, err := load(dir)
	if err != nil {
		return runtime.Entry{}, err
	}
	e, ok := all[name]
	if !ok {
		return e, app.Exit(app.ExitUnknown,
			fmt.Errorf("there is no runtime %.64q: inspan runtimes list names them; add %s", name,
				filepath.Join(dir, runtime.Folder, "NAME"+runtime.Ext)))
	}
	return e, nil
}

func (c *command) show() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show what a runtime starts and how it is spoken to",
		Example: "  inspan runtimes show claude\n  inspan runtimes show claude --json", Args: app.Args(1),
		RunE: func(_ *cobra.Command, args []string) error {
			e, err := c.find(c.dir, args[0])
			if err != nil {
				return err
			}
			s, err := of(e)
			if err != nil {
				return err
			}
			if c.App.JSON {
				return c.App.PrintJSON(s)
			}
			r := e.Runtime()
			var env []string
			for _, name := range slices.Sorted(maps.Keys(r.Env)) {
				env = append(env, name+"="+r.Env[name])
			}
			c.App.Table([]string{"RUNTIME", e.Name}, [][]string{{"description", e.Description}, {"status", s.Status},
				{"driver", r.Driver}, {"starts", strings.Join(r.Command, " ")},
				{"in a sandbox also", strings.Join(r.Autonomous, " ")},
				{"asks before it acts", r.Gate}, {"resumes sessions", resumes[resumption(e)].long},
				{"environment", strings.Join(env, " ")},
				{"secrets by name", strings.Join(r.Pass, " ")},
				{"asks its model", asked(r)}, {"transcripts", strings.Join(r.Transcripts, " ")}, {"digest", r.Digest}})
			return nil
		},
	}
}

// resumption is where the session of a program goes on after the program was lost: 0 nowhere, 1 in its sandbox, 2 also
// in another one.
func resumption(e runtime.Entry) int {
	switch {
	case !e.Session.Resume:
		return 0
	case len(e.Session.Transcripts) == 0:
		return 1
	}
	return 2
}

// resumes says so.
var resumes = [...]struct{ short, long string }{
	{"no", "no: a call whose program or toolrunner is lost has an unknown outcome"},
	{"in its sandbox", "while its sandbox is there: a call whose toolrunner is lost has an unknown outcome, as no session.transcripts are stored"},
	{"anywhere", "also in another sandbox, from the transcripts that are stored"},
}

// asked says how the program of a runtime asks its model.
func asked(r events.Runtime) string {
	if r.Model == nil {
		return "by itself"
	}
	return "through the toolrunner: " + r.Model.API + " at " + r.Model.URL
}

func (c *command) check() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check NAME", Short: "Start a runtime and see whether it asks before it acts",
		Long: `Asks the program for its version and gives it one prompt, in a sandbox on an empty workspace, whose tool call is refused. It passes if
the program asked, and did not do it. The program asks its own model, which costs what that costs; its keys are files of the folder that
INSPAN_MCP_SECRETS names, and are given to it. One that asks no one is asked for its version only. The result is stored for this user on
this machine, and inspan runtimes list shows it for as long as the file of the runtime is the same.`,
		Example: "  inspan runtimes check opencode --network\n  inspan runtimes check mine --sandbox bwrap --json",
		Args:    app.Args(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&c.sandbox, "sandbox", c.App.Lookup("INSPAN_SANDBOX", "auto"),
		"sandbox to start it in (INSPAN_SANDBOX)")
	cmd.Flags().BoolVar(&c.network, "network", false, "let it reach the network, as it must to ask its model")
	cmd.Flags().BoolVar(&c.trust, "trust", false, "accept the folder of agents for this once, where it has the runtime")
	return cmd
}

func (c *command) run(ctx context.Context, name string) error {
	e, err := c.find(c.dir, name)
	if err != nil {
		return err
	}
	if !e.Preset { // it is of this directory, which may be somebody else's
		dir, err := c.App.Acceptance().Agents(ctx, c.dir, c.trust)
		if err != nil {
			return err
		}
		if e, err = c.find(dir, name); err != nil {
			return err
		}
	}
	cfg, err := c.App.Config()
	if err != nil {
		return err
	}
	_, secrets, err := cfg.ServerSecrets()
	if err != nil {
		return err
	}
	sb, remove, err := agents.OpenSandbox(ctx, c.App, c.sandbox, events.Sandbox{Network: c.network})
	if err != nil {
		return err
	}
	defer remove()
	got, err := work.Check(ctx, e.Runtime(), e.VersionArgs, sb, secrets)
	if err != nil {
		return fmt.Errorf("runtime %s, in sandbox %s: %w", name, sb.Mode(), err)
	}
	if err := keep(e, got, time.Now()); err != nil {
		return err
	}
	if c.App.JSON {
		err = c.App.PrintJSON(got)
	} else {
		fmt.Fprintf(c.App.Out, "%s: %s, in sandbox %s: %s\n", got.Name, got.Version, got.Sandbox, got.Canary)
	}
	if err == nil && !got.Passed() && got.Gate != events.RuntimeAsksNot {
		err = fmt.Errorf("runtime %s did not ask before it acted: set gate_tools = \"none\" in a file of its own, "+
			"so that it works only where a sandbox isolates it", name)
	}
	return err
}
