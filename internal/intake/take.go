package intake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/payload"
	"github.com/inspan/inspan/pkg/events"
)

// Codes of dead letters of messages.
const (
	CodeTooLarge = "message_too_large"
	CodeNoText   = "message_no_text"
	CodeLacks    = "message_lacks_value"
	CodeRate     = "messages_lost"
	CodeStation  = "message_not_started"
)

// By is who writes the dead letters of messages.
const By = events.Service(events.Gateway)

// maxLetter is the most bytes of a message in its letter.
const maxLetter = 8 << 10

// subscription is one of an agent, read.
type subscription struct {
	station, agent, name string
	of                   events.Subscription
	task                 payload.Task
}

// read reads a subscription.
func read(station, agent string, s events.Subscription) (subscription, error) {
	if err := errors.Join(events.CheckID("agent", agent), events.CheckOutsideSubject(s.Subject)); err != nil {
		return subscription{}, err
	}
	task, err := payload.ParseTask(payload.Texts{Task: s.Task, Session: s.Session, Repo: s.Repo, Ref: s.Ref,
		Variables: s.Variables})
	return subscription{station: station, agent: agent, of: s, task: task,
		name: "inspan-" + station + "-" + agent + "-" + idOf("inspan subscription 1", s.Subject)[:8]}, err
}

// runID is the id of the run of a message. One without an identity was given out once and never will be again: its run
// is its own.
func (s subscription) runID(m Message) string {
	if m.ID == "" {
		return "msg-" + strings.ToLower(rand.Text())
	}
	return "msg-" + idOf("inspan message 1", s.station, s.agent, m.ID)
}

// take starts the run of a message, or writes its letter. An error means that neither could be done.
func (i *Intake) take(ctx context.Context, sub subscription, m Message) error {
	if len(m.Data) > MaxMessage {
		return i.letter(ctx, sub, m, CodeTooLarge, fmt.Sprintf("the message has %d bytes, the limit is %d", len(m.Data),
			MaxMessage), "send where the data is instead of the data")
	}
	p, err := payload.Message(m.Subject, m.Data)
	if err != nil {
		return i.letter(ctx, sub, m, CodeNoText, err.Error(), "send JSON or another text")
	}
	t := events.Task{ID: sub.runID(m), Agent: sub.agent, By: "subscription of " + sub.agent}
	if sub.of.Autonomy != 0 {
		t.Autonomy = &sub.of.Autonomy
	}
	if err := sub.task.Fill(p, &t); err != nil {
		return i.letter(ctx, sub, m, CodeLacks, err.Error(),
			fmt.Sprintf("the subscription of agent %s needs what this message does not have", sub.agent))
	}
	err = i.start(ctx, t, m.Stored)
	var refused *RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		i.cfg.Report(sub.agent, m.Subject, "the station refused the task of a message", err)
		return nil
	case m.Stored:
		return fmt.Errorf("start run %s: %w", t.ID, err)
	}
	return i.letter(ctx, sub, m, CodeStation, fmt.Sprintf("its run could not be started: %v", err),
		"publish the message again; in a stream it would have waited")
}

// tries is how often the run of a message is tried that nothing would bring again.
const tries = 3

// start starts a run, several times where no one else tries again.
func (i *Intake) start(ctx context.Context, t events.Task, stored bool) error {
	err := i.cfg.Start(ctx, t)
	for n := 1; err != nil && !stored && n < tries; n++ {
		if _, refused := errors.AsType[*RefusedError](err); refused || kernel.Sleep(ctx, time.Second) != nil {
			break
		}
		err = i.cfg.Start(ctx, t)
	}
	return err
}

// letter writes the dead letter of a message.
func (i *Intake) letter(ctx context.Context, sub subscription, m Message, code, reason, hint string) error {
	text := m.Data
	if len(text) > maxLetter {
		text = text[:maxLetter]
	}
	err := i.cfg.Refuse.Refuse(ctx, By, kernel.DeadLetter{Subject: m.Subject, Time: time.Now().UTC(), Code: code,
		Reason: fmt.Sprintf("subscription of agent %s to %s: %s", sub.agent, sub.of.Subject, reason), Hint: hint,
		Data: strings.ToValidUTF8(string(text), "\uFFFD"), DataBytes: len(m.Data)})
	if err != nil {
		return fmt.Errorf("dead letter of a message on %s: %w", m.Subject, err)
	}
	return nil
}
