package events

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// added is an event type of an aggregate of this test.
type added struct {
	By int `json:"by"`
}

func (*added) Kind() Kind { return "count.added" }

func lookupAdded(k Kind) (Type, bool) {
	w := Type{Kind: "count.added", Author: Planner, New: func() Payload { return new(added) }}
	return w, k == w.Kind
}

func TestAggregateEnvelope(t *testing.T) {
	t.Parallel()
	sound := Event{SpecVersion: "1.0", ID: "e1", Source: Source("s1", Planner), Type: Kind("count.added").Type(), Subject: "c1",
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), ContentType: "application/json", Aggregate: "counter",
		Identity: Identity{Station: "s1"}, Sequence: 1, Data: []byte(`{"by":2}`)}
	encode := func(t *testing.T, change func(*Event)) []byte {
		t.Helper()
		f := sound
		change(&f)
		b, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	t.Run("EVT-6 an event of any aggregate is read with its own event types", func(t *testing.T) {
		t.Parallel()
		b := encode(t, func(*Event) {})
		if _, ok := scan(b); !ok {
			t.Error("it is not read the fast way")
		}
		f, p, err := ReadAs(b, "counter", lookupAdded)
		if err != nil || !reflect.DeepEqual(f, sound) || !reflect.DeepEqual(p, &added{By: 2}) {
			t.Errorf("got %+v, %+v, %v", f, p, err)
		}
	})
	t.Run("SAFE-2 it is no event of a run and of no other aggregate", func(t *testing.T) {
		t.Parallel()
		if _, _, err := ReadAs(encode(t, func(*Event) {}), "tally", lookupAdded); !errors.Is(err, ErrDamaged) {
			t.Errorf("as another aggregate: %v", err)
		}
		created := encode(t, func(f *Event) { f.Type, f.Data = RunCreated.Type(), []byte(`{"agent":"a"}`) })
		for name, read := range map[string]func([]byte) error{
			"Read":   func(b []byte) error { _, _, err := Read(b); return err },
			"Decode": func(b []byte) error { _, err := Decode(b); return err },
		} {
			if err := read(created); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: got %v, want ErrDamaged", name, err)
			}
		}
	})
	t.Run("SAFE-2 an envelope that is not sound is refused", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(*Event){
			"aggregate":      func(f *Event) { f.Aggregate = "Counter" },
			"run by name":    func(f *Event) { f.Aggregate = RunAggregate },
			"id":             func(f *Event) { f.Subject = "a.b" },
			"station":        func(f *Event) { f.Station = "" },
			"source":         func(f *Event) { f.Source = "/elsewhere" },
			"hash of before": func(f *Event) { f.Sequence = 2 },
		} {
			if _, _, err := ReadAs(encode(t, change), "counter", lookupAdded); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: got %v, want ErrDamaged", name, err)
			}
		}
		var unknown *UnknownTypeError
		if _, _, err := ReadAs(encode(t, func(f *Event) { f.Type = Kind("count.reset").Type() }), "counter", lookupAdded); !errors.As(err, &unknown) {
			t.Errorf("got %v, want an UnknownTypeError", err)
		}
	})
}

func TestCheckAggregate(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"run", "session", "x", strings.Repeat("x", 20)} {
		if err := CheckAggregate(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "Run", "a.b", "a-b", "*", "timer", "due", "dead", "task", strings.Repeat("x", 21)} {
		if CheckAggregate(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestAggregateSubjects(t *testing.T) {
	t.Parallel()
	subject := EventSubject("s1", "counter", "c1", "count.added")
	got, ok := ParseAggregateSubject(subject)
	want := AggregateSubject{Station: "s1", Aggregate: "counter", ID: "c1", Rest: []string{"evt", "count", "added"}}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, %v; want %+v", subject, got, ok, want)
	}
	if _, ok := ParseRunSubject(subject); ok {
		t.Errorf("%s is taken for a subject of a run", subject)
	}
	if got, want := AggregateEvents("s1", RunAggregate, "r1"), "station.s1.run.r1.evt.>"; got != want || RunEvents("s1", "r1") != want {
		t.Errorf("the guard of a run is %q and %q, want %q", got, RunEvents("s1", "r1"), want)
	}
}
