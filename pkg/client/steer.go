package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Answer answers a gate and waits until the answer is recorded, or returns a *RefusedError (GATE-9). approver may be
// empty; where it is not, it is part of the subject, which permissions can bind to a user.
func (c *Client) Answer(ctx context.Context, runID, gate, approver string, a events.Answer) (run.State, error) {
	for what, id := range map[string]string{"run": runID, "gate": gate} {
		if err := events.CheckID(what, id); err != nil {
			return run.State{}, err
		}
	}
	subject := events.GateSubject(c.st.Name(), runID, gate)
	if approver != "" {
		if err := events.CheckID("approver", approver); err != nil {
			return run.State{}, err
		}
		subject += "." + approver
	}
	s, err := c.say(ctx, runID, subject, a, func(s run.State) bool {
		g := s.Gate(gate)
		if g == nil || g.Status == run.GatePending {
			return false
		}
		// A rejection is followed by a pause, which a person may have ended since.
		return g.Status != run.GateRejected || s.Status != events.Running || s.ResumedAt > g.Resolution
	})
	if err != nil {
		return s, err
	}
	return s, contradicted(s.Gate(gate), a.Decision)
}

// contradicted is the refusal of an answer that came after another one: the first answer to a gate wins.
func contradicted(g *run.Gate, decision string) error {
	if was := map[run.GateStatus]string{run.GateApproved: "approve", run.GateRejected: "reject"}[g.Status]; was == decision {
		return nil
	}
	return &RefusedError{Code: "answered", Reason: fmt.Sprintf("gate %s was already %s by %s", g.ID, g.Status, g.By), Hint: "inspan gates lists those that wait"}
}

// Control steers a run and waits until that is recorded, or returns a *RefusedError.
func (c *Client) Control(ctx context.Context, runID string, ctl events.Control) (run.State, error) {
	if err := events.CheckID("run", runID); err != nil {
		return run.State{}, err
	}
	before, err := c.State(ctx, runID)
	if err != nil {
		return before, err
	}
	want := map[string]func(run.State) bool{
		"pause":    func(s run.State) bool { return s.Status == events.Paused },
		"resume":   func(s run.State) bool { return s.ResumedAt > before.ResumedAt },
		"start":    func(s run.State) bool { return s.ResumedAt > before.ResumedAt },
		"stop":     func(s run.State) bool { return s.Status.Ended() },
		"autonomy": func(s run.State) bool { return s.Options.Autonomy == ctl.Level },
	}[ctl.Action]
	if want == nil {
		want = func(run.State) bool { return false }
	}
	if (ctl.Action == "pause" || ctl.Action == "stop") && want(before) {
		// It is so already: the station says what it thinks of the wish.
		want = func(s run.State) bool { return s.Sequence > before.Sequence }
	}
	return c.say(ctx, runID, events.ControlSubject(c.st.Name(), runID), ctl, want)
}

// say publishes a message about a run and waits for what follows from it.
func (c *Client) say(ctx context.Context, runID, subject string, message any, want func(run.State) bool) (run.State, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return run.State{}, fmt.Errorf("encode the message: %w", err)
	}
	token := rand.Text()
	letters, stop, err := c.refusals(token)
	if err != nil {
		return run.State{}, err
	}
	defer stop()
	if err := c.st.Publish(ctx, subject, body, map[string]string{tokenHeader: token}); err != nil {
		return run.State{}, err
	}
	if err := c.await(ctx, runID, letters, want); err != nil {
		return run.State{}, err
	}
	return c.State(ctx, runID)
}

// Dead lists what the station refused, the oldest first.
func (c *Client) Dead(ctx context.Context) ([]jet.Refused, error) {
	var all []jet.Refused
	after := uint64(0)
	for {
		page, more, err := c.st.Dead(ctx, after)
		if err != nil {
			return nil, fmt.Errorf("read the dead-letter list: %w", err)
		}
		all = append(all, page...)
		if !more || len(page) == 0 {
			return all, nil
		}
		after = page[len(page)-1].Seq
	}
}
