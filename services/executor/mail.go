package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Mailbox is the mail that waits for an agent. Inject is what the next turn of a run is given of it, without what the
// run has; nil is nothing.
type Mailbox interface {
	Inject(run, step string, has func(id string) bool, now time.Time) *events.MailInjectedData
	// Interrupted reports whether mail waits for which no turn of the run may begin, and that the run does not have.
	Interrupted(run string, has func(id string) bool, now time.Time) bool
}

// postman gives mail to runs.
type postman struct{ *Role }

// give gives a run that is an agent with an address the mail that waits for it, before a turn is asked for. The event
// in the log of the run decides: a message that it names is in the prompt from then on and is not given again, whatever
// the mailbox still shows. given is false where nothing is due; it is true where somebody else gave it, too.
func (r postman) give(ctx context.Context, s run.State, task turn.Task) (w runlog.Written, given bool, err error) {
	if r.cfg.Mail == nil || !addressed(s, task) {
		return w, false, nil
	}
	box, err := r.cfg.Mail(ctx, s.Created.Address.Address)
	if err != nil {
		return w, false, fmt.Errorf("mail of run %s: %w", s.HarnessID, err)
	}
	if box.Inject(s.HarnessID, task.Step.ID, s.HasMail, r.cfg.Now()) == nil {
		return w, false, nil
	}
	w, err = r.cfg.Ledger.Write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
		return turn.Inject(s, task, box.Inject(s.HarnessID, task.Step.ID, s.HasMail, now)), nil
	})
	return w, len(w.Events) > 0 || w.State.Sequence > s.Sequence, err
}

// addressed reports whether a turn is of the agent with the address that the run is.
func addressed(s run.State, task turn.Task) bool {
	return s.Created != nil && s.Created.Address != nil && task.Step.AssignedAgent == s.AgentName
}

// waits reports whether mail that interrupts has come since the turn was given its mail. It is asked once the request
// is open to interrupts: mail that comes later ends that.
func (r postman) waits(ctx context.Context, s run.State, task turn.Task) (w runlog.Written, waits bool, err error) {
	if r.cfg.Mail == nil || !addressed(s, task) {
		return w, false, nil
	}
	box, err := r.cfg.Mail(ctx, s.Created.Address.Address)
	if err != nil {
		return w, false, fmt.Errorf("mail of run %s: %w", s.HarnessID, err)
	}
	if !box.Interrupted(s.HarnessID, s.HasMail, r.cfg.Now()) {
		return w, false, nil
	}
	w.State, err = r.cfg.Ledger.Fresh(ctx, s.HarnessID)
	return w, true, err
}
