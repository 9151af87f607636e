package events_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
)

// required lists the data fields that a monitoring event must have, whatever their values, and the requirement that
// says so. For an event type without a row here these are the fields that its payload never leaves out.
var required = map[events.Kind]struct {
	ids    string
	fields []string
}{
	events.RunCreated:    {"OBS-18", []string{"to", "task_id", "agent", "agents", "options"}},
	events.RunStarted:    {"OBS-5 OBS-18", []string{"agent_id", "agent_name", "task", "max_steps", "from", "to"}},
	events.RunPaused:     {"OBS-18", []string{"from", "to"}},
	events.RunResumed:    {"OBS-18", []string{"from", "to"}},
	events.RunAdjusted:   {"GATE-10", []string{"autonomy", "from_autonomy"}},
	events.RunMoved:      {"EVT-9", []string{"from_station", "covered_sequence"}},
	events.RunCompleted:  {"OBS-8 OBS-18 LIFE-12", resultFields},
	events.RunFailed:     {"OBS-8 OBS-18 LIFE-12", resultFields},
	events.PlanMade:      {"PLAN-2", []string{"task_id", "steps", "origin"}},
	events.PlanRevised:   {"PLAN-9", []string{"steps", "removed", "kept"}},
	events.PlanCompleted: {"OBS-26", []string{"steps"}},
	events.StepReady:     {"PLAN-5", []string{"step_id", "agent", "critical"}},
	events.StepAllowed:   {"PLAN-4", []string{"step_id", "agent", "autonomy"}},
	events.ChildSpawned: {"OBS-21 SUB-1", []string{"parent_run_id", "sub_agent_id", "outcome", "step_id", "agent", "attempt", "root_run_id", "depth",
		"workspace", "reserve"}},
	events.ChildFinished: {"OBS-21 SUB-3", []string{"parent_run_id", "sub_agent_id", "outcome", "step_id", "agent", "attempt", "finish_reason", "use",
		"duration_ms"}},
	events.RunStopping:        {"SUB-8 OBS-18", []string{"from", "to", "finish_reason", "sub_agent_ids"}},
	events.StepClaimed:        {"PLUS-10", []string{"step_id", "claim", "max_claims", "turns", "checks"}},
	events.CheckPassed:        {"PLUS-10", []string{"step_id", "claim", "check", "kind", "name", "tree", "duration_ms"}},
	events.CheckFailed:        {"PLUS-10", []string{"step_id", "claim", "check", "kind", "name", "reason", "duration_ms"}},
	events.StepFinished:       {"PLAN-11", []string{"step_id", "output", "finish_reason", "turns"}},
	events.StepFailed:         {"OBS-26 PLAN-6", []string{"step_id", "error", "finish_reason", "turns"}},
	events.TurnDeferred:       {"OBS-11", []string{"error", "class", "attempt", "delay_ms", "not_before", "step_id", "step_number"}},
	events.TurnFinished:       {"OBS-7", []string{"step_number", "total_tokens", "input_tokens", "output_tokens", "finish_reason", "step_id"}},
	events.HistoryCompacted:   {"LOOP-9", []string{"step_id", "through_turn", "turns_replaced", "summary", "tokens_before", "tokens_after", "context_window", "input_tokens", "output_tokens", "attempt"}},
	events.CallAllowed:        {"OBS-6", []string{"tool_name", "tool_id", "step_id", "effect", "input_hash", "rules_digest", "budget_left"}},
	events.CallRefused:        {"OBS-6", []string{"tool_name", "tool_id", "step_id", "code", "reason"}},
	events.CallStarted:        {"OBS-6", []string{"tool_name", "tool_id", "input", "step_id", "attempt", "effect", "runner", "sandbox"}},
	events.CallDeferred:       {"OBS-11", []string{"error", "class", "tool_name", "tool_id", "attempt", "delay_ms", "not_before"}},
	events.CallFinished:       {"OBS-6 OBS-19", []string{"tool_name", "tool_id", "output", "duration_ms", "success", "attempt", "retry_count"}},
	events.CallFailed:         {"OBS-6 OBS-19", []string{"tool_name", "tool_id", "error", "duration_ms", "success", "class", "attempt", "retry_count"}},
	events.GateOpened:         {"OBS-20 OBS-26", []string{"gate_id", "action", "scope", "step_id", "proposal", "proposal_hash", "answer_subject"}},
	events.GateApproved:       {"OBS-20", answerFields},
	events.GateRejected:       {"OBS-20", answerFields},
	events.RunForked:          {"PLUS-1", []string{"offset", "data"}},
	events.GateVoted:          {"SAFE-10", answerFields},
	events.GateExpired:        {"SAFE-10", []string{"gate_id", "action", "outcome", "expires_at", "wait_ms", "proposal_hash", "step_id"}},
	events.ArtifactSaved:      {"ART-2", []string{"tool_name", "tool_id", "step_id"}},
	events.CheckpointTaken:    {"PERS-7", []string{"checkpoint", "name", "interval_ms"}},
	events.CheckpointSaved:    {"OBS-22", []string{"checkpoint", "name", "covered_sequence", "key"}},
	events.CheckpointFallback: {"PERS-4", []string{"store", "since_sequence", "reason"}},
}

var (
	resultFields = []string{"from", "status", "success", "output", "finish_reason", "steps_completed", "steps_total", "total_steps",
		"tool_call_count", "total_tokens", "duration_ms"}
	answerFields = []string{"gate_id", "action", "wait_ms", "by", "assurance", "proposal_hash", "step_id"}
)

// envelope lists what every event carries (OBS-3, OBS-18, OBS-19, OBS-20, OBS-22: run id and timestamp).
var envelope = []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "stationid", "runid", "sequence", "data"}

func TestPROP19(t *testing.T) {
	t.Parallel()
	t.Run("TEST-3g PROP-19 OBS-25 Feature: agent-harnesses, Property 19: an event has all fields that its type requires, whatever is said", func(t *testing.T) {
		t.Parallel()
		for _, w := range events.Registry() {
			must, ok := required[w.Kind]
			if !ok {
				must.ids, must.fields = "EVT-13", always(reflect.TypeOf(w.New()).Elem())
			}
			t.Run(must.ids+" "+string(w.Kind), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) { hasFields(t, w, must.fields) })
			})
		}
	})
}

// always lists the fields of a payload that are there whatever their values.
func always(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, always(f.Type)...)
		case !strings.Contains(options, "omit"):
			names = append(names, name)
		}
	}
	return names
}

// hasFields says something at random and fails where a field that must be there is not.
func hasFields(t *rapid.T, w events.Type, fields []string) {
	p := w.New()
	if rapid.Bool().Draw(t, "something is said") {
		p = random(t, w)
	}
	reflect.ValueOf(p).Elem().FieldByName("Event").SetString(w.Event)
	f := event(t, p)
	f.TraceParent, f.WorkflowRun, f.Session = "", "", ""
	b, err := f.Encode()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	var doc, data map[string]json.RawMessage
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatalf("no document: %v", err)
	}
	if err := json.Unmarshal(doc["data"], &data); err != nil {
		t.Fatalf("no data: %v", err)
	}
	for _, field := range envelope {
		if _, ok := doc[field]; !ok {
			t.Fatalf("%s is missing in the envelope", field)
		}
	}
	for _, field := range append([]string{"event"}, fields...) {
		if _, ok := data[field]; !ok {
			t.Fatalf("%s is missing in the data: %s", field, doc["data"])
		}
	}
	if got := string(data["event"]); got != `"`+w.Event+`"` {
		t.Fatalf("event is %s, want %q", got, w.Event)
	}
	var at string
	if err := json.Unmarshal(doc["time"], &at); err != nil {
		t.Fatalf("time: %v", err)
	}
	if when, err := time.Parse(time.RFC3339Nano, at); err != nil || !when.Equal(f.Time) || at[len(at)-1] != 'Z' {
		t.Fatalf("time is %q, want RFC 3339 in UTC", at)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, w := range events.Registry() {
		t.Run("EVT-4 EVT-13 whatever is said as "+string(w.Kind)+" is read as it was said", func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				want := random(t, w)
				f := event(t, want)
				f.Sequence, f.PrevHash = rapid.Uint64Range(2, 1<<53).Draw(t, "sequence"), rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "prevhash")
				b, err := f.Encode()
				if err != nil {
					t.Fatalf("encode: %v", err)
				}
				got, err := events.Decode(b)
				if err != nil {
					t.Fatalf("decode: %v", err)
				}
				if !reflect.DeepEqual(withoutData(got), withoutData(f)) {
					t.Fatalf("got %+v, want %+v", got, f)
				}
				p, err := got.Payload()
				if err != nil {
					t.Fatalf("payload: %v", err)
				}
				one, _ := json.Marshal(p)
				two, _ := json.Marshal(want)
				if string(one) != string(two) {
					t.Fatalf("got %s, want %s", one, two)
				}
			})
		})
	}
}

func withoutData(f events.Event) events.Event { f.Data = nil; return f }
