package planner

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/sessions"
)

// before is a session as versions without logs kept it: a run that ended long ago was told, and another one holds the
// lock.
func before(holder string) events.Session {
	at := time.Unix(1e9, 0).UTC()
	return events.Session{ID: "s", Mode: events.Sequential, Status: events.SessionOpen, Fence: 4, Born: 1, Runs: 4, CreatedAt: at, UsedAt: at,
		SessionSettings: events.SessionSettings{Prompt: "Be brief."}, Inputs: []uint64{3, 5},
		Holders: []events.Holder{{Run: holder, Agent: "a", Fence: 4, Since: at}}}
}

// shows checks that the row is what the log says, byte for byte.
func (d *desk) shows() {
	d.t.Helper()
	s, position := d.log()
	want, err := session.View().Row(s, position)
	if err != nil {
		d.t.Fatal(err)
	}
	if got, err := d.kv.KV.Get(d.t.Context(), session.View().Key("s")); err != nil || !bytes.Equal(got, want) {
		d.t.Errorf("the row is %s, %v; the log says %s", got, err, want)
	}
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	t.Run("SESS-1 SESS-5 a row of an older version is taken over once, with its locks, its fence and what was carried out", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.put(before("r0"))
		d.must(control(5, "s", `{"action":"delete"}`)) // the older version did that
		d.must(task("r1", "s", ""))
		e := d.session()
		if len(e.Holders) != 1 || e.Holders[0].Run != "r1" || e.Fence != 5 || e.Runs != 5 || d.state("r1").Created.SessionPrompt != "Be brief." {
			t.Errorf("%+v", e)
		}
		d.again()
		d.must(task("r1", "s", ""))
		if s, _ := d.log(); s.Migrated == 0 || s.Sequence != 4 { // migrated, released, locked, confirmed
			t.Errorf("event %d, revision %d", s.Sequence, s.Migrated)
		}
		d.shows()
	})
	t.Run("SESS-5 whoever takes it over dies at any point: the next one goes on, and it is taken over once", func(t *testing.T) {
		t.Parallel()
		for name, died := range map[string]func(*shaky){"before the append": func(s *shaky) { s.full = true }, "before the row": func(s *shaky) { s.failRow = errCut },
			"after the row": func(s *shaky) { s.failRow, s.done = errCut, true }} {
			d := newDesk(t)
			d.put(before("r0"))
			died(d.kv)
			if err := d.receive(control(7, "s", `{"action":"set","system_prompt":"-"}`)); !errors.Is(err, errCut) && !errors.Is(err, kernel.ErrFull) {
				t.Fatalf("%s: %v", name, err)
			}
			d.again()
			d.must(control(7, "s", `{"action":"set","system_prompt":"-"}`))
			if s, _ := d.log(); s.Sequence != 2 || s.Prompt != "" || s.Fence != 4 || len(s.Inputs) != 3 {
				t.Errorf("%s: %+v", name, s)
			}
			d.shows()
		}
	})
	t.Run("SESS-3 SESS-5 two planners take it over at once: one log begins, and one run gets the lock", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.put(before("r0"))
		d.kv.meanwhile = func() {
			first := d.role
			d.again()
			d.must(task("r1", "s", ""))
			d.role = first
		}
		d.refused(task("r2", "s", ""), "session_locked")
		if s, _ := d.log(); len(s.Holders) != 1 || s.Holders[0].Run != "r1" || s.Fence != 5 {
			t.Errorf("%+v", s)
		}
		d.shows()
	})
	t.Run("SESS-3 nothing is taken over while an instance of an older version lives", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.put(before("r0"))
		d.older = session.ErrOlderWriter
		if err := d.receive(task("r1", "s", "")); !errors.Is(err, session.ErrOlderWriter) {
			t.Fatal(err)
		}
		if s, _ := d.log(); s.Sequence != 0 || d.state("r1").Sequence != 0 {
			t.Errorf("event %d", s.Sequence)
		}
		d.older = nil
		d.must(task("r1", "s", ""))
		d.shows()
	})
	t.Run("SESS-3 an older planner that writes a row after the log began is found out: no run begins, and its row stays", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(control(7, "s", `{"action":"start"}`))
		d.put(before("r0"))
		if err := d.receive(task("r1", "s", "")); !errors.Is(err, session.ErrOlderWriter) {
			t.Fatal(err)
		}
		if s, _ := d.log(); s.Sequence != 2 || d.state("r1").Sequence != 0 || len(d.row().Holders) != 1 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("SESS-3 an older planner writes a row between the append of a lock and its row: the run is not created", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(control(7, "s", `{"action":"start"}`))
		d.kv.swapping = func() { d.put(before("r0")) }
		if err := d.receive(task("r1", "s", "")); !errors.Is(err, session.ErrOlderWriter) || d.state("r1").Sequence != 0 {
			t.Fatalf("%v, event %d", err, d.state("r1").Sequence)
		}
	})
}

func TestSessionRow(t *testing.T) {
	t.Parallel()
	t.Run("PERS-21 a row that is gone is written again by whoever looks next", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(task("r1", "s", ""))
		if err := d.kv.Delete(t.Context(), session.View().Key("s")); err != nil {
			t.Fatal(err)
		}
		d.again()
		d.must(control(9, "s", `{"action":"pause"}`))
		d.shows()
	})
	t.Run("SESS-5 a log that ends before its row gives no lock: events are lost", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(task("r1", "s", ""))
		e := d.row()
		e.Log.Sequence++
		d.put(e)
		if err := d.receive(control(9, "s", `{"action":"pause"}`)); err == nil || d.session().Status != events.SessionOpen {
			t.Errorf("%v, %+v", err, d.session())
		}
	})
	t.Run("PERS-21 a session is loaded from its row and the events after it, and gets the same", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(task("r1", "s", ""))
		d.again()
		s, position, ok := session.View().Snapshots(d.kv).Latest(t.Context(), "s")
		whole, at := d.log()
		if !ok || position != at || s.Sequence != whole.Sequence || s.Hash != whole.Hash {
			t.Errorf("%+v at %d, want %+v at %d", s, position, whole, at)
		}
		d.refused(task("r2", "s", ""), "session_locked")
		if reads := d.role.parts.Sessions.(*sessions.Sessions).Ledger.Stats().Reads; reads > 2 {
			t.Errorf("%d reads", reads)
		}
	})
}
