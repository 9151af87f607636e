package session_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
)

// TestPruned is a session whose content was deleted.
func TestPruned(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0).UTC()
	fold := func(s session.State, sequence uint64, prev string, p events.Payload) (session.State, error) {
		f := events.Event{SpecVersion: "1.0", ID: "1", Source: events.Source("s1", events.Planner), Type: p.Kind().Type(),
			Subject: "desk", Aggregate: events.SessionAggregate, ContentType: "application/json", Time: now,
			Identity: events.Identity{Station: "s1", Session: "desk"}, Sequence: sequence, PrevHash: prev, Data: encode(t, p)}
		b, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return session.Aggregate().Fold(s, "desk", kernel.Record{Kind: p.Kind(), Bytes: b})
	}
	stands := &events.SessionPrunedData{Event: "session_pruned", Session: "desk", Covered: 41, Fence: 7, Inputs: []uint64{3},
		CreatedAt: now.Add(-time.Hour)}
	s, err := fold(session.State{}, 42, events.HashOf([]byte("the last one")), stands)
	t.Run("PLUS-19b one event stands for those of a session, the chain goes through it, and locks keep their order", func(t *testing.T) {
		t.Parallel()
		if err != nil || s.Sequence != 42 || s.Status != events.SessionDeleted || s.History != nil || !s.Took(3) {
			t.Fatalf("%+v %v", s, err)
		}
		next, err := session.Take(s, session.Ask{Session: "desk", Run: "r1", Agent: "worker"}, nil, now)
		if h, ok := next.Holder("r1"); err != nil || !ok || h.Fence != 8 || next.Born != 8 || next.History != nil || next.Prompt != "" {
			t.Errorf("%+v %v", next, err)
		}
	})
	t.Run("PLUS-19b it begins a log and nothing else", func(t *testing.T) {
		t.Parallel()
		if _, err := fold(s, 43, s.Hash, stands); err == nil || !strings.Contains(err.Error(), "has some") {
			t.Error(err)
		}
		if _, err := fold(session.State{}, 42, "", stands); err == nil {
			t.Error("it follows no event")
		}
		locked := &events.SessionLockedData{Event: "session_locked", Run: "r1", Fence: 1}
		if _, err := fold(session.State{}, 1, "", locked); err == nil || !strings.Contains(err.Error(), "does not begin") {
			t.Error(err)
		}
	})
}

func encode(t *testing.T, p events.Payload) []byte {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
