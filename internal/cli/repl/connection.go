package repl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/cli/follow"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// errNotSent means that the station cannot be reached and nothing was sent to it.
var errNotSent = errors.New("nothing was sent")

// awayText says that the station cannot be reached.
func (r *repl) awayText() string {
	return fmt.Sprintf("station %s at %s is away, trying again", r.c.Station(), r.app.Address())
}

// awaitConnection waits until there is a connection: for a person as long as they like, else for a while.
func (r *repl) awaitConnection(ctx context.Context, c *terminal.Canvas) error {
	if r.c.Connected() {
		return nil
	}
	defer c.Clear()
	p, tick := r.app.Paint(), time.NewTicker(follow.RedrawEvery)
	defer tick.Stop()
	var limit <-chan time.Time
	if !r.input.Interactive() {
		limit = time.After(r.app.Wait)
	}
	for n := 0; !r.c.Connected(); n++ {
		if c.TTY {
			width, _ := c.Size()
			c.Draw([]string{terminal.Fit("  "+p.Cyan(runtree.Spinner[n%len(runtree.Spinner)])+" "+p.Yellow(r.awayText())+
				p.Dim(" · Ctrl+C gives up"), width)})
		}
		select {
		case <-tick.C:
		case <-r.breaks:
			return errNotSent
		case <-limit:
			return errNotSent
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// watch gives a person the run's text as it comes. Where the connection is lost meanwhile it waits and watches again.
func (t *turnRun) watch(ctx context.Context, live chan<- client.Piece) (stop func(), err error) {
	for {
		if err := t.r.awaitConnection(ctx, &t.canvas); err != nil {
			return nil, err
		}
		if !t.r.app.Term.TTY {
			return func() {}, nil
		}
		stop, err := t.c.Stream(ctx, t.id, func(p client.Piece) {
			select {
			case live <- p:
			case <-ctx.Done():
			}
		})
		if err == nil || t.c.Connected() {
			return stop, err
		}
	}
}

// start dispatches the task. Where the connection is lost meanwhile it is sent again when it is back: a task has one
// run, however often it comes.
func (t *turnRun) start(ctx context.Context, task events.Task) error {
	for {
		wait, cancel := context.WithTimeout(ctx, t.r.app.Wait)
		_, err := t.c.Start(wait, task)
		cancel()
		if err == nil || t.c.Connected() {
			return err
		}
		if err := t.r.awaitConnection(ctx, &t.canvas); err != nil {
			return err
		}
	}
}
