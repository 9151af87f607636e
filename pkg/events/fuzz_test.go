package events_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// FuzzDecode proves SAFE-12 and EVT-8: any bytes are an event or an error, and an event that was read and written again
// is written the same from then on.
func FuzzDecode(f *testing.F) {
	for _, w := range events.Registry() {
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
				t.Fatalf("an error and an event: %+v", first)
			}
			return
		}
		p, err := first.Payload()
		if (err == nil) != (p != nil) {
			t.Fatalf("payload: got %v and %v", p, err)
		}
		one, err := first.Encode()
		if err != nil {
			t.Fatalf("an event that was read cannot be written: %v", err)
		}
		second, err := events.Decode(one)
		if err != nil {
			t.Fatalf("an event that was written cannot be read: %v\n%s", err, one)
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

// FuzzIDs proves SAFE-12: an id is either refused or comes back from every subject it is put into, and never makes
// one subject into another.
func FuzzIDs(f *testing.F) {
	for _, id := range []string{"a", "", ".", "*", ">", "a.b", "a b", "a\x00", "\u202ea", "é", "A-Z_09", strings.Repeat("x", events.MaxID), strings.Repeat("x", events.MaxID+1)} {
		f.Add(id, "r", "g", "turn.build")
		f.Add("s", id, "g", id+".x")
		f.Add("s", "r", id, "run."+id)
	}
	f.Fuzz(func(t *testing.T, s, r, g, name string) {
		for _, id := range []string{s, r, g} {
			if err := events.CheckID("test", id); (err == nil) != events.ValidID(id) || err != nil && len(err.Error()) > 512 {
				t.Fatalf("%q: valid %v, error %v", id, events.ValidID(id), err)
			}
			if events.ValidID(id) && (len(id) > events.MaxID || strings.ContainsFunc(id, func(c rune) bool { return c > 127 || strings.ContainsRune(".*> \t\r\n\x00/\\", c) })) {
				t.Fatalf("%q is called an id", id)
			}
		}
		ids := events.ValidID(s) && events.ValidID(r)
		p, ok := events.ParseRunSubject(events.GateSubject(s, r, g))
		if ids && events.ValidID(g) && (!ok || p.Station != s || p.Run != r || len(p.Rest) != 2 || p.Rest[1] != g) {
			t.Fatalf("gate %q of run %q: got %+v, %v", g, r, p, ok)
		}
		if ok && (p.Station == s || p.Run == r) && !ids && strings.Count(s+r, ".") == 0 {
			t.Fatalf("no ids, and yet a subject: %q %q, %+v", s, r, p)
		}
		for _, w := range events.Registry() {
			p, ok := events.ParseRunSubject(events.RunEventSubject(s, r, w.Kind))
			if ok != ids && strings.Count(s+r, ".") == 0 || ok && ids && strings.Join(p.Rest, ".") != "evt."+string(w.Kind) {
				t.Fatalf("%s of %q %q: got %+v, %v", w.Kind, s, r, p, ok)
			}
		}
		run, family, id, ok := events.ParseDue(events.DueSubject(s, r, name))
		wantFamily, wantID, two := strings.Cut(name, ".")
		if want := ids && two && events.ValidID(wantFamily) && events.ValidID(wantID); want && (!ok || run != r || family != wantFamily || id != wantID) {
			t.Fatalf("timer %q of %q: got %q %q %q, %v", name, r, run, family, id, ok)
		}
	})
}
