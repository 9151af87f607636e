package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/follow"
	"github.com/inspan/inspan/internal/demo"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// demoCommand is inspan demo.
type demoCommand struct {
	App       *app.App
	options   demo.Options
	yes, keep bool
	examples  string
}

// Demo makes inspan demo.
func Demo(a *app.App) *cobra.Command {
	c := &demoCommand{App: a}
	cmd := &cobra.Command{
		Use: "demo", Short: "See an agent repair a real Go module, with a gate before the commit",
		Long: `Starts a station in this process, makes a git repository of a small Go module, whose tests fail, and lets the agent
"fixer" find the cause, fix it, prove it with the real go test, and commit behind a gate. The model is scripted unless
another is named with --model or MODEL and its key is set; everything else is real. The agent is not believed: acceptance
checks decide that it is done, on exactly the commit that the run delivers. There is one, nothing is left over, and the
tests pass, as they were before. The demo fails where one of these does not hold.

It needs git and nothing else: the examples are in this program. Without Go it says what it did not verify. Without a terminal
it approves its gate by itself and says so.`,
		Example: "  inspan demo\n  inspan demo --yes\n  MODEL=anthropic/claude-sonnet-5-5 inspan demo",
		Args:    app.Args(0),
		RunE:    c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.examples, "examples", "",
		"folder of other examples, with agents, scripts and testdata/invoice; those in this program if not given")
	f.StringVar(&c.options.Model, "model", a.Lookup("MODEL", ""),
		"model instead of the scripted one, provider/name (MODEL)")
	f.StringVar(&c.options.Sandbox, "sandbox", "auto", "auto, bwrap, landlock or host")
	f.BoolVarP(&c.yes, "yes", "y", false, "approve the gate without asking")
	f.BoolVar(&c.keep, "keep", false, "keep the demo's folder")
	return cmd
}

func (a *demoCommand) run(cmd *cobra.Command, _ []string) error {
	var err error
	if a.options.Base, err = a.App.Config(); err != nil {
		return err
	}
	if a.options.Log, err = a.App.Logger(); err != nil {
		return err
	}
	if a.options.Store, err = os.MkdirTemp("", "inspan-demo-"); err != nil {
		return fmt.Errorf("folder of the demo: %w", err)
	}
	if !a.keep {
		defer func() { _ = os.RemoveAll(a.options.Store) }() // it is in the system's place for temporary files
	}
	if a.examples != "" {
		a.options.Examples = os.DirFS(a.examples)
	}
	err = runDemo(cmd.Context(), a.App, a.options, a.yes)
	if a.keep {
		fmt.Fprintf(a.App.Err, "The demo's folder is %s.\n", a.options.Store)
	}
	return err
}

func runDemo(ctx context.Context, a *app.App, o demo.Options, yes bool) error {
	// The tree is drawn between the demo's own words: it begins with the first event and ends before the report.
	var s *follow.Show
	o.Out = a.Out
	o.See = func(f events.Event, p events.Payload, after run.State) {
		if s == nil {
			s = follow.NewShow(ctx, a)
		}
		b, err := json.Marshal(f)
		if err != nil {
			return
		}
		s.Event(client.Item{Event: f, Payload: p, Bytes: b, State: after})
		if after.Status.Ended() || after.Status == events.Paused {
			s.Close()
			s = nil
		}
	}
	o.Approve = func(ctx context.Context, g *events.GateOpenedData) (bool, string, error) {
		if yes {
			return true, "", nil
		}
		if !a.CanAsk() {
			follow.Notice(a, s, "There is no terminal to ask at: the demo approves its gate by itself.")
			return true, "", nil
		}
		v := follow.AskNow(ctx, a, s, g)
		if v.Leave {
			return false, "", app.Exit(app.ExitPaused, errors.New("the demo ends here: no one answered its gate"))
		}
		return v.Yes, v.Reason, nil
	}
	err := demo.Run(ctx, o)
	if s != nil {
		s.Close()
	}
	if errors.Is(err, demo.ErrNotDone) || errors.Is(err, demo.ErrNotVerified) {
		return app.Exit(app.ExitFailed,
			fmt.Errorf("%w\nThe demo did not do its job in sandbox %q. inspan doctor tries git in the sandbox and says what is missing; "+
				"inspan demo --keep keeps the folder to look at; inspan demo --sandbox host does without isolation", err,
				o.Sandbox))
	}
	return err
}
