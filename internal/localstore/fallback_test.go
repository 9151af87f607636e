package localstore_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// begin is a run in the middle of a step, in the primary log.
func begin(w *fallen) {
	w.say("r", runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
}

var bash = runtest.Ref("a", "c1-1", "bash")

// middle is a turn with a call: five events, of which the last needs the fence that the fourth has in its run.
func middle(w *fallen) {
	w.say("r", runtest.Turn(1, "a", "let us see", runtest.Asked(1, 1, "bash", `{"command":"make"}`)), runtest.CallYes(bash, "once"), runtest.CallBegun(bash, 1))
	w.say("r", runtest.CallDone(bash, w.state("r").Open["c1-1"].Fence, "ok"))
}

func end(w *fallen) {
	w.say("r", runtest.Turn(2, "a", "done"), runtest.StepDone("a", "done"), runtest.PlanDone(1))
	w.say("r", runtest.Completed(w.state("r")))
}

func count(kinds []events.Kind, k events.Kind) (n int) {
	for _, have := range kinds {
		if have == k {
			n++
		}
	}
	return n
}

func TestFallback(t *testing.T) {
	t.Parallel()
	t.Run("TEST-3b PERS-4ab while the log is away the run goes on in the local store, with a warning", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		before, _ := w.log("r")
		w.home.set(true, -1)
		middle(w)
		_, evs := w.branches(localstore.BranchOpen)
		want := []events.Kind{events.TurnFinished, events.CheckpointFallback, events.CallAllowed, events.CallStarted, events.CallFinished}
		if got := kindsOf(t, evs); !slices.Equal(got, want) {
			t.Errorf("the branch has %q, want %q", got, want)
		}
		if after, _ := w.log("r"); len(after) != len(before) {
			t.Errorf("%d events reached a log that is away", len(after)-len(before))
		}
		warning, err := events.Decode(evs[1])
		if err != nil || warning.Author() != events.Persister || !strings.Contains(string(warning.Data), "store_fallback") || !strings.Contains(string(warning.Data), errGone.Error()) {
			t.Errorf("warning %s, %v", warning.Data, err)
		}
		if n := w.seen(); len(n) != 1 || n[0].Status != localstore.BranchOpen || n[0].Run != "r" {
			t.Errorf("told %+v", n)
		}
	})
	t.Run("PERS-5 it comes back in the middle: the same bytes in the same order, and the run goes on in the log", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(true, -1)
		middle(w)
		_, branch := w.branches(localstore.BranchOpen)
		w.home.set(false, -1)
		end(w) // the first word brings the branch home
		evs, kinds := w.log("r")
		if got := evs[5 : 5+len(branch)]; !slices.EqualFunc(got, branch, bytes.Equal) {
			t.Errorf("the log has not the bytes of the branch:\n%q", kinds)
		}
		if s := w.state("r"); s.Status != events.Completed || int(s.Sequence) != len(evs) || count(kinds, events.CheckpointFallback) != 1 {
			t.Errorf("%s at %d, the log has %q", s.Status, s.Sequence, kinds)
		}
		if n := w.seen(); len(n) != 2 || n[1].Status != localstore.BranchHome || n[1].Home != len(branch) {
			t.Errorf("told %+v", n)
		}
		if open, _ := w.branches(localstore.BranchOpen); len(open) != 0 {
			t.Errorf("still open: %+v", open)
		}
	})
	t.Run("PERS-5 SAFE-4 an append that was stored before anybody heard so is not doubled", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(false, 0) // the next append arrives, and nothing after it
		middle(w)
		if _, kinds := w.log("r"); kinds[len(kinds)-1] != events.TurnFinished {
			t.Fatalf("the turn did not arrive, the test proves nothing: %q", kinds)
		}
		w.home.set(false, -1)
		end(w)
		if _, kinds := w.log("r"); count(kinds, events.TurnFinished) != 2 || count(kinds, events.CallStarted) != 1 || w.state("r").Status != events.Completed {
			t.Errorf("%s with %q", w.state("r").Status, kinds)
		}
	})
	t.Run("PERS-5 it goes away twice, and once more while a branch comes home", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(true, -1)
		w.say("r", runtest.Paused("lunch"))
		w.home.set(false, -1)
		w.say("r", runtest.Resumed())
		w.home.set(true, -1)
		middle(w)
		w.home.set(false, 2) // two events come home, the third is stored and no one hears so
		if err := w.f.Settle(context.Background()); err == nil {
			t.Fatal("it settled although the log went away")
		}
		w.say("r", runtest.Turn(2, "a", "done"))
		w.home.set(false, -1)
		w.say("r", runtest.StepDone("a", "done"), runtest.PlanDone(1))
		w.say("r", runtest.Completed(w.state("r")))
		evs, kinds := w.log("r")
		if s := w.state("r"); s.Status != events.Completed || int(s.Sequence) != len(evs) || count(kinds, events.CheckpointFallback) != 2 {
			t.Errorf("%s at %d, the log has %q", s.Status, s.Sequence, kinds)
		}
		if all, _ := w.branches(localstore.BranchHome); len(all) != 2 || all[0].Events != all[0].Home || all[1].Events != all[1].Home {
			t.Errorf("branches %+v", all)
		}
	})
	t.Run("PERS-5 PERS-15 the process dies after some events came home: the next one brings the rest, and none twice", func(t *testing.T) {
		t.Parallel()
		for n := range 6 {
			w := newFallen(t)
			begin(w)
			w.home.set(true, -1)
			middle(w)
			w.home.set(false, n)
			_ = w.f.Settle(context.Background()) // how far it came is the question
			w.restart()
			if open, _ := w.branches(localstore.BranchOpen); n < 5 && (len(open) != 1 || open[0].Home != n) {
				t.Fatalf("after %d: %+v", n, open)
			}
			w.home.set(false, -1)
			w.settle()
			evs, kinds := w.log("r")
			if len(evs) != 10 || count(kinds, events.CallFinished) != 1 {
				t.Fatalf("after %d the log has %q", n, kinds)
			}
			end(w)
		}
	})
	t.Run("PERS-4 it never comes back: everything stays in the store, also over a restart, and nothing is guessed", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(true, -1)
		middle(w)
		end(w)
		if s := w.state("r"); s.Status != events.Completed {
			t.Errorf("the run is %s", s.Status)
		}
		_, before := w.branches(localstore.BranchOpen)
		w.restart()
		if _, after := w.branches(localstore.BranchOpen); !slices.EqualFunc(after, before, bytes.Equal) {
			t.Errorf("%d events became %d", len(before), len(after))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, _, err := w.pens[events.Planner].State(ctx, "r"); err == nil || !strings.Contains(err.Error(), "away") {
			t.Errorf("a state was made of half a log: %v", err)
		}
		if err := w.f.Settle(ctx); err == nil || !strings.Contains(err.Error(), "1 branches wait") {
			t.Errorf("settle: %v", err)
		}
	})
	t.Run("PERS-4 a run of which nothing is known here does not go on, and none begins, while the log is away", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.restart()
		w.home.set(true, -1)
		for id, p := range map[string]events.Payload{"r": runtest.Paused("lunch"), "new": runtest.Created()} {
			if err := w.try(id, p); err == nil {
				t.Errorf("run %s went on without its log", id)
			}
		}
		if open, _ := w.branches(""); len(open) != 0 {
			t.Errorf("%+v", open)
		}
	})
}

func TestMovedOn(t *testing.T) {
	t.Parallel()
	t.Run("PERS-5 SAFE-4 a log that has moved on is not merged: the branch is kept as evidence and told", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(true, -1)
		middle(w)
		_, branch := w.branches(localstore.BranchOpen)
		w.foreign("r", runtest.Paused("somebody else was faster"))
		before, _ := w.log("r")
		w.home.set(false, -1)
		w.settle()
		if after, kinds := w.log("r"); !slices.EqualFunc(after, before, bytes.Equal) {
			t.Errorf("the log was changed: %q", kinds)
		}
		all, evidence := w.branches(localstore.BranchRefused)
		if len(all) != 1 || all[0].Home != 0 || !strings.Contains(all[0].Reason, "another event") || !slices.EqualFunc(evidence, branch, bytes.Equal) {
			t.Errorf("branches %+v, %d events of %d kept", all, len(evidence), len(branch))
		}
		dead := w.home.Dead()
		if len(dead) != 1 || dead[0].Letter.Code != "fallback_refused" || dead[0].Letter.Run != "r" || !strings.Contains(dead[0].Letter.Reason, "5 of 5") {
			t.Errorf("dead letters %+v", dead)
		}
		w.settle()
		if again := w.home.Dead(); len(again) != 1 {
			t.Errorf("told %d times", len(again))
		}
	})
	t.Run("PERS-5 what the roles knew of a refused branch is forgotten: the log counts", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(true, -1)
		middle(w)
		w.foreign("r", runtest.Paused("somebody else was faster"))
		w.home.set(false, -1)
		if s := w.state("r"); s.Status != events.Paused {
			t.Errorf("the run is %s, the log says paused", s.Status)
		}
		w.say("r", runtest.Resumed())
		if s := w.state("r"); s.Status != events.Running || s.Turns().Len() != 0 {
			t.Errorf("%s after %d turns", s.Status, s.Turns().Len())
		}
		if _, kinds := w.log("r"); !slices.Equal(kinds[5:], []events.Kind{events.RunPaused, events.RunResumed}) {
			t.Errorf("%q", kinds)
		}
	})
	t.Run("PERS-5 the first events came home, then somebody was faster: the rest is evidence", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(true, -1)
		middle(w)
		w.home.set(false, 1)
		_ = w.f.Settle(t.Context()) // two events arrive
		w.foreign("r", runtest.Paused("somebody else was faster"))
		w.restart()
		w.home.set(false, -1)
		w.settle()
		all, _ := w.branches(localstore.BranchRefused)
		if len(all) != 1 || all[0].Home != 2 || all[0].Events != 5 {
			t.Errorf("%+v", all)
		}
		if _, kinds := w.log("r"); !slices.Equal(kinds[5:], []events.Kind{events.TurnFinished, events.CheckpointFallback, events.RunPaused}) {
			t.Errorf("%q", kinds)
		}
		w.say("r", runtest.Resumed())
	})
	t.Run("PERS-5 a log that was put back to an earlier day is not written to, and the branch stays", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(true, -1)
		middle(w)
		w.home.Station = newHome(t).Station
		if err := w.local.Close(); err != nil {
			t.Fatal(err)
		}
		w.local = nil
		w.restart()
		w.home.set(false, -1)
		if err := w.f.Settle(t.Context()); err == nil || !strings.Contains(err.Error(), "lost events, restore it") {
			t.Errorf("settle: %v", err)
		}
		if open, _ := w.branches(localstore.BranchOpen); len(open) != 1 || len(w.home.Log("r")) != 0 {
			t.Errorf("%+v, %d events in the log", open, len(w.home.Log("r")))
		}
	})
}

func TestBesides(t *testing.T) {
	t.Parallel()
	t.Run("PERS-4 PERS-19 an object that was put while the log was away is there at once, and comes home before the events", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(true, -1)
		ref, err := w.f.Blobs().Put(t.Context(), "output", []byte("much text"))
		if err != nil {
			t.Fatal(err)
		}
		w.say("r", runtest.Paused("lunch"))
		if b, err := w.f.Blobs().Get(t.Context(), ref); err != nil || string(b) != "much text" {
			t.Errorf("away: %q, %v", b, err)
		}
		w.restart()
		w.home.set(false, -1)
		w.settle()
		for name, b := range map[string]kernel.Blobs{"the fallback": w.f.Blobs(), "the primary": w.home.Blobs()} {
			if got, err := b.Get(t.Context(), ref); err != nil || string(got) != "much text" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		if _, err := w.local.Blobs().Get(t.Context(), ref); err == nil {
			t.Error("it is still here")
		}
	})
	t.Run("PERS-4 roles hear what is said while the log is away, and what came home only from the log", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(true, -1)
		ctx, cancel := context.WithCancel(t.Context())
		received := make(chan kernel.Message, 64) // more than is said
		done := make(chan error, 1)
		go func() {
			done <- w.f.Listen(ctx, events.Gatekeeper, 1, func(_ context.Context, m kernel.Message) { received <- m })
		}()
		next := func(local bool) kernel.Message {
			for {
				select {
				case m := <-received:
					if localstore.IsLocal(m.Seq()) == local && strings.HasSuffix(m.Subject(), "turn.finished") {
						return m
					}
					_ = m.Ack(ctx)
				case <-time.After(5 * time.Minute):
					t.Fatal("nothing was heard")
				}
			}
		}
		w.say("r", runtest.Turn(1, "a", "let us see", runtest.Asked(1, 1, "bash", `{"command":"make"}`)))
		if m := next(true); m.Deliveries() != 1 {
			t.Errorf("delivery %d", m.Deliveries())
		} // and it is not acknowledged
		w.home.set(false, -1)
		w.settle()
		m := next(false)
		if s, err := w.pens[events.Gatekeeper].Receive(ctx, "r", kernel.Record{Seq: m.Seq(), Bytes: m.Data()}); err != nil || s.Sequence != 7 {
			t.Errorf("heard at %d, %v", s.Sequence, err)
		}
		for _, n := range []uint64{7, 6} { // a late delivery of what came home changes nothing
			rec := w.home.Log("r")[n-1]
			s, err := w.pens[events.Gatekeeper].Receive(ctx, "r", kernel.Record{Seq: localstore.LocalSeq + n, Bytes: rec.Bytes})
			if err != nil || s.Sequence != 7 {
				t.Errorf("event %d heard late: at %d, %v", n, s.Sequence, err)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("PERS-4 a timer that is set while the log is away fires here, also after a restart", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		w.home.set(true, -1)
		if err := w.f.Set(t.Context(), "r", "run.timeout", time.Now().Add(300*time.Millisecond), 9); err != nil {
			t.Fatal(err)
		}
		w.restart()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		err := w.f.Listen(ctx, events.Planner, 1, func(ctx context.Context, m kernel.Message) {
			if m.Subject() == events.DueSubject("exam", "r", "run.timeout") && kernel.After(m) == 9 {
				_ = m.Ack(ctx)
				cancel()
			}
		})
		if err != nil || ctx.Err() != context.Canceled {
			t.Errorf("%v, %v", err, ctx.Err())
		}
	})
}
