package events

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWriteProperty(t *testing.T) {
	t.Parallel()
	all := samples(t)
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SampledFrom(all).Draw(t, "sample")
		about, _ := scan(b)
		a, _ := AggregateOf(about.AggregateName())
		f, p, err := ReadAs(b, a.Name, a.Lookup)
		if err != nil {
			t.Fatal(err)
		}
		f.Time = time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "seconds"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC()
		f.Sequence = rapid.Uint64().Draw(t, "sequence")
		f.AgentName = rapid.OneOf(rapid.StringMatching(`[a-z-]{0,9}`), rapid.String(), rapid.Just("<&>\u2028\xff")).Draw(t, "agent")
		f.Aggregate = rapid.SampledFrom([]string{"", "session"}).Draw(t, "aggregate")
		f.TraceParent = rapid.SampledFrom([]string{"", "00-1-2-01", "a\x7fb", `"`}).Draw(t, "trace")
		if f.Data, err = json.Marshal(p); err != nil {
			t.Fatal(err)
		}
		want, errWant := f.Encode()
		got, err := f.EncodeWith(p)
		if (err == nil) != (errWant == nil) || string(got) != string(want) {
			t.Fatalf("got %s, %v\nwant %s, %v", got, err, want, errWant)
		}
	})
}

func BenchmarkEncodeWith(b *testing.B) {
	f, p := turnFinished(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.EncodeWith(p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode is the ordinary way.
func BenchmarkEncode(b *testing.B) {
	f, p := turnFinished(b)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if f.Data, err = json.Marshal(p); err != nil {
			b.Fatal(err)
		}
		if _, err := f.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

func turnFinished(b *testing.B) (Event, Payload) {
	b.Helper()
	for _, stored := range samples(b) {
		if f, p, err := Read(stored); err == nil && p.Kind() == TurnFinished {
			return f, p
		}
	}
	b.Fatal("no sample")
	return Event{}, nil
}
