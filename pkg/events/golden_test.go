package events_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"github.com/inspan/inspan/pkg/events"
)

var update = flag.Bool("update", false, "write the golden samples that do not exist yet or have grown")

func golden(k events.Kind) string { return filepath.Join("testdata", string(k)+".json") }

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, w := range every() {
		t.Run("EVT-13 EVT-1 the sample of "+string(w.Kind)+" is what is written today, and is read", func(t *testing.T) {
			t.Parallel()
			f := event(t, sample(w))
			b, err := f.Encode()
			if err != nil {
				t.Fatal(err)
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, b, "", "  "); err != nil {
				t.Fatal(err)
			}
			pretty.WriteByte('\n')
			if *update {
				if err := os.WriteFile(golden(w.Kind), pretty.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden(w.Kind))
			if err != nil {
				t.Fatalf("%v: make it with go test ./pkg/events -update", err)
			}
			if !bytes.Equal(pretty.Bytes(), want) {
				t.Errorf("%s is not what is written now. A payload only ever grows: if a field was added, run go test ./pkg/events -update.\n got %s\nwant %s",
					golden(w.Kind), pretty.Bytes(), want)
			}
			_, p, err := read(want, w.Kind)
			if err != nil {
				t.Fatalf("read the sample: %v", err)
			}
			if !reflect.DeepEqual(normal(t, p), normal(t, sample(w))) {
				t.Errorf("got %+v, want %+v", p, sample(w))
			}
			t.Run("ECO-1 EVT-13 the CloudEvents SDK accepts it", func(t *testing.T) { conforms(t, want, w.Kind) })
		})
	}
	t.Run("EVT-13 there is no sample without a kind", func(t *testing.T) {
		t.Parallel()
		files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
		if err != nil || len(files) != len(every()) {
			t.Errorf("got %d samples, %v; want %d", len(files), err, len(every()))
		}
		for _, file := range files {
			k := events.Kind(strings.TrimSuffix(filepath.Base(file), ".json"))
			if _, _, ok := registered(k); !ok {
				t.Errorf("%s: %q is not a kind: a word is never taken back", file, k)
			}
		}
	})
}

// normal is a payload as a document, so that a raw message compares by what it says.
func normal(t *testing.T, p events.Payload) any {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// conforms asks the official SDK, and compares what it understood with what we did.
func conforms(t *testing.T, b []byte, k events.Kind) {
	t.Helper()
	var e cloudevents.Event
	if err := e.UnmarshalJSON(b); err != nil {
		t.Fatalf("the SDK cannot read it: %v", err)
	}
	if err := e.Validate(); err != nil {
		t.Fatalf("the SDK finds it invalid: %v", err)
	}
	f, _, err := read(b, k)
	if err != nil {
		t.Fatal(err)
	}
	extension := func(name string) any { return cmp.Or(e.Extensions()[name], any("")) }
	for name, pair := range map[string][2]any{
		"specversion": {e.SpecVersion(), f.SpecVersion}, "id": {e.ID(), f.ID}, "source": {e.Source(), f.Source},
		"type": {e.Type(), f.Type}, "subject": {e.Subject(), f.Subject}, "datacontenttype": {e.DataContentType(), f.ContentType},
		"runid": {extension("runid"), f.Run}, "stationid": {e.Extensions()["stationid"], f.Station}, "aggregate": {extension("aggregate"), f.Aggregate},
		"traceparent": {extension("traceparent"), f.TraceParent}, "sequence": {e.Extensions()["sequence"], int32(f.Sequence)},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: the SDK reads %#v, we %#v", name, pair[0], pair[1])
		}
	}
	if !e.Time().Equal(f.Time) {
		t.Errorf("time: the SDK reads %s, we %s", e.Time(), f.Time)
	}
	var theirs, ours any
	if err := json.Unmarshal(e.Data(), &theirs); err != nil {
		t.Fatalf("the SDK's data: %v", err)
	}
	if err := json.Unmarshal(f.Data, &ours); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(theirs, ours) {
		t.Errorf("data: the SDK reads %v, we %v", theirs, ours)
	}
	for name := range e.Extensions() {
		if strings.ToLower(name) != name || len(name) > 20 {
			t.Errorf("extension %q: want at most 20 lower-case letters and digits", name)
		}
	}
}

// noted is an event type that this program does not have.
type noted struct{ Event string }

func (*noted) Kind() events.Kind { return "note.taken" }

// gaps returns what rows of event types lack: each names the type.
func gaps(types []events.Type) []string {
	var found []string
	seen := map[events.Kind]bool{}
	for _, w := range types {
		lacks := func(yes bool, format string, args ...any) {
			if yes {
				found = append(found, string(w.Kind)+" "+fmt.Sprintf(format, args...))
			}
		}
		lacks(seen[w.Kind], "is there twice")
		seen[w.Kind] = true
		fam := w.Kind.Family()
		lacks(!events.ValidID(fam) || !strings.HasPrefix(string(w.Kind), fam+"."), "is not {family}.{verb}")
		lacks(!slices.Contains(events.Services(), w.Author), "has no author: a service that may publish it")
		lacks(w.Event == "", "has no name for data.event")
		lacks(w.Origin != events.Decided && w.Origin != events.Recorded, "has no origin: events.Decided or events.Recorded")
		lacks(w.Shown&events.InLog == 0, "is not shown in the log (events.InLog)")
		lacks(!strings.HasSuffix(w.Doc, "."), "has no sentence for the docs, or one without a full stop")
		lacks(w.New == nil, "has no payload")
		if _, of := events.Lookup(w.Kind); !of && w.New != nil { // the lines of a run's events may be in internal/core/view
			lacks(w.Line == nil || w.Line(w.New()) == "", "has no line of text")
		}
		if w.New != nil {
			got := w.New().Kind()
			lacks(got != w.Kind, "has the payload of %s", got)
		}
		if _, err := os.Stat(golden(w.Kind)); err != nil {
			lacks(true, "has no sample: run go test ./pkg/events -run Golden/sample.of -update")
		}
	}
	return found
}

func TestVocabulary(t *testing.T) {
	t.Parallel()
	t.Run("EVT-13 OBS-5 each word is whole: kind, author, event name, origin, views, sentence, payload, sample", func(t *testing.T) {
		t.Parallel()
		for _, a := range events.Aggregates() {
			if err := events.CheckAggregate(a.Name); err != nil || !strings.HasSuffix(a.Doc, ".") {
				t.Errorf("aggregate %s: %q, %v", a.Name, a.Doc, err)
			}
			for _, w := range a.Types {
				if got, ok := a.Lookup(w.Kind); !ok || got.Event != w.Event {
					t.Errorf("%s: Lookup of %s finds %q", w.Kind, a.Name, got.Kind)
				}
			}
		}
		for _, gap := range gaps(every()) {
			t.Error(gap)
		}
		for _, w := range events.Registry() {
			if got, err := events.ParseType(w.Kind.Type()); err != nil || got != w.Kind {
				t.Errorf("type %s: got %q, %v", w.Kind.Type(), got, err)
			}
		}
	})
	t.Run("EVT-13 what a row lacks is named, with its type", func(t *testing.T) {
		t.Parallel()
		whole, _ := events.Lookup(events.HistoryCompacted)
		if got := gaps([]events.Type{whole}); len(got) > 0 {
			t.Fatalf("a whole row: %q", got)
		}
		for want, take := range map[string]func(w *events.Type){
			"history.compacted has no author": func(w *events.Type) { w.Author = "" },
			"history.compacted has no name":   func(w *events.Type) { w.Event = "" },
			"history.compacted has no origin": func(w *events.Type) { w.Origin = 0 },
			"history.compacted is not shown":  func(w *events.Type) { w.Shown = events.InTree },
			"history.compacted has no senten": func(w *events.Type) { w.Doc = "" },
			"history.compacted has no payloa": func(w *events.Type) { w.New = nil },
			"history.compacted has the paylo": func(w *events.Type) { w.New = func() events.Payload { return new(events.StepReadyData) } },
			"session.locked has no line of text": func(w *events.Type) {
				*w, _ = events.LookupSession(events.SessionLocked)
				w.Line = nil
			},
			"note.taken has no sample: run go test ./pkg/events -run": func(w *events.Type) {
				w.Kind, w.New = "note.taken", func() events.Payload { return new(noted) }
				w.Line = func(events.Payload) string { return "a note" }
			},
		} {
			w := whole
			take(&w)
			if got := gaps([]events.Type{w}); len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if got := gaps([]events.Type{whole, whole}); len(got) != 1 || got[0] != "history.compacted is there twice" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("OBS-26 the named events are carried", func(t *testing.T) {
		t.Parallel()
		for kind, want := range map[events.Kind]string{events.GateOpened: "waiting_for_human", events.StepFailed: "step_failed",
			events.PlanCompleted: "plan_completed", events.RunStarted: "run_start", events.TurnFinished: "step_complete",
			events.CallStarted: "tool_start", events.CallFinished: "tool_result", events.CallFailed: "tool_result",
			events.RunCompleted: "run_complete", events.RunFailed: "run_complete", events.CallDeferred: "error", events.TurnDeferred: "error"} {
			if w, _ := events.Lookup(kind); w.Event != want {
				t.Errorf("%s carries %q, want %q", kind, w.Event, want)
			}
		}
	})
}
