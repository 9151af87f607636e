package client

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Conversation is what was said in a session or a run, oldest first (SESS-9).
type Conversation struct {
	Session  string           `json:"session_id,omitempty"`
	Messages []events.Message `json:"messages"`
	// TotalTokens that its models took in and gave out.
	TotalTokens int       `json:"total_tokens"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	UpdatedAt   time.Time `json:"updated_at,omitzero"`
}

// Outcome is the result of a run with the whole conversation that led to it, also what it began with (LOOP-12).
type Outcome struct {
	run.Final
	Conversation Conversation `json:"conversation"`
}

// Conversation returns all that was said in a run, behind what it began with; ErrNotFound where there is no such run.
func (rs Runs) Conversation(ctx context.Context, runID string) (Conversation, error) {
	s, err := rs.c.State(ctx, runID)
	if err != nil {
		return Conversation{}, err
	}
	return rs.conversation(ctx, s)
}

func (rs Runs) conversation(ctx context.Context, s run.State) (Conversation, error) {
	before, err := parts(ctx, rs.c.st.Blobs(), s.Created.History)
	if err != nil {
		return Conversation{}, err
	}
	own, err := history.Of(s)
	if err != nil {
		return Conversation{}, err
	}
	all := Conversation{Session: s.Created.Session, Messages: append(history.Messages(before), own...),
		TotalTokens: s.Tokens.Total(), CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt}
	for _, p := range before {
		all.TotalTokens += p.InputTokens + p.OutputTokens
	}
	return all, nil
}

// Outcome returns the result of a run that ended with its whole conversation; ErrOpen where it has not ended.
func (rs Runs) Outcome(ctx context.Context, runID string) (Outcome, error) {
	s, err := rs.c.State(ctx, runID)
	if err != nil {
		return Outcome{}, err
	}
	final := run.FinalOf(s)
	if final == nil {
		return Outcome{}, fmt.Errorf("run %s: %w: it is %s", runID, ErrOpen, s.Status)
	}
	talk, err := rs.conversation(ctx, s)
	return Outcome{Final: *final, Conversation: talk}, err
}

// parts loads the parts of a history, oldest first.
func parts(ctx context.Context, blobs kernel.Blobs, newest *events.Ref) ([]events.Part, error) {
	all, _, err := history.Load(ctx, blobs, newest, nil)
	return all, err
}
