package notices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/notify"
	"github.com/inspan/inspan/pkg/client"
)

// notifyCommand is inspan notify.
type notifyCommand struct {
	App               *app.App
	by, project, keep string
	all               bool
}

// Command makes inspan notify.
func Command(a *app.App) *cobra.Command {
	c := &notifyCommand{App: a}
	cmd := &cobra.Command{
		Use: "notify", Short: "Call you when a gate waits, or a run fails, ends or pauses by itself",
		Long: `Stays beside the station and prints a line for each gate that opens and each run that fails, ends or is paused by itself,
with the command to type next, until Ctrl+C. At a terminal it rings the bell and asks the terminal for a desktop notice; where
notify.command is set in ~/.config/inspan/config.yaml, that command is run, with the notice as JSON on its standard input.

The ends of inputs of inspan repl, and of runs that another run started, are left out: --all has them too. Gates are
never left out, but for those that were answered meanwhile. It needs no more rights than watching.

--by has the runs that were asked for in a name, gates that name that person as an approver or were escalated to them, and, while
somebody is away (inspan away), the gates of the one in whose place they answer, with the command of a deputy.

Each event is notified once, also when the connection was lost. With --keep the position in the log is kept in a file: what
came while this program was not running is notified when it runs again.`,
		Example: `  inspan notify
  inspan notify --by anna --keep ~/.local/state/inspan/notify.json
  inspan notify --project payments --json | jq -r .command`,
		Args: app.Args(0),
		RunE: a.Connected(c.run),
	}
	fl := cmd.Flags()
	fl.StringVar(&c.by, "by", "", "only runs that were asked for in this name, and gates for this person or one in whose place they answer")
	fl.StringVar(&c.project, "project", "", "only runs of this project")
	fl.StringVar(&c.keep, "keep", "", "file to keep the position in the log in, so that the next start goes on there")
	fl.BoolVar(&c.all, "all", false, "also the ends of inputs of inspan repl and of runs that other runs started")
	return cmd
}

func (a *notifyCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	if a.App.Local {
		return app.Usage("a local store is used by one program at a time, which shows its own runs: inspan notify needs a station over NATS")
	}
	sinks, err := Sinks(a.App)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range sinks {
			s.Close()
		}
	}()
	wait, cancel := context.WithTimeout(ctx, a.App.Wait)
	from, err := a.begin(wait, c)
	cancel()
	if err != nil {
		return err
	}
	if a.App.Term.TTY && !a.App.JSON {
		fmt.Fprintln(a.App.Out, a.App.Paint().Dim("Notices of station "+c.Station()+"; Ctrl+C ends."))
	}
	for p, err := range c.Runs().Follow(ctx, from) {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the person ended it
		}
		if err != nil {
			return err
		}
		if err := a.event(ctx, c, sinks, p); err != nil {
			return err
		}
	}
	return nil
}

// event notifies one, and then keeps the position: after a crash between the two it is notified again.
func (a *notifyCommand) event(ctx context.Context, c *client.Client, sinks []notify.Sink, p client.Passing) error {
	s, err := c.State(ctx, p.Run)
	for ; err != nil && ctx.Err() == nil && !errors.Is(err, client.ErrDenied); s, err = c.State(ctx, p.Run) {
		if errors.Is(err, client.ErrNotFound) || c.Connected() {
			break // a log that does not fold is for inspan audit
		}
		select { // the connection comes back by itself
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	if errors.Is(err, client.ErrDenied) {
		return err
	}
	n, ok := Of(a.App, s, p.Event, p.Payload)
	if ok = ok && err == nil; ok && n.AtGate() {
		all, err := client.NewDeputies(c).Read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			fmt.Fprintf(a.App.Err, "inspan: no notices for deputies: %s\n", terminal.Sanitize(err.Error()))
		}
		n = a.inPlace(n.WithDeputies(all, time.Now()))
	}
	if ok && a.wanted(n) {
		if err := a.print(n); err != nil {
			return err
		}
		for _, sink := range sinks {
			if err := sink.Send(ctx, n); err != nil && ctx.Err() == nil {
				return fmt.Errorf("notify of run %s: %w", n.Run, err)
			}
		}
	}
	return a.save(c.Station(), p.Next)
}

// inPlace is a notice with the command of a deputy, where only that reaches the person of --by.
func (a *notifyCommand) inPlace(n notify.Notice) notify.Notice {
	if d, ok := n.Deputizes(a.by); ok && !n.Names(a.by) {
		n.Command = a.App.CommandLine("approve", n.Run+"/"+n.Gate, "--by", d.By, "--deputy-for", d.For)
	}
	return n
}

// wanted reports whether a notice is asked for.
func (a *notifyCommand) wanted(n notify.Notice) bool {
	return (a.by == "" || n.Reaches(a.by)) && (a.project == "" || a.project == n.Project) &&
		(a.all || n.Wanted())
}

func (a *notifyCommand) print(n notify.Notice) error {
	if a.App.JSON {
		return a.App.PrintJSONLine(n)
	}
	p, text := a.App.Paint(), n.Text
	switch n.Kind {
	case notify.Gate, notify.Reminder, notify.Paused:
		text = p.Yellow(text)
	case notify.Failed:
		text = p.Red(text)
	case notify.Completed:
		text = p.Green(text)
	}
	if away := n.Away(); away != "" {
		text += "\n  " + away
	}
	_, err := fmt.Fprintf(a.App.Out, "%s %s\n  %s\n", n.Time.In(a.App.Zone()).Format("15:04:05"), text, p.Dim(n.Command))
	return err
}

// kept is the file of --keep.
type kept struct {
	Station  string          `json:"station"`
	Position client.Position `json:"position"`
}

// begin is where to begin: where the file says, else now.
func (a *notifyCommand) begin(ctx context.Context, c *client.Client) (client.Position, error) {
	now, err := c.Runs().Now(ctx, notify.Kinds()...)
	if err != nil || a.keep == "" {
		return now, err
	}
	text, err := os.ReadFile(a.keep)
	if errors.Is(err, fs.ErrNotExist) {
		return now, a.save(c.Station(), now)
	}
	if err != nil {
		return nil, fmt.Errorf("read the position: %w", err)
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil || k.Position == nil {
		return nil, app.Usage("%s is not a file that inspan notify made; name another one with --keep", a.keep)
	}
	if k.Station != c.Station() {
		return nil, app.Usage("%s is for station %s, this one is %s; name another file with --keep", a.keep, k.Station,
			c.Station())
	}
	for kind := range now { // types that a later program notifies begin now
		if at, ok := k.Position[kind]; ok {
			now[kind] = at
		}
	}
	return now, nil
}

// save keeps a position. The file is whole at any time.
func (a *notifyCommand) save(station string, p client.Position) error {
	if a.keep == "" {
		return nil
	}
	text, err := json.Marshal(kept{station, p})
	if err != nil {
		return fmt.Errorf("encode the position: %w", err)
	}
	if err := disk.Replace(a.keep, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("keep the position: %w", err)
	}
	return nil
}
