package colony

import (
	"cmp"
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// View is what the named agents of a station do at a time.
type View struct {
	At      time.Time `json:"at"`
	Station string    `json:"station"`
	Agents  []Member  `json:"agents"`
	// Open are the work items that no agent holds, Bound those that one does.
	Open  int `json:"work_open"`
	Bound int `json:"work_bound"`
	// Missing are the parts that could not be read.
	Missing []string `json:"missing,omitempty"`
}

// Member is a named agent.
type Member struct {
	Agent      string    `json:"agent"`
	State      string    `json:"state"`
	Since      time.Time `json:"since"`
	Definition string    `json:"definition"`
	Epoch      int       `json:"epoch"`
	Run        string    `json:"run,omitempty"`
	// Doing is the step that the run is at, or the work that waits for the next run; Work is the work item.
	Doing string `json:"doing,omitempty"`
	Work  string `json:"work,omitempty"`
	Mail  int    `json:"mail"`
	Gates int    `json:"gates"`
	// Cost and Tokens of its run and of the last runs that its row names.
	Cost   events.MicroUSD    `json:"cost_micro_usd"`
	Tokens int                `json:"tokens"`
	Alert  *events.AgentAlert `json:"alert,omitempty"`
}

// colonyCommand is inspan colony.
type colonyCommand struct {
	App   *app.App
	once  bool
	every time.Duration
}

// Command makes inspan colony.
func Command(a *app.App) *cobra.Command {
	c := &colonyCommand{App: a}
	cmd := &cobra.Command{Use: "colony", Short: "Show the named agents: state, work, mail, gates, cost",
		Long: `Shows each named agent on a line, drawn again in place until Ctrl+C, those that need a person first: what it does and since when, its run
and step, the mail and the gates that wait, and what its last runs cost.

Without a terminal, and with --once, it prints one overview. With --json each overview is a line, until Ctrl+C or, with --once, one.
It needs no more rights than watching.`,
		Example: "  inspan colony\n  inspan colony --once\n  inspan colony --once --json | jq '.agents[] | select(.state == \"stuck\")'",
		Args:    app.Args(0), RunE: a.Connected(c.run)}
	cmd.AddCommand(haltCmd(a))
	cmd.Flags().BoolVar(&c.once, "once", false, "print one overview and end")
	cmd.Flags().DurationVar(&c.every, "every", 2*time.Second, "time between two overviews, 500ms or more")
	return cmd
}

func (a *colonyCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	if a.every < 500*time.Millisecond {
		return app.Usage("--every %s: want 500ms or more", a.every)
	}
	once := a.once || !a.App.JSON && !a.App.Term.TTY
	canvas, last := terminal.Canvas{Screen: a.App.Term}, View{}
	for {
		one, cancel := context.WithTimeout(ctx, a.App.Wait)
		v, err := read(one, c, time.Now().In(a.App.Zone()))
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the person ended it
		case err != nil && (once || a.App.JSON || last.Station == ""):
			return err
		}
		trouble := ""
		if err != nil {
			trouble, v = "no answer since "+last.At.Format("15:04:05"), last
		}
		last = v
		if err := a.show(&canvas, v, trouble); err != nil || once {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(a.every):
		}
	}
}

func (a *colonyCommand) show(canvas *terminal.Canvas, v View, trouble string) error {
	if a.App.JSON {
		return a.App.PrintJSONLine(v)
	}
	width, height := a.App.Term.Size()
	lines := drawing{Printer: a.App.Printer, width: width, height: height}.lines(v, trouble)
	if a.App.Term.TTY && !a.once {
		canvas.Draw(lines)
		return nil
	}
	for _, l := range lines {
		fmt.Fprintln(a.App.Out, l)
	}
	return nil
}

// read reads what the agents do. Only the rows of the agents must be there; what else is missing is named.
func read(ctx context.Context, c *client.Client, now time.Time) (View, error) {
	v := View{At: now, Station: c.Station(), Agents: []Member{}}
	boxes, err := client.NewMail(c).List(ctx)
	if err != nil {
		return v, err
	}
	infos := map[string]run.Info{}
	runs, err := c.Runs().List(ctx)
	if err != nil {
		v.Missing = append(v.Missing, "runs")
	}
	for _, i := range runs {
		infos[i.HarnessID] = i
	}
	items, err := client.NewWorkItems(c).List(ctx)
	if err != nil {
		v.Missing = append(v.Missing, "work items")
	}
	held := map[string]string{} // who holds what is read from the items
	for _, i := range items {
		if i.Binding != nil {
			held[i.Binding.Address] = i.ID
		}
		switch i.Status {
		case events.WorkIsOpen:
			v.Open++
		case events.WorkIsBound:
			v.Bound++
		case events.WorkIsClosed:
		}
	}
	of := quotas(boxes)
	for _, m := range boxes {
		if m.Form != events.AgentAddress {
			continue
		}
		o := member(m, infos)
		if id := held[m.Address]; id != "" {
			o.Work = id
		}
		if text := waitsFor(m, of); text != "" {
			o.State, o.Doing = "waiting", text
		}
		v.Agents = append(v.Agents, o)
	}
	sort.SliceStable(v.Agents, func(i, j int) bool {
		a, b := v.Agents[i], v.Agents[j]
		return cmp.Or(cmp.Compare(urgency(a), urgency(b)), cmp.Compare(a.Agent, b.Agent)) < 0
	})
	return v, nil
}

// urgency orders agents: those that need a person first, then those at work.
func urgency(m Member) int {
	switch {
	case m.Alert != nil && m.Alert.SeenBy == "", m.State == mailbox.IsDied:
		return 0
	case m.Gates > 0:
		return 1
	case m.Run != "":
		return 2
	}
	return 3
}

// member is an agent with what its runs did.
func member(m events.Mailbox, infos map[string]run.Info) Member {
	o := Member{Agent: m.Address, State: mailbox.StateOf(m), Since: m.UpdatedAt, Definition: m.Spec.Agent, Epoch: m.Epoch,
		Mail:  len(m.Pending),
		Alert: m.Life.Alert}
	if n := len(m.Life.Past); n > 0 && m.Holder == nil {
		o.Since = m.Life.Past[n-1].At
	}
	add := func(id string) run.Info {
		i := infos[id]
		o.Cost, o.Tokens = o.Cost+i.Cost+i.Lost.Cost, o.Tokens+i.InputTokens+i.OutputTokens
		return i
	}
	for _, p := range m.Life.Past {
		add(p.Run)
	}
	if a := m.Life.Account; a != nil {
		o.Work = a.Work
		if m.Holder == nil {
			o.Doing = "goes on: " + strings.Join(strings.Fields(a.Summary), " ")
		}
	}
	if h := m.Holder; h != nil {
		i := add(h.Run)
		o.Run, o.Since, o.Gates, o.Doing = h.Run, h.Since, len(i.Gates), i.CurrentStep
		if o.State == mailbox.IsStarting && i.Turns > 0 { // its row is behind the index
			o.State = mailbox.IsWorking
		}
		if len(i.Gates) > 0 {
			o.Doing = "gate: " + i.Gates[0].Description
		}
	}
	if o.Alert != nil {
		o.Doing = o.Alert.Text
	}
	return o
}
