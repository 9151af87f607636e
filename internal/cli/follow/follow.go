// Package follow shows a run while it goes on, as a tree, as text or as events, and answers its gates until it ends or
// pauses.
package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/gateprompt"
	"github.com/inspan/inspan/internal/cli/notices"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Follower shows a run until it ends or pauses, and answers its gates.
type Follower struct {
	App    *app.App
	Client *client.Client
	RunID  string
	gates  Gates
	show   *Show
	state  run.State
	// open are the gates to ask about, the first of them asked now as asking.
	open   []*events.GateOpenedData
	asking *Question
	person *notices.Person
}

// Gates says what becomes of the gates of a run that is watched.
type Gates struct {
	// Yes approves every gate. Alone is true where no other client can answer one.
	Yes, Alone bool
	// Leave ends the watching at a gate that no person can be asked about.
	Leave bool
	// Since is the last event of the past: a pause up to it ends nothing, and lines are printed of what comes after.
	Since uint64
}

// Run shows a run and turns its end into an exit code. It returns the last state it saw.
func Run(ctx context.Context, a *app.App, c *client.Client, id string, gates Gates) (run.State, error) {
	f := &Follower{App: a, Client: c, RunID: id, gates: gates, person: notices.At(a), show: NewShow(ctx, a)}
	defer f.person.Close()
	err := f.watch(ctx)
	if f.asking != nil {
		f.asking.close(true)
	}
	f.show.Close()
	switch {
	case f.state.Status.Ended() || f.state.Halted():
		return f.state, exitOf(a, f.state, f.show.tree)
	case ctx.Err() != nil:
		return f.state, app.Exit(app.ExitInterrupted, nil)
	}
	return f.state, err
}

// Arrival is the next event of a run, or the error that ends the watch.
type Arrival struct {
	Item client.Item
	Err  error
}

// Arrivals gives the events of a run as they come, and ends as Watch does. stop ends it, and waits until it has.
func Arrivals(ctx context.Context, c *client.Client, runID string) (items <-chan Arrival, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	come, gone := make(chan Arrival), make(chan struct{})
	go func() {
		defer close(gone)
		defer close(come)
		for item, err := range c.Watch(ctx, runID, 0) {
			select {
			case come <- Arrival{item, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return come, func() { cancel(); <-gone }
}

func (f *Follower) watch(ctx context.Context) error {
	items, stop := Arrivals(ctx, f.Client, f.RunID)
	defer stop()
	if f.show.tree || f.show.text != nil {
		stop, err := f.Client.Stream(ctx, f.RunID, f.show.piece)
		if err != nil {
			return err
		}
		defer stop()
	}
	for {
		var typed <-chan []byte
		if f.asking != nil {
			typed = f.App.Keys.Next()
		}
		select {
		case a, ok := <-items:
			if !ok || a.Err != nil {
				return a.Err
			}
			if end, err := f.event(ctx, a.Item); end || err != nil {
				return err
			}
		case line, ok := <-typed:
			if err := f.typed(ctx, string(line), ok); err != nil {
				return err
			}
		case text := <-f.App.Notices:
			f.notice(text)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// notice shows a line that is not about the run.
func (f *Follower) notice(text string) {
	lines := strings.Split(f.App.Wrapped(text, 0), "\n")
	if f.asking != nil {
		f.asking.interrupt(lines)
		return
	}
	for _, l := range lines {
		Notice(f.App, f.show, l)
	}
}

// event shows one, and sees to the gate that it opens or closes. end is true where there is nothing more to watch.
func (f *Follower) event(ctx context.Context, item client.Item) (end bool, err error) {
	f.state = item.State
	past := item.Event.Sequence <= f.gates.Since
	if !past || f.show.tree {
		f.show.Event(item)
	}
	switch d := item.Payload.(type) {
	case *events.GateOpenedData:
		err = f.opened(ctx, item, d)
	case *events.CallPreviewedData:
		if f.asking != nil && f.asking.gate.Gate == d.Gate {
			f.asking.preview(ctx, f.Client, d)
		}
	case *events.GateApprovedData:
		f.closed(ctx, d.Gate)
	case *events.GateRejectedData:
		f.closed(ctx, d.Gate)
	case *events.GateExpiredData:
		f.closed(ctx, d.Gate)
	case *events.RunCompletedData, *events.RunFailedData, *events.RunPausedData:
		f.person.Saw(item)
	}
	if err == nil && f.state.Halted() && !past {
		return f.rests(ctx, item), nil
	}
	return f.state.Status.Ended(), err
}

// rests reports whether an event after which the run is paused is the last one that it has: the pause of a run that is
// shown from its beginning may be over.
func (f *Follower) rests(ctx context.Context, item client.Item) bool {
	s, err := f.Client.State(ctx, f.RunID)
	return err != nil || s.Sequence <= item.Event.Sequence
}

func (f *Follower) opened(ctx context.Context, item client.Item, g *events.GateOpenedData) error {
	// The event may be an old one of a run that is taken up again.
	if s, err := f.Client.State(ctx, f.RunID); err == nil && s.Gate(g.Gate) != nil &&
		s.Gate(g.Gate).Status != run.GatePending {
		return nil
	}
	if f.gates.Yes {
		return f.Answer(ctx, g, gateprompt.Answer{Yes: true})
	}
	f.person.Saw(item)
	switch {
	case f.App.CanAsk():
		f.open = append(f.open, g)
		f.ask(ctx)
		return nil
	case f.gates.Alone && f.App.Local:
		return fmt.Errorf("%w: %s, or reject", app.ErrWaits, f.App.CommandLine("approve", f.RunID+"/"+g.Gate))
	case f.gates.Alone:
		return app.ErrWaits
	case f.gates.Leave:
		return unasked(f.App, f.RunID, g)
	}
	fmt.Fprintf(f.App.Err, "The run waits for a person: %s\n", f.App.CommandLine("approve", f.RunID+"/"+g.Gate))
	return nil
}

// unasked is how the watching ends at a gate that no person can be asked about here.
func unasked(a *app.App, run string, g *events.GateOpenedData) error {
	at := run + "/" + g.Gate
	return fmt.Errorf("%w, and there is no terminal to ask at: %s\n  %s\n  %s\n--wait-gates waits for the answer, --yes approves every gate",
		app.ErrWaits, view.Clip(g.Description, 200), a.CommandLine("approve", at),
		a.CommandLine("reject", at, "--reason", "..."))
}

// ask puts the next gate to the person.
func (f *Follower) ask(ctx context.Context) {
	if f.asking == nil && len(f.open) > 0 {
		f.asking = ask(ctx, f.App, f.show, f.open[0])
	}
}

// closed forgets a gate that was answered, here or elsewhere.
func (f *Follower) closed(ctx context.Context, id string) {
	if f.asking != nil && f.asking.gate.Gate == id {
		f.asking.close(true)
		f.asking = nil
	}
	f.open = slices.DeleteFunc(f.open, func(g *events.GateOpenedData) bool { return g.Gate == id })
	f.ask(ctx)
}

func (f *Follower) typed(ctx context.Context, line string, ok bool) error {
	v, done := gateprompt.Answer{Leave: true}, true
	if ok {
		v, done = f.asking.typed(line)
	}
	if !done {
		return nil
	}
	f.person.Acted(time.Now())
	g := f.asking.gate
	f.asking.close(!ok)
	f.asking, f.open = nil, f.open[1:]
	if !v.Leave {
		if err := f.Answer(ctx, g, v); err != nil {
			return err
		}
	} else if f.gates.Alone {
		return app.ErrWaits
	}
	f.ask(ctx)
	return nil
}

// Answer answers a gate. That another client was faster is no failure.
func (f *Follower) Answer(ctx context.Context, g *events.GateOpenedData, v gateprompt.Answer) error {
	wait, cancel := context.WithTimeout(ctx, f.App.Wait)
	defer cancel()
	d := client.Decision{Run: f.RunID, Gate: g.Gate, By: f.App.Me(), Reason: v.Reason, Hash: g.ProposalHash,
		Always: v.Always,
		Edit:   v.Edit}
	say := f.Client.Gates().Approve
	if !v.Yes {
		say = f.Client.Gates().Reject
	}
	_, err := say(wait, d)
	if r, ok := errors.AsType[*client.RefusedError](err); ok && (r.Code == "gate_closed" || r.Code == "run_ended") {
		return nil
	}
	return err
}

// SeeMore begins the line of a command that shows why a run failed.
const SeeMore = "To see more: "

// exitOf turns the last state of a run into an exit code. drawn is true where the tree has shown the rest.
func exitOf(a *app.App, s run.State, drawn bool) error {
	switch s.Status {
	case events.Completed:
		if !a.JSON && s.Result.Output != "" {
			fmt.Fprintf(a.Out, "\n%s\n", terminal.Sanitize(s.Result.Output))
		}
		return nil
	case events.Paused:
		why := fmt.Errorf("the run is paused (%s)", cmp.Or(s.PauseReason, "no reason given"))
		if a.OwnStore == "" || a.Local {
			why = fmt.Errorf("%w; go on with: %s", why, a.CommandLine("resume", s.HarnessID))
		}
		return app.Exit(app.ExitPaused, why) // what a station of this process needs is printed when it has ended
	case events.Failed:
		if a.JSON {
			return app.Exit(app.ExitFailed, nil) // the last event has the reason
		}
		why := errors.New("the run failed") // the tree has shown why
		if view.Stopped(*s.Result) {
			why = errors.New("the run was stopped")
		}
		if !drawn {
			why = fmt.Errorf("%w (%s): %s", why, s.Result.FinishReason, terminal.Sanitize(s.Result.Error))
		}
		return app.Exit(app.ExitFailed, fmt.Errorf("%w\n%s%s", why, SeeMore, a.CommandLine("inspect", s.HarnessID)))
	case events.Created, events.Running:
	}
	return nil
}
