package run_test

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func signer(fill byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = fill
	}
	return ed25519.NewKeyFromSeed(seed)
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func TestAnchor(t *testing.T) {
	t.Parallel()
	s := running().State()
	a := run.AnchorOf(s, 17, runtest.Start, signer(1))
	t.Run("SAFE-3 an anchor verifies with its key and no other", func(t *testing.T) {
		t.Parallel()
		if err := a.Verify(public(signer(1))); err != nil || a.Sequence != s.Sequence || a.Hash != s.Hash {
			t.Errorf("%v %+v", err, a)
		}
		if err := a.Verify(public(signer(2))); !errors.Is(err, run.ErrAnchor) {
			t.Errorf("another key: %v", err)
		}
	})
	t.Run("SAFE-3 no field of an anchor can be changed", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(*run.Anchor){
			"station": func(a *run.Anchor) { a.Station = "other" }, "run": func(a *run.Anchor) { a.Run = "other" },
			"sequence": func(a *run.Anchor) { a.Sequence-- }, "seq": func(a *run.Anchor) { a.Seq++ },
			"hash": func(a *run.Anchor) { a.Hash = run.HashOf(nil) }, "at": func(a *run.Anchor) { a.At = a.At.Add(1) },
			"key": func(a *run.Anchor) { a.Key = "0" }, "signature": func(a *run.Anchor) { a.Signature = "?" },
		} {
			changed := a
			change(&changed)
			if err := changed.Verify(public(signer(1))); !errors.Is(err, run.ErrAnchor) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestMoved(t *testing.T) {
	t.Parallel()
	t.Run("EVT-9 a run that moved is of its new station, and the positions of its old inputs mean nothing", func(t *testing.T) {
		t.Parallel()
		b := running()
		paused := runtest.Paused("lunch")
		paused.Input = 3
		b.Append(paused)
		s := b.State()
		if !s.Took(3) {
			t.Fatal("the input was not taken")
		}
		moved := b.Bad(runtest.Moved(s), func(f *events.Event) { f.Station, f.Source = "berlin", events.Source("berlin", events.Planner) })
		next, err := s.Apply(moved)
		if err != nil || next.Identity.Station != "berlin" || next.Took(3) || next.Status != events.Paused || next.HarnessID != s.HarnessID {
			t.Errorf("%v %+v", err, next.Identity)
		}
		if _, err := next.Apply(b.Bad(runtest.Resumed(), func(f *events.Event) { f.Sequence, f.PrevHash = next.Sequence+1, next.Hash })); err == nil {
			t.Error("the old station still speaks for the run")
		}
	})
	t.Run("EVT-9 SAFE-2 no other event changes the station, and a move names where the run stands", func(t *testing.T) {
		t.Parallel()
		b := running()
		s := b.State()
		if _, err := s.Apply(b.Bad(runtest.Paused("x"), func(f *events.Event) { f.Station, f.Source = "berlin", events.Source("berlin", events.Planner) })); err == nil {
			t.Error("a pause moved the run")
		}
		for name, wrong := range map[string]*events.RunMovedData{
			"station": {FromStation: "paris", Covered: s.Sequence}, "sequence": {FromStation: "demo", Covered: s.Sequence - 1},
		} {
			if _, err := b.Try(wrong); err == nil {
				t.Errorf("wrong %s was taken", name)
			}
		}
	})
	t.Run("EVT-9 TOOL-19 an idempotent call that had started is not begun again with another key", func(t *testing.T) {
		t.Parallel()
		for _, same := range []bool{false, true} {
			b := called(runtest.CallYes(bash, "idempotent"), runtest.CallBegun(bash, 1))
			m := runtest.Moved(b.State())
			m.SameKey = same
			b.Append(m)
			s := b.State()
			if got := s.Open[bash.Call].Effect; (got == "idempotent") != same {
				t.Errorf("same key %v: the effect is %s", same, got)
			}
		}
	})
}

func TestBroken(t *testing.T) {
	t.Parallel()
	s := called(runtest.CallYes(bash, "once")).State()
	if got := s.Broken(); got != "" {
		t.Fatalf("a sound state: %s", got)
	}
	for name, change := range map[string]func(*run.State){
		"held": func(s *run.State) { s.CallsHeld = 0 }, "budget": func(s *run.State) { s.Options.MaxToolCalls = 0 },
		"completed": func(s *run.State) { s.Status = events.Completed }, "result": func(s *run.State) { s.Result = &events.Result{} },
		"step": func(s *run.State) { s.Plan = nil },
	} {
		bad := s
		change(&bad)
		if bad.Broken() == "" {
			t.Errorf("SAFE-3 %s: nothing is found", name)
		}
	}
}
