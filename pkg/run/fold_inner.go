package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// innerRules fold what a program of others says that carries out a call.
var innerRules = []rule{on(callRequested), on(callProgressed)}

// Program is how far a program of others came with a call. Shared between states: never written after it was made.
type Program struct {
	// Session is what the program calls the conversation; empty where that is not known.
	Session string `json:"session,omitempty"`
	// Transcript is the object with the files of the session that were stored last; nil for none.
	Transcript *events.Ref `json:"transcript,omitempty"`
}

// MaxInner is how many calls of one call may be open inside at the same time.
const MaxInner = 32

// InnerID is the id of the next call inside of one.
func InnerID(parent *Call) string { return fmt.Sprintf("%s-%d", parent.ID, parent.Inner+1) }

// InnerOf are the open calls inside of one, by id.
func (s *State) InnerOf(id string) []*Call {
	var all []*Call
	for _, c := range s.Open {
		if c.Parent == id && id != "" {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *Call) int {
		if len(a.ID) != len(b.ID) {
			return len(a.ID) - len(b.ID)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

// carried returns a copy of a call that a program of others carries out under a fence.
func (s *State) carried(id string, fence uint64) (Call, string) {
	c := s.Open[id]
	switch {
	case c == nil:
		return Call{}, fmt.Sprintf("call %s is not open", id)
	case c.Tool != events.ToolRuntime || c.Parent != "":
		return Call{}, fmt.Sprintf("call %s of %s is carried out by no program", id, c.Tool)
	case c.Phase != CallStarted || c.Fence != fence:
		return Call{}, fmt.Sprintf("call %s is %s under the fence %d, not %d", id, c.Phase, c.Fence, fence)
	}
	return *c, ""
}

func callRequested(s *State, _ events.Event, d *events.CallRequestedData) string {
	p, fault := s.carried(d.Parent, d.Fence)
	switch {
	case fault != "":
		return fault
	case d.Step != p.Step || d.Call != InnerID(&p) || s.Open[d.Call] != nil:
		return fmt.Sprintf("call %s in step %s does not follow inside of %s in step %s", d.Call, d.Step, p.ID, p.Step)
	case !events.IsInner(d.Tool):
		return fmt.Sprintf("%s is no tool of a program", d.Tool)
	case len(s.InnerOf(p.ID)) >= MaxInner:
		return fmt.Sprintf("more than %d calls are open inside of %s", MaxInner, p.ID)
	case p.Program == nil:
		return fmt.Sprintf("the program of call %s was given no work", p.ID)
	}
	input := d.Input
	if input == nil && d.InputRef == nil {
		input = json.RawMessage(`{}`)
	}
	p.Inner++
	s.setOpen(p.ID, &p)
	s.setOpen(d.Call, &Call{RequestedCall: events.RequestedCall{ID: d.Call, Tool: d.Tool, Input: input,
		InputRef: d.InputRef},
		Step: d.Step, Turn: p.Turn, Phase: CallRequested, Parent: p.ID})
	return ""
}

func callProgressed(s *State, _ events.Event, d *events.CallProgressedData) string {
	c, fault := s.carried(d.Call, d.Fence)
	if fault != "" {
		return fault
	}
	if d.Step != c.Step || d.Tool != c.Tool {
		return fmt.Sprintf("call %s is %s in step %s", d.Call, c.Tool, c.Step)
	}
	p := &Program{Session: d.Session, Transcript: d.Transcript}
	switch {
	case p.Transcript != nil && c.Program == nil:
		return fmt.Sprintf("the program of call %s was given no work", c.ID)
	case p.Transcript == nil && c.Program != nil && c.Program.Session == p.Session:
		p.Transcript = c.Program.Transcript
	}
	c.Program = p
	s.setOpen(d.Call, &c)
	return ""
}

// closed reports why an event about the end, or another attempt, of a call cannot be: what it has inside must have
// ended before.
func (s *State) closed(id string) string {
	if inner := s.InnerOf(id); len(inner) > 0 {
		return fmt.Sprintf("call %s inside of %s is open", inner[0].ID, id)
	}
	return ""
}
