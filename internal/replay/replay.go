// Package replay makes the decisions of recorded runs again, with the code of today.
//
// Promises: for every event that a role said it asks the pure function that said it what it would say now, in the state
// before that event and at its time, and names each one that would be said otherwise. What came from outside (a task, a
// model's answer, a tool's result, a person, a hook) is taken as recorded. A log that does not fold, or was changed, is
// refused: nothing of it is decided. It calls no model and no tool, reads no clock and changes nothing.
package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Policy is what the verdicts of today rest on: guard rules, tools and the terms of gates.
type Policy struct {
	gate.Policy
	// Knows reports whether this program has a tool. Verdicts on others are taken as recorded: they belong to a
	// toolrunner that has them.
	Knows func(a events.Agent, tool string) bool
}

// Change is a decision that would be made otherwise today.
type Change struct {
	Run      string      `json:"run"`
	Sequence uint64      `json:"sequence"`
	Kind     events.Kind `json:"kind"`
	// Recorded is what was said, Today what would be, in words; Today is empty where nothing would be said.
	Recorded string `json:"said"`
	Today    string `json:"today"`
	// Fields are the names of those that differ, where the same kind would be said.
	Fields []string `json:"fields,omitempty"`
}

func (c Change) String() string {
	today := c.Today
	if today == "" {
		today = "no event"
	}
	text := fmt.Sprintf("run %s, event %d (%s): recorded %q, today: %s", c.Run, c.Sequence, c.Kind, c.Recorded, today)
	if len(c.Fields) > 0 {
		text += fmt.Sprintf(" (differs in %v)", c.Fields)
	}
	return text
}

// Report says what was decided again.
type Report struct {
	Run    string `json:"run"`
	Events uint64 `json:"facts"`
	// Decided events were decided again, Taken ones came from outside or rest on what the log does not hold.
	Decided int `json:"decided"`
	Taken   int `json:"taken"`
	// Reworded are those decided events that differ in texts for people alone: an earlier program had other words for
	// it.
	Reworded int `json:"reworded,omitempty"`
	// Refused is why the log is no record that can be replayed; nil where it is.
	Refused *audit.Fault `json:"refused,omitempty"`
	Changes []Change     `json:"changes"`
}

// OK reports whether all was decided as it was recorded.
func (r Report) OK() bool { return r.Refused == nil && len(r.Changes) == 0 }

// Log replays the events of one run, JSON lines as inspan export writes them. An error means that it could not be read.
func Log(ctx context.Context, law Policy, r io.Reader) (Report, error) {
	rep := Report{Changes: []Change{}}
	var whole bytes.Buffer
	found, err := audit.File(ctx, audit.Config{}, io.TeeReader(r, &whole))
	if rep.Run, rep.Events = found.Run, found.Events; err != nil {
		return rep, fmt.Errorf("read the log: %w", err)
	}
	if !found.Sound {
		rep.Refused = found.First
		return rep, nil
	}
	var s run.State
	err = audit.Lines(&whole, func(line []byte) bool {
		f, p, readErr := events.Read(line)
		if readErr != nil {
			rep.Refused = &audit.Fault{Sequence: s.Sequence + 1, Why: readErr.Error()}
			return false
		}
		rep.judge(law, s, f, p)
		next, foldErr := s.ApplyEvent(f, p, run.HashOf(line))
		if foldErr != nil {
			rep.Refused = &audit.Fault{Sequence: s.Sequence + 1, Kind: p.Kind(), Why: foldErr.Error()}
			return false
		}
		s = next
		return true
	})
	if err != nil {
		return rep, fmt.Errorf("read the log: %w", err)
	}
	return rep, nil
}

// judge decides one event again.
func (rep *Report) judge(law Policy, s run.State, f events.Event, p events.Payload) {
	d := deciding{policy: law, s: s, f: f}
	say, again, err := d.decide(p)
	if !again {
		rep.Taken++
		return
	}
	rep.Decided++
	c := Change{Run: f.Run, Sequence: f.Sequence, Kind: p.Kind(), Recorded: view.Clip(view.Text(p), 300)}
	if err != nil {
		c.Today = view.Clip("it would be refused: "+err.Error(), 300)
		rep.Changes = append(rep.Changes, c)
		return
	}
	var near events.Payload
	for _, other := range say {
		differs := fields(p, other)
		if other.Kind() == p.Kind() && len(differs) == 0 {
			return
		}
		if other.Kind() == p.Kind() && reworded(p, other, differs) {
			rep.Reworded++
			return
		}
		if near == nil && about(other) == about(p) {
			near, c.Fields = other, differs
		}
	}
	if near == nil && len(say) > 0 {
		near = say[0]
	}
	if near != nil {
		c.Today = fmt.Sprintf("%s: %s", near.Kind(), view.Clip(view.Text(near), 300))
		if near.Kind() != p.Kind() {
			c.Fields = nil
		}
	}
	rep.Changes = append(rep.Changes, c)
}

// unsteady fields depend on the clock or name a whole rule set, and are no part of what was decided.
var unsteady = []string{"rules_digest", "wait_ms", "duration_ms", "expires_at", "not_before"}

// younger fields follow from others and came later than version 1: an event that lacks them was not decided otherwise.
var younger = []string{"calls_key", "model_ref", "cost_micro_usd", "run_finish_reason", "checkpoint",
	"provider", "http_status", "clock_stopped", "always", "grants"}

// texts are fields for people, in words that change between versions; programs go by codes and the other fields.
var texts = []string{"reason", "hint", "error"}

// reworded reports whether two payloads differ in texts for people alone, which both have.
func reworded(a, b events.Payload, differs []string) bool {
	x, y := document(a), document(b)
	for _, name := range differs {
		if !slices.Contains(texts, name) || x[name] == nil || y[name] == nil {
			return false
		}
	}
	return true
}

// fields lists the names of the fields of two payloads that differ, in order; of those of different kinds, all.
func fields(a, b events.Payload) []string {
	x, y := document(a), document(b)
	for _, name := range younger {
		if _, there := x[name]; !there {
			delete(y, name) // the event was said before there was such a field
		}
	}
	var names []string
	for _, doc := range []map[string]any{x, y} {
		for name := range doc {
			if !reflect.DeepEqual(x[name], y[name]) && !slices.Contains(names, name) && !samePreview(name, x[name], y[name]) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// samePreview reports whether two shortened texts are of the same one: earlier programs wrote < > & of arguments as
// escapes.
func samePreview(name string, a, b any) bool {
	x, ok := a.(string)
	y, also := b.(string)
	if !ok || !also || name != "description" && name != "input" {
		return false
	}
	x, y = strings.TrimSuffix(string(events.Plain([]byte(x))), "..."), strings.TrimSuffix(string(events.Plain([]byte(y))),
		"...")
	return len(x) > 0 && len(y) > 0 && (strings.HasPrefix(x, y) || strings.HasPrefix(y, x)) &&
		(len(x) == len(y) || max(len(a.(string)), len(b.(string))) > events.MaxPreview)
}

func document(p events.Payload) map[string]any {
	b, err := json.Marshal(p)
	if err != nil {
		return map[string]any{"unreadable": err.Error()}
	}
	doc := map[string]any{}
	if err := json.Unmarshal(b, &doc); err != nil {
		return map[string]any{"unreadable": err.Error()}
	}
	for _, name := range unsteady {
		delete(doc, name)
	}
	return doc
}

// about is the step, call and gate that a payload speaks of.
func about(p events.Payload) [2]any {
	doc := document(p)
	call := doc["tool_id"]
	if call == nil {
		call = doc["call_id"]
	}
	return [2]any{doc["step_id"], call}
}
