package merge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// stepReport is what the calls of a step changed, for programs.
type stepReport struct {
	Run   string       `json:"run"`
	Step  string       `json:"step"`
	Calls []callReport `json:"calls"`
	// Unseen are the calls that may have changed files without a diff.
	Unseen []callReport `json:"unseen"`
}

type callReport struct {
	Call string `json:"call"`
	Tool string `json:"tool"`
	Diff string `json:"diff,omitempty"`
}

// ofStep prints what the calls of a step changed, as far as the events of the run say.
func (a *diffCommand) ofStep(ctx context.Context, c *client.Client, id string) error {
	if a.stat {
		return app.Exit(app.ExitUsage, errors.New("--stat is for all that a run changed: leave out --step or --stat"))
	}
	s, err := c.State(ctx, id)
	if err != nil {
		return err
	}
	step, err := stepOf(s, a.step)
	if err != nil {
		return err
	}
	out := stepReport{Run: id, Step: step, Calls: []callReport{}, Unseen: []callReport{}}
	if err := out.read(ctx, c); err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(out)
	}
	for _, call := range out.Calls {
		if a.App.Term.TTY {
			fmt.Fprintln(a.App.Out, a.App.Paint().Dim("call "+call.Call+" "+call.Tool))
			a.print(call.Diff)
			continue
		}
		fmt.Fprintln(a.App.Out, call.Diff)
	}
	if len(out.Calls) == 0 {
		fmt.Fprintf(a.App.Err, "No call of edit, write or apply_patch in step %s of %s has changed a file.\n", step, id)
	}
	if names := out.unseen(); names != "" {
		fmt.Fprintf(a.App.Err, "What these calls of the step changed is in no event: %s. Once the run has ended, %s shows all that it changed.\n",
			names, a.App.CommandLine("diff", id))
	}
	return nil
}

// stepOf is the step of a run that a person means, by its name or its number.
func stepOf(s run.State, given string) (string, error) {
	var known, agents []string
	if s.Plan != nil {
		for _, st := range s.Plan.Steps {
			if known = append(known, st.ID); st.Kind == "" {
				agents = append(agents, st.ID) // those of the harness have no number
			}
		}
	}
	n, err := strconv.Atoi(given)
	switch {
	case slices.Contains(known, given):
		return given, nil
	case err == nil && n >= 1 && n <= len(agents):
		return agents[n-1], nil
	case len(known) == 0:
		return "", app.Exit(app.ExitUsage, fmt.Errorf("run %s has no plan yet, and so no step", s.HarnessID))
	}
	return "", app.Exit(app.ExitUsage, fmt.Errorf("run %s has no step %q: %s", s.HarnessID, given,
		didyoumean.Hint(given, known, "its steps are "+strings.Join(agents, ", "))))
}

// read reads the events of the run.
func (r *stepReport) read(ctx context.Context, c *client.Client) error {
	inputs, gates, began := map[string]json.RawMessage{}, map[string]string{}, map[string]bool{}
	for item, err := range c.Events(ctx, r.Run, 1) {
		if err != nil {
			return err
		}
		switch d := item.Payload.(type) {
		case *events.TurnFinishedData:
			for _, call := range d.Calls {
				if d.Step != r.Step {
					continue
				}
				if inputs[call.ID] = call.Input; call.InputRef != nil {
					if inputs[call.ID], err = c.Object(ctx, *call.InputRef); err != nil {
						return err
					}
				}
			}
		case *events.GateOpenedData:
			gates[d.Gate] = d.Call
		case *events.GateApprovedData:
			if len(d.EditedInput) > 0 {
				inputs[gates[d.Gate]] = d.EditedInput
			}
		case *events.CallStartedData: // of a tool that may change something
			began[d.Call] = true
		case *events.CallFinishedData:
			if d.Step != r.Step {
				continue
			}
			output := d.Output
			if d.OutputRef != nil {
				whole, err := c.Object(ctx, *d.OutputRef)
				if err != nil {
					return err
				}
				output = string(whole)
			}
			diff := ""
			if d.Success {
				diff = view.Changed(d.Tool, inputs[d.Call], output)
			}
			if diff != "" {
				r.Calls = append(r.Calls, callReport{d.Call, d.Tool, diff})
			} else if began[d.Call] && !view.Unchanged(d.Tool, d.Success, output) {
				r.Unseen = append(r.Unseen, callReport{Call: d.Call, Tool: d.Tool})
			}
			delete(inputs, d.Call)
		case *events.CallFailedData:
			if d.Step == r.Step && began[d.Call] {
				r.Unseen = append(r.Unseen, callReport{Call: d.Call, Tool: d.Tool})
			}
		}
	}
	return nil
}

// unseen names the calls that may have changed files, by tool.
func (r *stepReport) unseen() string {
	var names []string
	counts := map[string]int{}
	for _, call := range r.Unseen {
		if counts[call.Tool]++; counts[call.Tool] == 1 {
			names = append(names, call.Tool)
		}
	}
	for i, name := range names {
		names[i] = view.Plural(counts[name], "call") + " of " + view.Clip(name, 60)
	}
	return strings.Join(names, ", ")
}
