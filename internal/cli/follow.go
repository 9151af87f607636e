package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// follower shows a run until it ends or pauses, and answers its gates.
type follower struct {
	app *app
	c   *client.Client
	id  string
	// yes approves every gate; alone says that nobody else could.
	yes, alone bool
	show       *show
	state      run.State
	// open are the gates to ask about, the first of them asked now as asking.
	open   []*events.GateOpenedData
	asking *question
}

// errWaits means that a run waits for a person and nobody here can answer.
var errWaits = errors.New("the run waits for a person")

// follow shows a run and turns its end into an exit code. It returns the last state it saw.
func (a *app) follow(ctx context.Context, c *client.Client, id string, yes, alone bool) (run.State, error) {
	f := &follower{app: a, c: c, id: id, yes: yes, alone: alone, show: a.show(ctx)}
	err := f.watch(ctx)
	if f.asking != nil {
		f.asking.gone(true)
	}
	f.show.close()
	switch {
	case f.state.Status.Ended() || f.state.Status == events.Paused:
		return f.state, a.verdict(f.state, f.show.tree)
	case ctx.Err() != nil:
		return f.state, exitWith(exitInterrupted, nil)
	}
	return f.state, err
}

type arrival struct {
	item client.Item
	err  error
}

// arrivals gives the facts of a run as they come, and ends as Watch does. stop ends it, and waits until it has.
func arrivals(ctx context.Context, c *client.Client, runID string) (items <-chan arrival, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	come, gone := make(chan arrival), make(chan struct{})
	go func() {
		defer close(gone)
		defer close(come)
		for item, err := range c.Watch(ctx, runID, 0) {
			select {
			case come <- arrival{item, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return come, func() { cancel(); <-gone }
}

func (f *follower) watch(ctx context.Context) error {
	items, stop := arrivals(ctx, f.c, f.id)
	defer stop()
	if f.show.tree || f.show.text != nil {
		stop, err := f.c.Stream(ctx, f.id, f.show.piece)
		if err != nil {
			return err
		}
		defer stop()
	}
	for {
		var typed <-chan []byte
		if f.asking != nil {
			typed = f.app.keys.next()
		}
		select {
		case a, ok := <-items:
			if !ok || a.err != nil {
				return a.err
			}
			if end, err := f.fact(ctx, a.item); end || err != nil {
				return err
			}
		case line, ok := <-typed:
			if err := f.typed(ctx, string(line), ok); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fact shows one, and sees to the gate that it opens or closes. end is true where there is nothing more to watch.
func (f *follower) fact(ctx context.Context, item client.Item) (end bool, err error) {
	f.state = item.State
	f.show.fact(item)
	switch d := item.Payload.(type) {
	case *events.GateOpenedData:
		err = f.opened(ctx, d)
	case *events.GateApprovedData:
		f.closed(ctx, d.Gate)
	case *events.GateRejectedData:
		f.closed(ctx, d.Gate)
	case *events.GateExpiredData:
		f.closed(ctx, d.Gate)
	}
	return f.state.Status == events.Paused || f.state.Status.Ended(), err
}

func (f *follower) opened(ctx context.Context, g *events.GateOpenedData) error {
	// The fact may be an old one of a run that is taken up again.
	if s, err := f.c.State(ctx, f.id); err == nil && s.Gate(g.Gate) != nil && s.Gate(g.Gate).Status != run.GatePending {
		return nil
	}
	switch {
	case f.yes:
		return f.answer(ctx, g, verdict{yes: true})
	case f.app.canAsk():
		f.open = append(f.open, g)
		f.ask(ctx)
		return nil
	case f.alone && f.app.alone:
		return fmt.Errorf("%w: %s, or reject", errWaits, f.app.command("approve", f.id+"/"+g.Gate))
	case f.alone:
		return errWaits
	}
	fmt.Fprintf(f.app.err, "The run waits for a person: %s\n", f.app.command("approve", f.id+"/"+g.Gate))
	return nil
}

// ask puts the next gate to the person.
func (f *follower) ask(ctx context.Context) {
	if f.asking == nil && len(f.open) > 0 {
		f.asking = f.app.question(ctx, f.show, f.open[0])
	}
}

// closed forgets a gate that somebody has answered, here or elsewhere.
func (f *follower) closed(ctx context.Context, id string) {
	if f.asking != nil && f.asking.gate.Gate == id {
		f.asking.gone(true)
		f.asking = nil
	}
	f.open = slices.DeleteFunc(f.open, func(g *events.GateOpenedData) bool { return g.Gate == id })
	f.ask(ctx)
}

func (f *follower) typed(ctx context.Context, line string, ok bool) error {
	v, done := verdict{leave: true}, true
	if ok {
		v, done = f.asking.typed(line)
	}
	if !done {
		return nil
	}
	g := f.asking.gate
	f.asking.gone(!ok)
	f.asking, f.open = nil, f.open[1:]
	if !v.leave {
		if err := f.answer(ctx, g, v); err != nil {
			return err
		}
	} else if f.alone {
		return errWaits
	}
	f.ask(ctx)
	return nil
}

// answer answers a gate. That somebody else was faster is no failure.
func (f *follower) answer(ctx context.Context, g *events.GateOpenedData, v verdict) error {
	wait, cancel := context.WithTimeout(ctx, f.app.wait)
	defer cancel()
	d := client.Decision{Run: f.id, Gate: g.Gate, By: f.app.me(), Reason: v.reason, Hash: g.ProposalHash}
	say := f.c.Approve
	if !v.yes {
		say = f.c.Reject
	}
	_, err := say(wait, d)
	if r, ok := errors.AsType[*client.RefusedError](err); ok && (r.Code == "gate_closed" || r.Code == "run_ended") {
		return nil
	}
	return err
}

// seeMore begins the line of a command that shows why a run failed.
const seeMore = "To see more: "

// verdict turns the last state of a run into an exit code. drawn says that the tree has told the rest.
func (a *app) verdict(s run.State, drawn bool) error {
	switch s.Status {
	case events.Completed:
		if !a.json && s.Result.Output != "" {
			fmt.Fprintf(a.out, "\n%s\n", harmless(s.Result.Output))
		}
		return nil
	case events.Paused:
		why := fmt.Errorf("the run is paused (%s)", cmp.Or(s.PauseReason, "no reason given"))
		if a.ownStore == "" || a.alone {
			why = fmt.Errorf("%w; go on with: %s", why, a.command("resume", s.HarnessID))
		}
		return exitWith(exitPaused, why) // what a station of this process needs is said when it has ended
	case events.Failed:
		if a.json {
			return exitWith(exitFailed, nil) // the last event has said why
		}
		why := errors.New("the run failed") // the tree has said why
		if !drawn {
			why = fmt.Errorf("%w (%s): %s", why, s.Result.FinishReason, harmless(s.Result.Error))
		}
		return exitWith(exitFailed, fmt.Errorf("%w\n%s%s", why, seeMore, a.command("inspect", s.HarnessID)))
	case events.Created, events.Running:
	}
	return nil
}
