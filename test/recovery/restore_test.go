package recovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func level(n int) *int { return &n }

func TestRestore(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	p.start(events.Task{ID: "gated", Agent: "careful", Task: "write", Autonomy: level(1)})
	p.start(events.Task{ID: "paused", Agent: "careful", Task: "write", Autonomy: level(1)})
	p.start(events.Task{ID: "done", Agent: "loud", Task: "shout"})
	atGate := p.await("gated", "waiting", waiting)
	p.await("paused", "waiting", waiting)
	if _, err := p.c.Control(p.ctx(), "paused", events.Control{Action: "pause", By: "anna"}); err != nil {
		t.Fatal(err)
	}
	p.await("done", "ended", ended)
	before := map[string][][]byte{"gated": p.bytes("gated"), "paused": p.bytes("paused"), "done": p.bytes("done")}
	p.down() // the drain saves what was touched
	p.wipe()

	t.Run("EVT-9 SAFE-2 a wiped station is refilled from its archive with the same bytes, twice the same", func(t *testing.T) {
		for range 2 {
			inspan(t, 0, "restore", "--from", p.archive, "--station", "lab", "--store", filepath.Join(p.dir, "store"))
		}
		p.up()
		for id, want := range before {
			got := p.bytes(id)
			if err := begins(got, want); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			extra := 1 // run.moved
			if id == "done" {
				extra = 0
			}
			if len(got) != len(want)+extra {
				t.Errorf("%s has %d events, want %d and %d", id, len(got), len(want), extra)
			}
			p.do(0, "audit", id)
		}
	})
	t.Run("EVT-9 PERS-15 a gate that stood before the loss is answered after it, and the run completes", func(t *testing.T) {
		s := p.await("gated", "waiting", waiting)
		if s.Waiting()[0].ID != atGate.Waiting()[0].ID || s.Sequence != atGate.Sequence+1 {
			t.Errorf("gate %s at event %d, it was %s at %d", s.Waiting()[0].ID, s.Sequence, atGate.Waiting()[0].ID, atGate.Sequence)
		}
		p.approve(s)
		if s := p.await("gated", "ended", ended); s.Status != events.Completed || s.Turns().Len() != 2 {
			t.Errorf("%s, %d turns", s.Status, s.Turns().Len())
		}
		if b, err := os.ReadFile(filepath.Join(p.dir, "store", "workspace", "run", "gated", "out.txt")); err != nil || string(b) != "written" {
			t.Errorf("%q %v", b, err)
		}
	})
	t.Run("EVT-9 SAFE-4 inputs of the new station are not taken for old ones at the same positions", func(t *testing.T) {
		s := p.await("paused", "paused", func(s run.State) bool { return s.Status == events.Paused })
		if _, err := p.c.Control(p.ctx(), "paused", events.Control{Action: "resume", By: "anna"}); err != nil {
			t.Fatal(err)
		}
		p.approve(s)
		if s := p.await("paused", "ended", ended); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("EVT-9 PERS-15 a run that had ended is as it was, with its large objects", func(t *testing.T) {
		if s := p.await("done", "ended", ended); s.Turns().Len() != 2 || s.Tokens != mustState(t, before["done"]).Tokens {
			t.Errorf("%d turns, %+v", s.Turns().Len(), s.Tokens)
		}
		if _, ref := resultOf(t, p, "done"); ref == nil {
			t.Error("the large output has no object: the test shows nothing of objects")
		} else if b, err := p.c.Object(p.ctx(), *ref); err != nil || len(b) < 90_000 {
			t.Errorf("the object has %d bytes, %v", len(b), err)
		}
	})
	t.Run("EVT-9 a run that went on is left alone, and one with other events is refused", func(t *testing.T) {
		n := len(p.bytes("gated"))
		p.do(0, "restore", "--from", p.archive, "gated")
		if got := len(p.bytes("gated")); got != n {
			t.Errorf("%d events, it had %d", got, n)
		}
		q := newPlace(t, "lab")
		q.up()
		q.start(events.Task{ID: "done", Agent: "careful", Task: "another"})
		q.await("done", "ended", ended)
		evs := q.bytes("done")
		if out := q.do(1, "restore", "--from", p.archive, "done"); !strings.Contains(out, "other events") {
			t.Error(out)
		}
		if err := begins(q.bytes("done"), evs); err != nil || len(q.bytes("done")) != len(evs) {
			t.Errorf("the refused run was changed: %v", err)
		}
	})
	t.Run("SAFE-6 EVT-9 on a server with users each event is brought under the user who may say it, and under no other", func(t *testing.T) {
		guarded(t, p.archive, len(before["gated"]))
	})
	t.Run("SAFE-3 EVT-9 a damaged archive restores nothing of the run", func(t *testing.T) {
		damage(t, p.archive)
		q := newPlace(t, "lab")
		q.up()
		out := q.do(1, "restore", "--from", p.archive, "done")
		if !strings.Contains(out, "damaged") {
			t.Error(out)
		}
		if got := q.bytes("done"); len(got) != 0 {
			t.Errorf("%d events were written", len(got))
		}
	})
	t.Run("CLI-9 a folder that is no archive is named", func(t *testing.T) {
		p.do(5, "restore", "--from", t.TempDir())
		p.do(2, "restore")
	})
}

// resultOf returns the first tool result of a run.
func resultOf(t *testing.T, p *place, id string) (string, *events.Ref) {
	t.Helper()
	s, err := p.c.State(p.ctx(), id)
	if err != nil || s.ToolCallHistory.Len() == 0 {
		t.Fatalf("%v, %d calls", err, s.ToolCallHistory.Len())
	}
	rec := s.ToolCallHistory.At(0)
	return rec.Result, rec.ResultRef
}

func mustState(t *testing.T, evs [][]byte) run.State {
	t.Helper()
	s, err := run.Fold(run.State{}, evs...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// damage changes one byte of each object of an archive.
func damage(t testing.TB, dir string) {
	t.Helper()
	objects, err := filepath.Glob(filepath.Join(dir, "objects", "*", "*"))
	if err != nil || len(objects) == 0 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	for _, o := range objects {
		b, err := os.ReadFile(o)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(o, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
