// Package top has inspan top: what a station does, drawn again and again. It asks only what every watcher may.
package top

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/notices"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/notify"
	"github.com/inspan/inspan/pkg/client"
)

// fastest is the shortest time between two overviews.
const fastest = 500 * time.Millisecond

// topCommand is inspan top.
type topCommand struct {
	App   *app.App
	once  bool
	every time.Duration
}

// Command makes inspan top.
func Command(a *app.App) *cobra.Command {
	c := &topCommand{App: a}
	cmd := &cobra.Command{
		Use: "top", Short: "Show what the station does: roles, queues, runs under way, gates, cost of today",
		Long: `Shows the station, drawn again in place until Ctrl+C: of each role the instances that are up, the messages that wait for it
and that it works on (open), and how long it was given nothing although something waits (lag); the runs under way, with what
each waits for (phase); the gates that wait; and what the runs cost that began today. At a terminal a gate that opens, and
a run that fails, ends or pauses by itself, call you as the settings notify.* say.

Without a terminal, and with --once, it prints one overview. With --json each overview is a line, until Ctrl+C or, with
--once, one. It needs no more rights than watching.`,
		Example: "  inspan top\n  inspan top --once\n  inspan top --json | jq '.roles[] | select(.waiting > 100)'",
		Args:    app.Args(0),
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().BoolVar(&c.once, "once", false, "print one overview and end")
	cmd.Flags().DurationVar(&c.every, "every", time.Second, "time between two overviews, 500ms or more")
	return cmd
}

func (a *topCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	if a.every < fastest {
		return app.Usage("--every %s: want %s or more", a.every, fastest)
	}
	once := a.once || !a.App.JSON && !a.App.Term.TTY
	r := &reader{c: c, zone: a.App.Zone(), phases: map[string]phase{}}
	s := &screen{App: a.App, canvas: terminal.Canvas{Screen: a.App.Term}}
	if !once && a.App.Term.TTY && !a.App.JSON && !a.App.Local {
		stop := a.call(ctx, c)
		defer stop()
	}
	for {
		one, cancel := context.WithTimeout(ctx, a.App.Wait)
		o, err := r.read(one)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the person ended it
		case err != nil && (once || a.App.JSON || s.last.Station == ""):
			return err
		}
		if err := s.show(o, err); err != nil || once {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(a.every):
		}
	}
}

// call calls the person about the runs of the station, until stop is called. Who may not follow them all is not called.
func (a *topCommand) call(ctx context.Context, c *client.Client) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	called, ended := notices.At(a.App), make(chan struct{})
	go func() {
		defer close(ended)
		from, err := c.Runs().Now(ctx, notify.Kinds()...)
		if err != nil {
			return
		}
		for p, err := range c.Runs().Follow(ctx, from) {
			if err != nil {
				return
			}
			s, err := c.State(ctx, p.Run)
			if err != nil {
				continue // it ends, or that run is for inspan audit
			}
			if n, ok := notices.Of(a.App, s, p.Event, p.Payload); ok && n.Wanted() {
				called.See(time.Now(), n)
			}
		}
	}()
	return func() { cancel(); <-ended; called.Close() }
}

// screen shows overviews.
type screen struct {
	App    *app.App
	canvas terminal.Canvas
	last   Overview
	width  int
}

// show shows an overview, or the last one where the station did not answer.
func (s *screen) show(o Overview, failed error) error {
	if s.App.JSON {
		return s.App.PrintJSONLine(o)
	}
	trouble := ""
	if failed != nil {
		trouble, o = "no answer since "+s.last.At.Format("15:04:05"), s.last
		o.At = time.Now().In(s.App.Zone())
	} else {
		s.last = o
	}
	width, height := s.App.Term.Size()
	lines := drawing{Printer: s.App.Printer, width: width, height: height}.lines(o, trouble)
	if !s.App.Term.TTY {
		for _, l := range lines {
			fmt.Fprintln(s.App.Out, l)
		}
		return nil
	}
	if s.width != 0 && s.width != width { // the terminal broke the lines that were drawn
		fmt.Fprint(s.App.Out, "\x1b[2J\x1b[H")
		s.canvas.Drawn = 0
	}
	s.width = width
	s.canvas.Draw(lines)
	return nil
}
