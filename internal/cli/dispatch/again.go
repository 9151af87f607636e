package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/follow"
	"github.com/inspan/inspan/internal/cli/sessions"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// GoesOn has a command that steers a run work, too, where the run had a station of its own that has stopped: a station
// of this process opens the store that was kept, and the run is shown until it ends or waits.
func GoesOn(a *app.App, cmd *cobra.Command) *cobra.Command {
	steer := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := steer(cmd, args)
		if !errors.Is(err, app.ErrNoServer) || a.Local || a.NamesServer() {
			return err
		}
		ref, gate, of := strings.Cut(args[0], "/")
		k, kept := app.KeptOf(cmd.Context(), a, ref)
		if !kept {
			return err
		}
		args[0] = k.Run
		if of {
			args[0] += "/" + gate
		}
		return again(cmd, a, steeredRun{id: k.Run, store: k.Store, steer: func() error { return steer(cmd, args) }})
	}
	return cmd
}

// steeredRun is a run whose store was kept, and what is done to it.
type steeredRun struct {
	id, store string
	steer     func() error
}

func again(cmd *cobra.Command, a *app.App, s steeredRun) error {
	ctx := cmd.Context()
	began, noted := workcopy.StartOf(s.store)
	if !noted {
		began = workcopy.Start{Scripts: a.Lookup("INSPAN_SCRIPTS", ""), Workspace: a.Lookup("INSPAN_WORKSPACE", ""),
			Sandbox: a.Lookup("INSPAN_SANDBOX", "auto"), Lazy: a.Lookup("INSPAN_ACCEPT_LAZY_FSYNC", "") == "true"}
	}
	h := host{kept: true, local: app.OwnStation{Store: s.store, Scripts: began.Scripts, Workspace: began.Workspace,
		Sandbox: began.Sandbox, Lazy: began.Lazy}}
	if err := h.open(ctx, a); err != nil {
		return app.UnderWay(s.id, err)
	}
	fmt.Fprintf(a.Err, "No station runs: the run goes on in its own, in %s.\n", s.store)
	before, err := h.C.State(ctx, s.id)
	if err == nil && cmd.Name() == "retry" {
		err = filesKnown(ctx, h, before)
	}
	if err != nil {
		return errors.Join(err, LeaveHost(a, h, before))
	}
	last := before
	a.Shared = h.C
	err = s.steer()
	a.Shared = nil
	switch {
	case err == nil && cmd.Name() == "reject": // which pauses the run
		last, err = h.C.State(ctx, s.id)
	case err == nil:
		last, err = goneOn(ctx, a, h.C, before)
	}
	return errors.Join(err, LeaveHost(a, h, last))
}

// filesWait is how long a toolrunner that has just begun is waited for.
const filesWait = 5 * time.Second

// filesKnown waits until the toolrunner of a station that has just begun says what there is of the files of a run,
// which a retry asks it. Where it does not say, the retry is refused with the reason.
func filesKnown(ctx context.Context, h host, s run.State) error {
	question, err := json.Marshal(events.FilesQuestion{Run: s.HarnessID, Workspace: s.Created.Workspace,
		Since: time.Now()})
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, filesWait)
	defer cancel()
	for wait.Err() == nil {
		var a events.FilesAnswer
		answer, err := h.own.Conn().Services().Ask(wait, events.Toolrunner, question)
		if err == nil && json.Unmarshal(answer, &a) == nil && a.Files != "" {
			break
		}
		select {
		case <-wait.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return ctx.Err()
}

// goneOn shows a run until it ends or waits: the one that was steered or, where that has been retried, its retry.
func goneOn(ctx context.Context, a *app.App, c *client.Client, of run.State) (run.State, error) {
	id, since := of.HarnessID, of.Sequence
	for {
		next := client.RetryOf(id)
		if _, err := c.State(ctx, next); err != nil {
			break
		}
		id, since = next, 0
	}
	last, err := follow.Run(ctx, a, c, id, follow.Gates{Alone: true, Since: since})
	sessions.Settle(ctx, a, c, last)
	return last, err
}
