package runtest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// byHand are the event types that Moves has payloads of its own for. A newer one is drawn: it needs a move by hand only
// where no drawn payload fits.
var byHand = []events.Kind{
	events.RunCreated, events.RunForked, events.RunStarted, events.RunPaused, events.RunResumed, events.RunAdjusted,
	events.RunMoved, events.RunPruned,
	events.RunCompleted, events.RunFailed, events.PlanMade, events.PlanRevised, events.PlanCompleted, events.StepReady,
	events.StepAllowed, events.StepBranched,
	events.ChildSpawned, events.ChildFinished, events.RunStopping, events.StepClaimed, events.CheckPassed,
	events.CheckFailed,
	events.StepFinished, events.StepFailed, events.TurnDeferred, events.TurnFinished, events.HistoryCompacted,
	events.MailInjected,
	events.MailInterrupted,
	events.MailRequested, events.MailAnswered,
	events.CallAllowed,
	events.CallRefused, events.CallStarted, events.CallDelegated, events.CallDeferred, events.CallFinished,
	events.CallFailed,
	events.ArtifactSaved,
	events.GateOpened, events.GateApproved, events.GateRejected, events.GateVoted, events.GateExpired, events.GateReminded,
	events.GrantRevoked,
	events.CheckpointTaken,
	events.CheckpointSaved,
	events.CheckpointFallback,
}

// drawn are the payloads of newer event types that the fold takes in a state.
func drawn(s run.State) []events.Payload {
	var m []events.Payload
	for _, w := range events.Registry() {
		if !slices.Contains(byHand, w.Kind) {
			m = append(m, Drawn(s, w)...)
		}
	}
	return m
}

// Drawn makes payloads of an event type from the names of its fields, about each step, open call and waiting gate of a
// state, and returns those that the fold takes as the next event. Their order depends on the state alone.
func Drawn(s run.State, w events.Type) []events.Payload {
	abouts := []about{{}}
	for _, g := range s.Waiting() {
		abouts = append(abouts, about{step: g.StepID, call: g.CallID, gate: g.ID, hash: g.Hash})
	}
	if s.Plan != nil {
		for _, st := range s.Plan.Steps {
			abouts = append(abouts, about{step: st.ID})
		}
	}
	for _, turn := range run.Backward(s.Turns()) {
		for _, asked := range turn.Calls {
			if c := s.Open[asked.ID]; c != nil {
				abouts = append(abouts, about{step: c.Step, call: c.ID, tool: c.Tool, fence: c.Fence})
			}
		}
	}
	var m []events.Payload
	for _, a := range abouts {
		p := w.New()
		a.fill(reflect.ValueOf(p).Elem(), "")
		if event := reflect.ValueOf(p).Elem().FieldByName("Event"); event.IsValid() {
			event.SetString(w.Event)
		}
		if takes(s, w, p) {
			m = append(m, p)
		}
	}
	return m
}

// takes reports whether a payload fits as the next event of a state.
func takes(s run.State, w events.Type, p events.Payload) bool {
	f := events.Event{Type: w.Kind.Type(), Source: events.Source(s.Identity.Station, w.Author), Identity: s.Identity,
		Time: s.UpdatedAt.Add(time.Second), Sequence: s.Sequence + 1, PrevHash: s.Hash}
	_, err := s.ApplyEvent(f, p, s.Hash)
	return err == nil
}

// about is what a drawn payload speaks of.
type about struct {
	step, call, tool, gate, hash string
	fence                        uint64
}

// fill sets the fields that name what the payload is about, and every other one that is never left out, so that no text
// is empty. Lists and references stay empty.
func (a about) fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(Start))
			return
		}
		for _, f := range filled()[v.Type()] {
			a.fill(v.Field(f.index), f.tag)
		}
	case reflect.String:
		v.SetString(a.text(name))
	case reflect.Uint64:
		if name == "fence" {
			v.SetUint(a.fence)
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{}`))
		}
	}
}

// text is what a field of that name says.
func (a about) text(name string) string {
	switch name {
	case "step_id":
		return a.step
	case "tool_id", "call_id":
		return a.call
	case "tool_name":
		return a.tool
	case "gate_id":
		return a.gate
	case "proposal_hash":
		return a.hash
	}
	return "the " + strings.ReplaceAll(name, "_", " ")
}

// field is a field of a payload that fill sets.
type field struct {
	index int
	tag   string
}

// filled has the fields that fill sets of each payload and of what it holds. Random walks draw thousands of each.
var filled = sync.OnceValue(func() map[reflect.Type][]field {
	all := map[reflect.Type][]field{}
	for _, w := range events.Registry() {
		collect(all, reflect.TypeOf(w.New()).Elem())
	}
	return all
})

// collect adds the fields that fill sets of a type and of the structs in it.
func collect(all map[reflect.Type][]field, t reflect.Type) {
	if _, ok := all[t]; ok || t.Kind() != reflect.Struct {
		return
	}
	all[t] = nil
	for i := range t.NumField() {
		tag, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if !strings.Contains(options, "omit") || tag == "call_id" || tag == "fence" {
			all[t] = append(all[t], field{i, tag})
			collect(all, t.Field(i).Type)
		}
	}
}
