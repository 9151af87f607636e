package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/demo"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func (a *app) demoCmd() *cobra.Command {
	var o demo.Options
	var yes, keep bool
	var examples string
	cmd := &cobra.Command{
		Use: "demo", Short: "See an agent repair a real Go module, with a gate before the commit",
		Long: `Starts a station in this process, makes a git repository of a small Go module, whose tests fail, and lets the agent
"fixer" find the cause, fix it, prove it with the real go test, and commit behind a gate. The model is scripted unless another
is named with --model or MODEL and its key is set; everything else is real. Then the demo looks for itself: the commit is on the
branch, the working tree is clean, and the tests pass on exactly that commit. It fails where one of these does not hold.

It needs git and nothing else: the examples are in this program. Without Go it says what it did not verify. Without a terminal
it approves its gate by itself and says so.`,
		Example: "  inspan demo\n  inspan demo --yes\n  MODEL=anthropic/claude-sonnet-4-20250514 inspan demo",
		Args:    args(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Base, err = a.config(); err != nil {
				return err
			}
			if o.Log, err = a.logger(); err != nil {
				return err
			}
			if o.Store, err = os.MkdirTemp("", "inspan-demo-"); err != nil {
				return fmt.Errorf("folder of the demo: %w", err)
			}
			if !keep {
				defer func() { _ = os.RemoveAll(o.Store) }() // it is in the system's place for temporary files
			}
			if examples != "" {
				o.Examples = os.DirFS(examples)
			}
			err = a.demo(cmd.Context(), o, yes)
			if keep {
				fmt.Fprintf(a.err, "The demo's folder is %s.\n", o.Store)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&examples, "examples", "", "folder of other examples, with agents, scripts and testdata/invoice; those in this program if not given")
	f.StringVar(&o.Model, "model", a.set("MODEL", ""), "model instead of the scripted one, provider/name (MODEL)")
	f.StringVar(&o.Sandbox, "sandbox", "auto", "auto, bwrap, landlock or host")
	f.BoolVarP(&yes, "yes", "y", false, "approve the gate without asking")
	f.BoolVar(&keep, "keep", false, "keep the demo's folder")
	return cmd
}

func (a *app) demo(ctx context.Context, o demo.Options, yes bool) error {
	// The tree is drawn between the demo's own words: it begins with the first fact and ends before the report.
	var s *show
	o.Out = a.out
	o.See = func(f events.Fact, p events.Payload, after run.State) {
		if s == nil {
			s = a.show(ctx)
		}
		b, err := json.Marshal(f)
		if err != nil {
			return
		}
		s.fact(client.Item{Fact: f, Payload: p, Bytes: b, State: after})
		if after.Status.Ended() || after.Status == events.Paused {
			s.close()
			s = nil
		}
	}
	o.Approve = func(ctx context.Context, g *events.GateOpenedData) (bool, string, error) {
		if yes {
			return true, "", nil
		}
		if !a.canAsk() {
			a.notice(s, "There is no terminal to ask at: the demo approves its gate by itself.")
			return true, "", nil
		}
		v := a.askNow(ctx, s, g)
		if v.leave {
			return false, "", exitWith(exitPaused, errors.New("the demo ends here: no one answered its gate"))
		}
		return v.yes, v.reason, nil
	}
	err := demo.Run(ctx, o)
	if s != nil {
		s.close()
	}
	if errors.Is(err, demo.ErrNotDone) || errors.Is(err, demo.ErrNotVerified) {
		return exitWith(exitFailed, fmt.Errorf("%w\nThe demo did not do its job in sandbox %q. inspan doctor tries git in the sandbox and says what is missing; "+
			"inspan demo --keep keeps the folder to look at; inspan demo --sandbox host does without isolation", err, o.Sandbox))
	}
	return err
}

// notice prints a line beside a run that is shown, and beside its tree where one is drawn. With --json it is not among the data.
func (a *app) notice(s *show, text string) {
	out := a.out
	if a.json {
		out = a.err
	}
	if s == nil || !s.tree {
		fmt.Fprintln(out, text)
		return
	}
	s.freeze()
	fmt.Fprintln(out, text)
	s.thaw(1)
}
