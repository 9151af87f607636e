package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/reload"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ownStationFlags are the flags of a station that run and repl start themselves.
var ownStationFlags = []string{"agents", "scripts", "workspace", "sandbox", "accept-lazy-fsync", "store", "log"}

// refuseOwnFlags refuses the flags that would say how a station is started where one runs.
func refuseOwnFlags(a *app.App) error {
	for _, name := range ownStationFlags {
		if a.Given(name) {
			return app.Usage("--%s is for a station that this command starts, and station %s runs at %s: leave it out, start the station with it (inspan up), or add --ephemeral for a station of this command's own",
				name, a.Station, a.Address())
		}
	}
	return nil
}

// host is where a run happens: a station somewhere, or one of this process.
type host struct {
	C *client.Client
	// own is the station of this process, or nil; local what it was started with, temp that its folder may go.
	own   *reload.Station
	local app.OwnStation
	temp  bool
	// kept is true where the store is that of one run alone, which the commands that steer it find.
	kept bool
}

// maxNotices is how many lines about its agents wait to be shown; what there is no room for is not shown.
const maxNotices = 64

// ReachHost connects to the station, or starts one for this run alone.
func ReachHost(ctx context.Context, a *app.App, f RunFlags) (host, error) {
	for _, name := range []string{"server", "context"} {
		if f.Own && a.Given(name) {
			return host{}, app.Usage("--ephemeral starts a station for this command, so --%s means nothing: leave one of them out", name)
		}
	}
	if !f.Own && !a.Local {
		if a.Given("store") && a.Locate(ctx, f.Store) { // whoever runs there has the store
			a.Cmd.Flags().Lookup("store").Changed = false
		}
		c, err := a.Connect(ctx)
		if err == nil {
			if err = refuseOwnFlags(a); err == nil {
				return host{C: c}, nil
			}
			c.Close()
			return host{}, err
		}
		if !errors.Is(err, app.ErrNoServer) || f.detach || a.Context.Name != "" {
			return host{}, err // a run that is not watched would end with this process, and a context means its own station
		}
	} else if f.detach {
		return host{}, app.Usage("--detach needs a station that stays: start one with \"inspan up\", or leave --ephemeral and --local out")
	}
	h := host{local: f.OwnStation}
	if a.Local && !f.Own {
		h.local.Store = cmp.Or(f.Store, a.Folder)
	}
	h.local.Guess()
	named, builtin := h.local.Agents, h.local.Agents == "" && isNew(h.local.Store) // there can be no others
	if err := h.local.Check(); err != nil {
		return h, err
	}
	if err := a.Accept(ctx, &h.local); err != nil {
		return h, err
	}
	if builtin && a.Builtin != nil {
		var err error
		if named, err = a.Builtin(); err != nil {
			return h, err
		}
		h.local.Agents = named
	}
	if h.local.Store == "" && f.keep != "" {
		store, err := storeOf(a, f.keep)
		if err != nil {
			return h, err
		}
		h.local.Store, h.kept = store, true
	}
	if h.local.Store == "" {
		dir, err := os.MkdirTemp("", "inspan-run-")
		if err != nil {
			return h, fmt.Errorf("folder of the station: %w", err)
		}
		h.local.Store, h.temp = dir, true
	}
	if !a.Local {
		fmt.Fprintln(a.Err, a.Wrapped(fmt.Sprintf("No station at %s: this run has one of its own, in %s, with the agents in %s.",
			a.Address(), h.local.Store, cmp.Or(named, "its store")), 0))
	}
	if err := h.open(ctx, a); err != nil || !h.kept {
		return h, err
	}
	l := h.local
	err := workcopy.NoteStart(l.Store, workcopy.Start{Scripts: l.Scripts, Workspace: l.Workspace, Sandbox: l.Sandbox,
		Lazy: l.Lazy})
	if err != nil { // no one uses the station that was started
		h.C.Close()
		err = errors.Join(err, h.own.Close(context.WithoutCancel(ctx)))
	}
	return h, err
}

// isNew reports whether a store will be made; empty is one of this run alone.
func isNew(store string) bool {
	_, err := os.Stat(store)
	return store == "" || errors.Is(err, fs.ErrNotExist)
}

// open starts the station of this process. Where that fails, nothing is left of it.
func (h *host) open(ctx context.Context, a *app.App) error {
	a.OwnStore = h.local.Store
	var err error
	notices := make(chan string, maxNotices)
	a.Notices = notices
	if h.own, err = reload.Start(ctx, a, &h.local, app.Starting{}, func(line string) {
		select {
		case notices <- line:
		default:
		}
	}); err != nil {
		return errors.Join(err, h.remove())
	}
	if a.Local {
		h.C = operator.Local(h.own.Local(), "", nil)
		return nil
	}
	if h.C, err = operator.On(h.own.Conn(), h.own.Name()); err != nil {
		return errors.Join(err, h.own.Close(context.WithoutCancel(ctx)), h.remove())
	}
	return nil
}

// LeaveHost lets go of the host. A station of this process ends; its folder is kept where the run could still go on.
func LeaveHost(a *app.App, h host, last run.State) error {
	h.C.Close()
	if h.own == nil {
		if last.Sequence > 0 && !last.Status.Ended() && !last.Halted() {
			fmt.Fprintf(a.Err, "No longer watching; the run goes on. See: %s\n", a.CommandLine("logs", last.HarnessID,
				"--follow"))
		}
		return nil
	}
	err := h.own.Close(context.Background())
	for len(a.Notices) > 0 {
		fmt.Fprintln(a.Err, <-a.Notices)
	}
	if madeNothing(last) {
		err = errors.Join(err, workcopy.NoteWork(h.local.Store, workcopy.Nothing))
	}
	if last.Status == events.Failed {
		return err // its store stays, so that a person can look at the run
	}
	if last.Sequence == 0 || last.Status.Ended() {
		return errors.Join(err, h.remove())
	}
	if h.kept {
		fmt.Fprintf(a.Err, "Its station has stopped, and nothing is lost. Go on with: %s\n", goOn(last))
		return err
	}
	flags := ""
	if a.Local {
		flags = " --local"
	}
	for _, f := range [][2]string{{"--agents", h.local.Agents}, {"--scripts", h.local.Scripts},
		{"--workspace", h.local.Workspace}} {
		if f[1] != "" {
			flags += " " + f[0] + " " + app.ShellWord(f[1])
		}
	}
	fmt.Fprintf(a.Err, "Its station has stopped and the run waits in %s. Go on with: inspan up --store %s%s\n",
		h.local.Store, app.ShellWord(h.local.Store), flags)
	if last.Halted() && !a.Local {
		fmt.Fprintf(a.Err, "and, while that runs: %s\n", a.CommandLine("resume", last.HarnessID))
	}
	return err
}

// goOn is the command that a run waits for whose store was kept.
func goOn(s run.State) string {
	if s.Status == events.Running && len(s.Waiting()) > 0 {
		return "inspan approve " + s.HarnessID + "   or   inspan reject " + s.HarnessID + ` --reason "..."`
	}
	return "inspan resume " + s.HarnessID
}

// madeNothing reports whether a run on a copy ended and changed no file.
func madeNothing(s run.State) bool {
	if !s.Status.Ended() || s.Result == nil {
		return false
	}
	d := s.Result.Delivery
	return d == nil || d.Bundle == "" && d.Commit != "" && d.Commit == d.Base
}

func (h host) remove() error {
	if !h.temp {
		return nil
	}
	return os.RemoveAll(h.local.Store) // made by this command, in the system's place for temporary files
}
