package events_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// FuzzDecode proves SAFE-12 and EVT-8: any bytes are a fact or an error, and a fact that was read and written again
// is written the same from then on.
func FuzzDecode(f *testing.F) {
	for _, w := range events.Vocabulary() {
		b, err := os.ReadFile(golden(w.Kind))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"type":"dev.inspan.run.created.v1"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := events.Decode(b)
		if err != nil {
			if first.ID != "" || first.Data != nil {
				t.Fatalf("an error and a fact: %+v", first)
			}
			return
		}
		p, err := first.Payload()
		if (err == nil) != (p != nil) {
			t.Fatalf("payload: got %v and %v", p, err)
		}
		one, err := first.Encode()
		if err != nil {
			t.Fatalf("a fact that was read can not be written: %v", err)
		}
		second, err := events.Decode(one)
		if err != nil {
			t.Fatalf("a fact that was written can not be read: %v\n%s", err, one)
		}
		two, err := second.Encode()
		if err != nil || !bytes.Equal(one, two) {
			t.Fatalf("not stable (%v):\n%s\n%s", err, one, two)
		}
	})
}

// FuzzParseRunSubject proves SAFE-12: any subject is refused or taken apart so that it can be put together again.
func FuzzParseRunSubject(f *testing.F) {
	for _, s := range []string{"station.s.run.r.evt.step.ready", "station.s.run.r.gate.g.anna", "station.s.due.r.turn.a", "....", "station.s.run.*.>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		if p, ok := events.ParseRunSubject(subject); ok {
			if !events.ValidID(p.Station) || !events.ValidID(p.Run) || len(p.Rest) == 0 {
				t.Fatalf("got %+v", p)
			}
			if again := strings.Join(append([]string{"station", p.Station, "run", p.Run}, p.Rest...), "."); again != subject {
				t.Fatalf("got %q, want %q", again, subject)
			}
		}
		if run, family, id, ok := events.ParseDue(subject); ok && (!events.ValidID(run) || !events.ValidID(family) || !events.ValidID(id)) {
			t.Fatalf("got %q %q %q", run, family, id)
		}
	})
}
