package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// errAway means that the station can not be reached and nothing was sent to it.
var errAway = errors.New("nothing was sent")

// away says that the station can not be reached.
func (r *repl) away() string {
	return fmt.Sprintf("station %s at %s is away, trying again", r.c.Station(), r.app.address())
}

// reached waits until there is a connection: for a person as long as they like, else for a while.
func (r *repl) reached(ctx context.Context, c *canvas) error {
	if r.c.Connected() {
		return nil
	}
	defer c.clear()
	p, tick := r.app.paint(), time.NewTicker(redraw)
	defer tick.Stop()
	var limit <-chan time.Time
	if !r.input.live() {
		limit = time.After(r.app.wait)
	}
	for n := 0; !r.c.Connected(); n++ {
		if c.tty {
			width, _ := c.size()
			c.draw([]string{fit("  "+p.cyan(spinner[n%len(spinner)])+" "+p.yellow(r.away())+p.dim(" · Ctrl+C gives up"), width)})
		}
		select {
		case <-tick.C:
		case <-r.breaks:
			return errAway
		case <-limit:
			return errAway
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// watch gives a person the run's text as it comes. Where the connection is lost meanwhile it waits and watches again.
func (t *replRun) watch(ctx context.Context, live chan<- client.Piece) (stop func(), err error) {
	for {
		if err := t.r.reached(ctx, &t.canvas); err != nil {
			return nil, err
		}
		if !t.r.app.term.tty {
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

// start dispatches the task. Where the connection is lost meanwhile it is sent again when it is back: a task has one run,
// however often it comes.
func (t *replRun) start(ctx context.Context, task events.Task) error {
	for {
		wait, cancel := context.WithTimeout(ctx, t.r.app.wait)
		_, err := t.c.Start(wait, task)
		cancel()
		if err == nil || t.c.Connected() {
			return err
		}
		if err := t.r.reached(ctx, &t.canvas); err != nil {
			return err
		}
	}
}
