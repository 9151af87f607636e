package recovery

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestBundle(t *testing.T) {
	t.Parallel()
	a, b := newPlace(t, "paris"), newPlace(t, "berlin")
	b.strange = true
	a.up()
	b.up()
	file := func(name string) string { return filepath.Join(a.dir, name+".bundle") }
	t.Run("EVT-9 a run at a gate moves from one station to another and completes there, and only there", func(t *testing.T) {
		a.start(events.Task{ID: "mover", Agent: "careful", Task: "write", Autonomy: level(1)})
		a.await("mover", "waiting", waiting)
		open := a.bytes("mover")
		if out := a.do(2, "export", "mover", "--bundle", file("mover")); !strings.Contains(out, "--fork") {
			t.Error(out)
		}
		a.do(0, "export", "mover", "--bundle", file("mover"), "--move")
		left, err := a.c.State(a.ctx(), "mover")
		if err != nil || left.Status != events.Failed || !strings.Contains(left.Result.Error, archive.MovedAway) {
			t.Fatalf("%v %s", err, left.Status)
		}
		a.do(0, "export", "mover", "--bundle", file("mover"), "--move") // again, as after an interruption
		b.do(0, "import", file("mover"))
		b.do(0, "import", file("mover"))
		s := b.await("mover", "waiting", waiting)
		if err := begins(b.bytes("mover"), open); err != nil || s.Identity.Station != "berlin" || s.Sequence != uint64(len(open))+1 {
			t.Errorf("%v, station %s, event %d", err, s.Identity.Station, s.Sequence)
		}
		b.approve(s)
		if s := b.await("mover", "ended", ended); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
		b.do(0, "audit", "mover")
		n := len(a.bytes("mover"))
		a.do(0, "import", file("mover"))
		if got := a.bytes("mover"); len(got) != n || n != len(open)+1 {
			t.Errorf("an import where the run came from left %d events, there were %d", len(got), n)
		}
	})
	t.Run("EVT-9 LOOP-16 a turn that was put off is taken at the new station; a fork goes on at both", func(t *testing.T) {
		a.start(events.Task{ID: "twin", Agent: "busy", Task: "ask"})
		a.await("twin", "put off", func(s run.State) bool { return s.Plan != nil && s.Plan.Steps[0].Attempt == 1 })
		if _, err := a.c.Control(a.ctx(), "twin", events.Control{Action: "pause", By: "anna"}); err != nil {
			t.Fatal(err)
		}
		a.do(0, "export", "twin", "--bundle", file("twin"), "--fork")
		b.do(0, "import", file("twin"))
		for _, p := range []*place{a, b} {
			p.await("twin", "paused", func(s run.State) bool { return s.Status == events.Paused })
			if _, err := p.c.Control(p.ctx(), "twin", events.Control{Action: "resume", By: "anna"}); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []*place{a, b} {
			if s := p.await("twin", "ended", ended); s.Status != events.Completed || s.Turns().Len() != 1 {
				t.Errorf("%s: %+v", p.name, s.Result)
			}
		}
	})
	t.Run("EVT-9 DEPL-6 the agents of a bundle are registered where they are not known", func(t *testing.T) {
		agents, err := b.c.Agents(b.ctx())
		if err != nil || len(agents) != 2 {
			t.Fatalf("%d agents, %v; want careful and busy", len(agents), err)
		}
		b.start(events.Task{ID: "native", Agent: "careful", Task: "write"})
		if s := b.await("native", "ended", ended); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("EVT-9 an ended run is imported as it is, and can be audited", func(t *testing.T) {
		a.start(events.Task{ID: "record", Agent: "loud", Task: "shout"})
		a.await("record", "ended", ended)
		a.do(0, "export", "record", "--bundle", file("record"))
		b.do(0, "import", file("record"))
		if err := begins(b.bytes("record"), a.bytes("record")); err != nil || len(b.bytes("record")) != len(a.bytes("record")) {
			t.Errorf("%v", err)
		}
		b.do(0, "audit", "record")
		if _, err := b.c.Object(b.ctx(), *must(resultOf(t, b, "record"))); err != nil {
			t.Error(err)
		}
	})
	t.Run("EVT-9 client.Save refuses an open run that would go on in two places", func(t *testing.T) {
		a.start(events.Task{ID: "open", Agent: "careful", Task: "write", Autonomy: level(1)})
		a.await("open", "waiting", waiting)
		dir, err := archive.Create(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if _, err := operator.Save(a.ctx(), a.c, dir, "open", operator.LeaveEnded, "anna"); err == nil {
			t.Error("it was saved")
		}
	})
}

func must(_ string, ref *events.Ref) *events.Ref { return ref }
