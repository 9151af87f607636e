package child_test

import (
	"slices"
	"testing"

	"github.com/inspan/inspan/internal/core/child"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// family is a run with two children that live.
func family(t *testing.T) (b *runtest.Builder, of func(step string) *run.Child) {
	t.Helper()
	b = parent(func(*events.Options) {}, "a", "b")
	spawnAll(t, b)
	s := b.State()
	if len(s.Living()) != 2 {
		t.Fatalf("%d children", len(s.Living()))
	}
	return b, func(step string) *run.Child {
		s := b.State()
		return s.ChildOf(step)
	}
}

func TestSteady(t *testing.T) {
	t.Parallel()
	ended := func(b *runtest.Builder, c *run.Child, success bool) {
		reason := events.FinishError
		if success {
			reason = events.FinishDone
		}
		b.Append(child.Settle(b.State(), c, run.State{Result: &events.Result{Success: success, FinishReason: reason, Error: "it broke"}})...)
	}
	wish := lifecycle.Wish{By: "anna"}
	for _, c := range []struct {
		name   string
		steady bool
		happen func(b *runtest.Builder, of func(string) *run.Child) error
	}{
		{"nothing", true, func(*runtest.Builder, func(string) *run.Child) error { return nil }},
		{"a sibling ends", true, func(b *runtest.Builder, of func(string) *run.Child) error {
			ended(b, of("b"), true)
			return nil
		}},
		{"the child that is meant ends", true, func(b *runtest.Builder, of func(string) *run.Child) error {
			ended(b, of("a"), true)
			return nil
		}},
		{"it fails, and is tried once more", false, func(b *runtest.Builder, of func(string) *run.Child) error {
			ended(b, of("a"), false)
			return nil
		}},
		{"it fails, and somebody spawned the next", false, func(b *runtest.Builder, of func(string) *run.Child) error {
			ended(b, of("a"), false)
			spawnAll(t, b)
			return nil
		}},
		{"the last of all ends", false, func(b *runtest.Builder, of func(string) *run.Child) error {
			ended(b, of("a"), true)
			ended(b, of("b"), true)
			return nil
		}},
		{"the run is paused", false, func(b *runtest.Builder, _ func(string) *run.Child) error {
			say, err := lifecycle.Pause(b.State(), noon, wish)
			b.Append(say...)
			return err
		}},
		{"the run stops", false, func(b *runtest.Builder, _ func(string) *run.Child) error {
			say, err := lifecycle.Stop(b.State(), noon, wish)
			b.Append(say...)
			return err
		}},
		{"it becomes more careful", false, func(b *runtest.Builder, _ func(string) *run.Child) error {
			say, err := lifecycle.Adjust(b.State(), 1, wish)
			b.Append(say...)
			return err
		}},
	} {
		t.Run("SUB-8 a run is looked at again where something is left to do: "+c.name, func(t *testing.T) {
			t.Parallel()
			b, of := family(t)
			before := b.State()
			if err := c.happen(b, of); err != nil {
				t.Fatal(err)
			}
			now := b.State()
			if c.name != "nothing" && now.Sequence == before.Sequence {
				t.Fatal("nothing happened")
			}
			if got := child.Steady(before, now, func(k *run.Child) bool { return k.Step == "a" }); got != c.steady {
				t.Errorf("got %t, want %t", got, c.steady)
			}
		})
	}
}

func TestSteadyCall(t *testing.T) {
	t.Parallel()
	t.Run("SUB-8 a run is looked at again where the call that its child carries out has ended meanwhile", func(t *testing.T) {
		t.Parallel()
		b, of := family(t)
		kid := *of("a")
		kid.ID, kid.Call = "child_of_call", "c1-1"
		before := b.State()
		before.Children = append(slices.Clone(before.Children), &kid)
		now := before
		now.Sequence++
		before.Open = map[string]*run.Call{"c1-1": {Step: "a"}}
		all := func(*run.Child) bool { return true }
		if child.Steady(before, now, all) {
			t.Error("nobody looks again")
		}
		now.Open = before.Open
		if !child.Steady(before, now, all) {
			t.Error("the call is open, and it is looked at again")
		}
	})
}
