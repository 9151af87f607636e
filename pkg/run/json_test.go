package run_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func sampleState(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/state_v1.json")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func generic(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// holds checks that everything in want is in got, with the same value.
func holds(t *testing.T, path string, got, want any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			t.Errorf("%s: got %v, want an object", path, got)
			return
		}
		for k, w := range want {
			if v, ok := g[k]; !ok {
				t.Errorf("%s.%s is lost", path, k)
			} else {
				holds(t, path+"."+k, v, w)
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
			return
		}
		for i := range want {
			holds(t, fmt.Sprintf("%s[%d]", path, i), g[i], want[i])
		}
	default:
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}

func TestCodec(t *testing.T) {
	t.Parallel()
	t.Run("EVT-14 EVT-2 EVT-3 the sample document of version 1 is read and written equal", func(t *testing.T) {
		t.Parallel()
		in := sampleState(t)
		s, err := run.Codec{}.Decode(in)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if s.HarnessID != "harness-7f3a" || s.Status != events.Paused || len(s.Plan.Steps) != 2 || len(s.SubAgentIDs) != 1 ||
			s.ToolCallHistory.Len() != 1 || s.AgentLoopSnapshot.Turns.Len() != 1 || s.CheckpointCount != 3 || !s.Plan.Steps[1].Critical {
			t.Errorf("got %s", document(t, s))
		}
		out, err := run.Codec{}.Encode(s)
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		holds(t, "state", generic(t, out), generic(t, in))
		again, err := run.Codec{}.Decode(out)
		if err != nil || document(t, again) != document(t, s) {
			t.Errorf("read again (%v):\n got %s\nwant %s", err, document(t, again), document(t, s))
		}
	})
	t.Run("EVT-2 every field of the snapshot is written, also when empty", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "r")
		b.Append(runtest.Created())
		out, err := run.Codec{}.Encode(b.State())
		if err != nil {
			t.Fatal(err)
		}
		doc := generic(t, out)
		for field, want := range map[string]any{"schemaVersion": 1.0, "harnessId": "r", "agentName": "worker", "taskId": "task-1",
			"status": "created", "createdAt": "2025-03-04T05:06:07Z", "updatedAt": "2025-03-04T05:06:07Z", "plan": nil, "currentStepIndex": 0.0,
			"toolCallHistory": []any{}, "totalToolCalls": 0.0, "subAgentIds": []any{}, "subAgentResults": map[string]any{},
			"agentLoopSnapshot": nil, "lastCheckpointAt": nil, "checkpointCount": 0.0} {
			if got, ok := doc[field]; !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %v (there: %v), want %v", field, got, ok, want)
			}
		}
	})
	t.Run("EVT-6 an older document is lifted through the migrations, one version at a time", func(t *testing.T) {
		t.Parallel()
		old := strings.Replace(strings.Replace(string(sampleState(t)), `"schemaVersion": 1`, `"schemaVersion": -1`, 1), `"agentName"`, `"agent"`, 1)
		old = strings.Replace(old, `"taskId": "task-42",`, `"task": "task-42",`, 1)
		rename := func(from, to string) run.Migration {
			return func(doc map[string]json.RawMessage) (map[string]json.RawMessage, error) {
				if doc[from] == nil {
					return nil, fmt.Errorf("no %s", from)
				}
				doc[to] = doc[from]
				delete(doc, from)
				return doc, nil
			}
		}
		codec := run.Codec{Migrations: map[int]run.Migration{-1: rename("agent", "agentName"), 0: rename("task", "taskId")}}
		got, err := codec.Decode([]byte(old))
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		want, err := run.Codec{}.Decode(sampleState(t))
		if err != nil || document(t, got) != document(t, want) {
			t.Errorf("(%v)\n got %s\nwant %s", err, document(t, got), document(t, want))
		}
		var version *run.VersionError
		if s, err := (run.Codec{Migrations: map[int]run.Migration{-1: rename("agent", "agentName")}}).Decode([]byte(old)); !errors.As(err, &version) || s.HarnessID != "" {
			t.Errorf("with a migration missing: got %v, want a VersionError", err)
		}
		if s, err := (run.Codec{Migrations: map[int]run.Migration{-1: rename("nothing", "x"), 0: rename("task", "taskId")}}).Decode([]byte(old)); !errors.Is(err, run.ErrDamagedState) || s.HarnessID != "" {
			t.Errorf("with a migration that fails: got %v, want ErrDamagedState", err)
		}
	})
	t.Run("TEST-3h EVT-7 an unknown version is named beside the one that is supported", func(t *testing.T) {
		t.Parallel()
		for _, found := range []int{2, 99, 0, -5} {
			doc := strings.Replace(string(sampleState(t)), `"schemaVersion": 1`, fmt.Sprintf(`"schemaVersion": %d`, found), 1)
			s, err := run.Codec{}.Decode([]byte(doc))
			var version *run.VersionError
			if !errors.As(err, &version) || version.Found != found || version.Supported != run.SchemaVersion || s.HarnessID != "" {
				t.Fatalf("version %d: got %v, want a VersionError", found, err)
			}
			if msg := err.Error(); !strings.Contains(msg, fmt.Sprint(found)) || !strings.Contains(msg, "version 1") {
				t.Errorf("version %d: the error names not both: %s", found, msg)
			}
		}
		newer := run.Codec{Migrations: map[int]run.Migration{2: func(d map[string]json.RawMessage) (map[string]json.RawMessage, error) { return d, nil }}}
		var version *run.VersionError
		doc := strings.Replace(string(sampleState(t)), `"schemaVersion": 1`, `"schemaVersion": 2`, 1)
		if _, err := newer.Decode([]byte(doc)); !errors.As(err, &version) {
			t.Errorf("a migration away from a newer version: got %v, want a VersionError", err)
		}
	})
	t.Run("EVT-8 a damaged document is an error and no state, wherever it is cut", func(t *testing.T) {
		t.Parallel()
		whole := []byte(strings.TrimSpace(string(sampleState(t))))
		for n := range len(whole) {
			if s, err := (run.Codec{}).Decode(whole[:n]); !errors.Is(err, run.ErrDamagedState) || !reflect.DeepEqual(s, run.State{}) {
				t.Fatalf("the first %d bytes: got %v, want ErrDamagedState and no state", n, err)
			}
		}
	})
	for name, change := range map[string][2]string{
		"no version":                {`"schemaVersion": 1,`, ``},
		"a version that is text":    {`"schemaVersion": 1`, `"schemaVersion": "1"`},
		"no id":                     {`"harness-7f3a"`, `""`},
		"no agent":                  {`"code-reviewer",`, `"",`},
		"an unknown status":         {`"paused"`, `"sleeping"`},
		"no status":                 {`"status": "paused",`, ``},
		"no time":                   {`"createdAt": "2025-01-15T10:00:00Z",`, ``},
		"a time of another zone":    {`"createdAt": "2025-01-15T10:00:00Z"`, `"createdAt": "2025-01-15T10:00:00+01:00"`},
		"a time that is none":       {`"2025-01-15T10:30:00Z"`, `"yesterday"`},
		"a history that is no list": {`"toolCallHistory": [`, `"toolCallHistory": 1, "x": [`},
		"a step that is null":       {`"steps": [`, `"steps": [null,`},
		"an unknown step status":    {`"status": "pending"`, `"status": "sleeping"`},
		"an index out of the plan":  {`"currentStepIndex": 1`, `"currentStepIndex": 7`},
		"a negative index":          {`"currentStepIndex": 1`, `"currentStepIndex": -1`},
		"a call that is null":       {`"checkpointCount": 3`, `"checkpointCount": 3, "openCalls": {"c": null}`},
		"a gate that is null":       {`"checkpointCount": 3`, `"checkpointCount": 3, "gates": [null]`},
	} {
		t.Run("EVT-8 a document with "+name+" is damaged", func(t *testing.T) {
			t.Parallel()
			doc := strings.Replace(string(sampleState(t)), change[0], change[1], 1)
			if doc == string(sampleState(t)) {
				t.Fatalf("%q is not in the sample: the test would prove nothing", change[0])
			}
			if s, err := (run.Codec{}).Decode([]byte(doc)); !errors.Is(err, run.ErrDamagedState) || !reflect.DeepEqual(s, run.State{}) {
				t.Errorf("got %v, want ErrDamagedState and no state", err)
			}
		})
	}
}

// FuzzCodec proves EVT-8 and SAFE-12: any bytes are a state or an error, a state is safe to look at, and written and
// read again it is the same.
func FuzzCodec(f *testing.F) {
	b, err := os.ReadFile("testdata/state_v1.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	long := called(runtest.CallYes(bash, "once"), runtest.GateAt("g", "b", ""))
	if b, err = (run.Codec{}).Encode(long.State()); err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := run.Codec{}.Decode(b)
		if err != nil {
			return
		}
		_ = run.InfoOf(s)
		_, _ = s.StepsCompleted()
		_, _, _ = s.Gate("g"), s.GateFor("a", ""), s.Waiting()
		one, err := run.Codec{}.Encode(s)
		if err != nil {
			t.Fatalf("a state that was read cannot be written: %v", err)
		}
		again, err := run.Codec{}.Decode(one)
		if err != nil {
			t.Fatalf("a state that was written cannot be read: %v\n%s", err, one)
		}
		if two, err := (run.Codec{}).Encode(again); err != nil || string(one) != string(two) {
			t.Fatalf("not stable (%v)\n%s\n%s", err, one, two)
		}
	})
}
