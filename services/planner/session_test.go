package planner

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
)

func TestSessionDeaths(t *testing.T) {
	t.Parallel()
	t.Run("SESS-5 the planner dies between the lock and the run: the task comes again and has its lock", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.kv.failRow, d.kv.done = errCut, true
		if err := d.receive(task("r1", "s", "")); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if _, held := d.session().Holder("r1"); !held || d.state("r1").Sequence != 0 {
			t.Fatalf("%+v", d.session())
		}
		d.again()
		d.must(task("r1", "s", ""))
		if e := d.session(); len(e.Holders) != 1 || e.Fence != 1 || e.Runs != 1 || d.state("r1").Created.SessionFence != 1 {
			t.Errorf("%+v", e)
		}
	})
	for _, ended := range []bool{false, true} {
		t.Run(fmt.Sprintf("SESS-5 SESS-7 a lock taken for a run that was born from another task, outside of the session, is no one's; it has ended: %v", ended), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.kv.failRow, d.kv.done = errCut, true
			if err := d.receive(task("r1", "s", "")); !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			d.must(letter{events.TaskSubject("s1"), `{"id":"r1","agent":"a","task":"a secret of somebody else"}`, 2})
			d.must(letter{events.SessionSubject("s1", "s"), `{"action":"pause"}`, 3})
			if s := d.state("r1"); s.Status == events.Paused {
				t.Fatal("the session's pause paused a run that does not work in it")
			}
			d.must(letter{events.SessionSubject("s1", "s"), `{"action":"resume"}`, 4})
			if ended {
				if err := d.stop("r1"); err != nil {
					t.Fatal(err)
				}
			}
			d.must(letter{events.TaskSubject("s1"), `{"id":"r2","agent":"a","task":"go on","session_id":"s"}`, 5})
			if e := d.session(); len(e.Holders) != 1 || e.Holders[0].Run != "r2" || e.History != nil || d.state("r2").Created.History != nil {
				t.Errorf("%+v", e)
			}
		})
	}
	t.Run("SESS-3 who could not make a run does not give its lock back when somebody else made it meanwhile", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.kv.failRow, d.kv.done = errCut, true
		if err := d.receive(task("r1", "s", "")); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		d.kv.meanwhile = func() { d.must(task("r1", "s", "")) }
		if err := d.role.parts.Sessions.Abandon(t.Context(), "s", "r1"); err != nil {
			t.Fatal(err)
		}
		if _, held := d.session().Holder("r1"); !held || d.state("r1").Sequence == 0 {
			t.Errorf("%+v", d.session())
		}
	})
	t.Run("SESS-3 SESS-5 a lock whose run another task of the same id made, outside of the session, is given back when the task comes again", func(t *testing.T) {
		t.Parallel()
		for name, done := range map[string]bool{"before the row": false, "after the row": true} {
			d := newDesk(t)
			d.must(task("r0", "s", ""))
			if err := d.stop("r0"); err != nil {
				t.Fatal(err)
			}
			d.kv.failRow, d.kv.done = errCut, done
			if err := d.receive(task("r1", "s", "")); !errors.Is(err, errCut) {
				t.Fatalf("%s: %v", name, err)
			}
			d.again()
			d.must(letter{events.TaskSubject("s1"), `{"id":"r1","agent":"a","task":"another task"}`, 5})
			d.refused(task("r1", "s", ""), "duplicate_id")
			if e := d.session(); len(e.Holders) != 0 || d.state("r1").Created.Session != "" {
				t.Errorf("%s: %+v", name, e)
			}
			d.shows()
		}
	})
	t.Run("SESS-3 SESS-5 SAFE-4 a lock that another planner took for a task which was refused meanwhile is given back when the task comes again", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(letter{events.TaskSubject("s1"), `{"id":"r1","agent":"a","task":"another task"}`, 5})
		d.refused(task("r1", "s", ""), "duplicate_id")
		d.take("r1") // and died before the row
		if err := d.role.Undo(t.Context(), task("r1", "s", "")); err != nil {
			t.Fatal(err)
		}
		if e := d.session(); len(e.Holders) != 0 || e.Fence != 1 {
			t.Errorf("%+v", e)
		}
		d.shows()
		for _, other := range []letter{{events.TaskSubject("s1"), "{", 9}, control(9, "s", `{"action":"pause"}`)} {
			if err := d.role.Undo(t.Context(), other); err != nil {
				t.Errorf("%s: %v", other.Data(), err)
			}
		}
		if d.session().Status != events.SessionOpen {
			t.Error("a control that was refused was carried out")
		}
	})
	t.Run("SESS-3 SESS-10 a run keeps the lock that it has where its task was refused by another planner", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(task("r1", "s", ""))
		before := d.session()
		if err := d.role.Undo(t.Context(), task("r1", "s", "")); err != nil {
			t.Fatal(err)
		}
		if _, held := d.session().Holder("r1"); !held || d.session().Fence != before.Fence {
			t.Errorf("%+v", d.session())
		}
	})
	t.Run("SESS-5 SESS-10 a task that comes again after its run has ended takes no second lock and tells nothing twice", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.kv.meanwhile = func() { // another planner is faster by the whole life of the run
			d.must(task("r1", "s", ""))
			if err := d.stop("r1"); err != nil {
				t.Error(err)
			}
		}
		d.must(task("r1", "s", ""))
		if e := d.session(); len(e.Holders) != 0 || e.Fence != 1 || e.Runs != 1 || e.Parts != 1 || len(d.runs()) != 1 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("SESS-7 SESS-10 a run that ended before its lock was confirmed does not get it back", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.kv.meanwhile = func() {
			d.kv.meanwhile = func() { // the run exists, and is stopped before it starts
				if err := d.stop("r1"); err != nil {
					t.Error(err)
				}
			}
		}
		d.must(task("r1", "s", ""))
		d.must(task("r2", "s", ""))
		if e := d.session(); len(e.Holders) != 1 || e.Holders[0].Run != "r2" || e.Fence != 2 || e.Parts != 1 || len(d.runs()) != 1 {
			t.Errorf("%+v %s", e, d.state("r1").Status)
		}
	})
	for _, c := range []struct {
		given bool
		more  string
	}{{false, ""}, {true, ""}, {false, `,"long_running":false`}, {true, `,"long_running":false`}} {
		given := c.given
		t.Run(fmt.Sprintf("SESS-3 SESS-7 a lock that was taken away before the run existed; given to another run: %v%s", given, c.more), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			taken := func() {
				d.drop("r1")
				if given {
					d.must(task("r2", "s", ""))
				}
			}
			d.kv.meanwhile = func() { d.kv.meanwhile = taken } // before the second look at the session
			d.must(task("r1", "s", c.more))
			if s := d.state("r1"); s.Direct() {
				t.Fatal("it began before its lock was confirmed")
			}
			e, s := d.session(), d.state("r1")
			if !given {
				if h, held := e.Holder("r1"); !held || h.Fence != 1 || s.Status != events.Running || s.Plan == nil {
					t.Errorf("%+v %s", e, s.Status)
				}
				return
			}
			if _, held := e.Holder("r2"); !held || len(e.Holders) != 1 || s.Status != events.Failed || s.Turns().Len() != 0 ||
				s.Result.FinishReason != events.FinishCancelled || !strings.Contains(s.Result.Error, "session s was acquired") {
				t.Errorf("%+v %s %+v", e, s.Status, s.Result)
			}
			if d.must(task("r1", "s", c.more)); len(d.session().Holders) != 1 || d.session().Parts != 0 {
				t.Errorf("again: %+v", d.session())
			}
		})
	}
	t.Run("SESS-5 a lock whose run never came lapses, and the next one has a higher fence", func(t *testing.T) {
		t.Parallel()
		young := newDesk(t)
		young.kv.failRow, young.kv.done = errCut, true
		if err := young.receive(task("r1", "s", "")); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		young.refused(task("r2", "s", ""), "session_locked")
		d := newDesk(t)
		d.ago = session.BirthTerm
		d.kv.failRow, d.kv.done = errCut, true
		if err := d.receive(task("r1", "s", "")); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		d.ago = 0
		d.must(task("r2", "s", ""))
		if e := d.session(); len(e.Holders) != 1 || e.Holders[0].Run != "r2" || e.Holders[0].Fence != 2 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("SESS-3 SESS-5 a run that lives keeps its lock, however late it is", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.ago = 48 * time.Hour
		d.must(task("r1", "s", ""))
		d.ago = 0
		if r := d.refused(task("r2", "s", ""), "session_locked"); !strings.Contains(r.Reason, `"s" is locked by run r1`) || r.Run != "r2" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SESS-7 SESS-8 the planner dies between the end of a run and its release: whoever hears next releases, once", func(t *testing.T) {
		t.Parallel()
		for name, died := range map[string]func(*shaky){"before the append": func(s *shaky) { s.full = true }, "before the row": func(s *shaky) { s.failRow = errCut },
			"after the row": func(s *shaky) { s.failRow, s.done = errCut, true }} {
			d := newDesk(t)
			d.must(task("r1", "s", ""))
			died(d.kv)
			if err := d.stop("r1"); !errors.Is(err, errCut) && !errors.Is(err, kernel.ErrFull) {
				t.Fatal(err)
			}
			if !d.state("r1").Status.Ended() {
				t.Fatal("it has not ended")
			}
			d.again()
			for range 2 { // the message comes again, and once more
				if err := d.stop("r1"); err != nil {
					t.Fatal(err)
				}
			}
			if e := d.row(); len(e.Holders) != 0 || e.Parts != 1 || len(d.runs()) != 1 {
				t.Errorf("%s: %+v", name, e)
			}
		}
	})
	t.Run("SESS-7 no one hears of the end at all: the next run settles it and goes on from its history", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(task("r1", "s", ""))
		d.kv.full = true
		if err := d.stop("r1"); !errors.Is(err, kernel.ErrFull) {
			t.Fatal(err)
		}
		d.again()
		d.must(task("r2", "s", ""))
		if e := d.session(); len(e.Holders) != 1 || e.Holders[0].Run != "r2" || e.Holders[0].Fence != 2 || len(d.runs()) != 1 || d.state("r2").Created.History == nil {
			t.Errorf("%+v", e)
		}
		if err := d.stop("r1"); err != nil { // late
			t.Fatal(err)
		}
		if e := d.session(); len(e.Holders) != 1 || e.Parts != 1 {
			t.Errorf("a late word of r1 changed %+v", e)
		}
	})
	t.Run("SESS-7 a store that is behind does not hide a lock that has to be given back", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(control(7, "s", `{"action":"start"}`))
		d.must(task("r1", "s", ""))
		d.kv.behind = true
		if err := d.stop("r1"); err != nil {
			t.Fatal(err)
		}
		if e := d.session(); len(e.Holders) != 0 || e.Parts != 1 || e.Fence != 1 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("SESS-5 a run that ended does not take its lock again", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(task("r1", "s", ""))
		if err := d.stop("r1"); err != nil {
			t.Fatal(err)
		}
		d.again()
		d.must(task("r1", "s", ""))
		if e := d.session(); len(e.Holders) != 0 || e.Runs != 1 || e.Parts != 1 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("SESS-3 a task that is refused gives its lock back, and another task of the same id does not take that of the run", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.refused(task("r1", "s", `,"plan":{"steps":[]}`), "bad_plan")
		d.must(task("r1", "s", ""))
		d.refused(task("r1", "s", `,"autonomy":2`), "duplicate_id")
		if _, held := d.session().Holder("r1"); !held {
			t.Errorf("%+v", d.session())
		}
	})
}

func TestSessionControl(t *testing.T) {
	t.Parallel()
	t.Run("SESS-13 a control that comes again is not carried out again", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(control(7, "s", `{"action":"start","mode":"parallel","model":"scripted/other","system_prompt":"Be brief."}`))
		d.must(control(8, "s", `{"action":"delete"}`))
		d.must(control(7, "s", `{"action":"start"}`))
		d.must(control(8, "s", `{"action":"delete"}`))
		if e := d.session(); e.Status != events.SessionDeleted {
			t.Errorf("%+v", e)
		}
	})
	t.Run("SESS-6 the settings are in force for the runs that follow", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(control(7, "s", `{"action":"start","model":"scripted/other","system_prompt":"Be brief."}`))
		d.must(task("r1", "s", ""))
		if c := d.state("r1").Created; c.SessionPrompt != "Be brief." || d.state("r1").Agents["a"].Model != "scripted/other" {
			t.Errorf("%+v", c)
		}
	})
	t.Run("SESS-13 what is wrong with a control is said", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		for body, word := range map[string]string{`{"action":"unlok"}`: "unlock", `{"action":"start","mode":"both"}`: "sequential", `{"action":"pause","branch":"x"}`: "settings",
			`{"action":"start","branch":"a b"}`: "branch", `{"colour":"red"}`: "colour", `{`: "JSON"} {
			if r := d.refused(control(9, "s", body), "bad_input"); !strings.Contains(r.Reason, word) {
				t.Errorf("%s: %s", body, r.Reason)
			}
		}
		d.refused(control(9, "s", `{"action":"pause"}`), "unknown_session")
	})
	t.Run("SESS-10 a conversation is imported once, into a session that has none, and is what the next run begins with", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		given := `{"action":"import","messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]}`
		d.must(control(7, "s", given))
		d.must(control(7, "s", given)) // delivered again
		if e := d.session(); e.Messages != 2 || e.Parts != 1 || e.History == nil {
			t.Errorf("%+v", e)
		}
		d.refused(control(8, "s", given), "session_has_history")
		d.must(task("r1", "s", ""))
		parts, _, err := history.Load(t.Context(), d.st.Blobs(), d.state("r1").Created.History, nil)
		if err != nil || len(parts) != 1 || parts[0].Messages[1].Content != "hi" || parts[0].Session != "s" {
			t.Errorf("%+v, %v", parts, err)
		}
		d.refused(control(9, "other", `{"action":"import"}`), "bad_input")
		d.refused(control(9, "other", `{"action":"import","messages":[{"role":"user","content":"hello"}]}`), "bad_input")
		d.refused(control(9, "other", `{"action":"start","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`), "bad_input")
		d.refused(control(9, "other", `{"action":"import","messages":[{"role":"user","content_ref":{"sha256":"00","size":1}},{"role":"assistant","content":"b"}]}`), "bad_input")
	})
	t.Run("SESS-10 LOOP-9 a summary takes the place of the conversation that it sums up, once, and of no other", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		say := func(action, of, answer string) string {
			return `{"action":"` + action + `",` + of + `"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"` + answer + `"}]}`
		}
		d.refused(control(6, "s", say("compact", `"of":"00",`, "sum")), "unknown_session")
		d.must(control(7, "s", say("import", "", "hi")))
		of := `"of":"` + d.session().History.SHA256 + `",`
		d.refused(control(8, "s", say("compact", `"of":"00",`, "sum")), "session_changed")
		d.refused(control(9, "s", say("compact", "", "sum")), "bad_input")
		d.refused(control(9, "s", `{"action":"compact",`+of+`"messages":[]}`), "bad_input")
		d.refused(control(9, "s", say("import", of, "hi")), "bad_input")
		d.must(control(10, "s", say("compact", of, "sum")))
		d.must(control(10, "s", say("compact", of, "sum"))) // delivered again
		if e := d.session(); e.Messages != 2 || e.Parts != 1 || e.History == nil {
			t.Errorf("%+v", e)
		}
		d.refused(control(11, "s", say("compact", of, "late")), "session_changed")
		d.must(task("r1", "s", ""))
		parts, _, err := history.Load(t.Context(), d.st.Blobs(), d.state("r1").Created.History, nil)
		if err != nil || len(parts) != 1 || parts[0].Messages[1].Content != "sum" {
			t.Errorf("%+v, %v", parts, err)
		}
		of = `"of":"` + d.session().History.SHA256 + `",`
		d.refused(control(12, "s", say("compact", of, "while r1 works")), "session_locked")
	})
	t.Run("SESS-13 cleanup does not delete what was used meanwhile", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(control(7, "s", `{"action":"start"}`))
		d.refused(control(8, "s", `{"action":"delete","before":"2020-01-01T00:00:00Z"}`), "session_used")
	})
	t.Run("LOOP-11 a task brings a history, which is pinned in its run", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		given := `,"history":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]}`
		d.must(letter{events.TaskSubject("s1"), `{"id":"r1","agent":"a","task":"go on"` + given, 1})
		parts, _, err := history.Load(t.Context(), d.st.Blobs(), d.state("r1").Created.History, nil)
		if err != nil || len(parts) != 1 || parts[0].Messages[1].Content != "hi" {
			t.Errorf("%+v, %v", parts, err)
		}
		d.refused(letter{events.TaskSubject("s1"), `{"id":"r2","agent":"a","task":"go on","session_id":"s"` + given, 1}, "bad_input")
		d.refused(letter{events.TaskSubject("s1"), `{"id":"r2","agent":"a","task":"go on","history":[{"role":"user","content":"hello"}]}`, 1}, "bad_input")
		d.refused(letter{events.TaskSubject("s1"), `{"id":"r2","agent":"a","task":"go on","history":[{"role":"user","content_ref":{"sha256":"00","size":1}}]}`, 1}, "bad_input")
	})
}
