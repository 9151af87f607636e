package checkpoint_test

import (
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/checkpoint"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// dreaming is a run in a mode that began at a time.
func dreaming(t *testing.T, mode events.RunMode, change func(*events.RunCreatedData)) (*runtest.Builder, time.Time) {
	t.Helper()
	c := runtest.Created()
	c.Options.Mode = mode
	if change != nil {
		change(c)
	}
	b := runtest.New("main", "r1")
	b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
	return b, *b.State().StartedAt
}

func take(t *testing.T, s run.State, at time.Time) []events.Payload {
	t.Helper()
	say, err := checkpoint.Take(s, at)
	if err != nil {
		t.Fatal(err)
	}
	return say
}

func TestInterval(t *testing.T) {
	t.Parallel()
	t.Run("PERS-9 the more is left to the agent, the closer together are the checkpoints, and level 3 has the interval as given", func(t *testing.T) {
		t.Parallel()
		want := map[int]time.Duration{1: 10 * time.Minute, 2: 450 * time.Second, 3: 5 * time.Minute, 4: 225 * time.Second, 5: 150 * time.Second}
		for level, d := range want {
			if got := checkpoint.Interval(5*time.Minute, level); got != d {
				t.Errorf("level %d: got %s, want %s", level, got, d)
			}
		}
		if got := checkpoint.Interval(time.Second, 5); got != checkpoint.MinInterval {
			t.Errorf("got %s", got)
		}
	})
	t.Run("PERS-9 a change of the level during the run changes the interval from then on", func(t *testing.T) {
		t.Parallel()
		b, began := dreaming(t, events.ModeDream, nil)
		at, ok := checkpoint.Wake(b.State(), began)
		if !ok || !at.Equal(began.Add(5*time.Minute)) {
			t.Fatalf("%s %v", at, ok)
		}
		b.Append(runtest.Adjusted(3, 5))
		if at, _ = checkpoint.Wake(b.State(), began); !at.Equal(began.Add(150 * time.Second)) {
			t.Errorf("got %s", at.Sub(began))
		}
	})
}

func TestTake(t *testing.T) {
	t.Parallel()
	t.Run("PERS-7 law 1: a timer that comes early, twice or late leads to one checkpoint, and the next is due an interval later", func(t *testing.T) {
		t.Parallel()
		b, began := dreaming(t, events.ModeDream, nil)
		if say := take(t, b.State(), began.Add(5*time.Minute-1)); len(say) != 0 {
			t.Fatalf("too early: %v", say)
		}
		late := began.Add(17 * time.Minute)
		say := take(t, b.State(), late)
		if len(say) != 1 || say[0].(*events.CheckpointTakenData).Name != "interval-1" {
			t.Fatalf("%+v", say)
		}
		b.AppendAt(late, say...)
		s := b.State()
		if c, ok := s.Checkpoint("interval-1"); !ok || c.Sequence != s.Sequence || c.Number != 1 {
			t.Errorf("%+v", c)
		}
		if again := take(t, s, late); len(again) != 0 {
			t.Errorf("a second look: %v", again)
		}
		if at, ok := checkpoint.Wake(s, late); !ok || !at.Equal(late.Add(5*time.Minute)) {
			t.Errorf("next at %s", at)
		}
	})
	t.Run("PERS-7 a run to which nothing happened takes none, also where its checkpoint was stored as a snapshot meanwhile", func(t *testing.T) {
		t.Parallel()
		b, began := dreaming(t, events.ModeDream, nil)
		at := began.Add(5 * time.Minute)
		b.AppendAt(at, take(t, b.State(), at)...)
		taken := b.State().Sequence
		b.AppendAt(at, &events.CheckpointSavedData{Event: "checkpoint", Name: "interval-1", Number: 1, Covered: taken, Key: "k"})
		if say := take(t, b.State(), at.Add(time.Hour)); len(say) != 0 {
			t.Errorf("%v", say)
		}
		b.AppendAt(at.Add(time.Minute), runtest.Turn(1, "a", "calls", runtest.Asked(1, 1, "read", `{}`)))
		if say := take(t, b.State(), at.Add(time.Hour)); len(say) != 1 || say[0].(*events.CheckpointTakenData).Number != 2 {
			t.Errorf("after a turn: %v", say)
		}
	})
	t.Run("PERS-7 the end of a step is a checkpoint too: the interval counts from it", func(t *testing.T) {
		t.Parallel()
		b, began := dreaming(t, events.ModeDream, nil)
		done := runtest.StepDone("a", "out")
		done.Checkpoint = 1
		b.AppendAt(began.Add(4*time.Minute), runtest.Turn(1, "a", "done"), done)
		if say := take(t, b.State(), began.Add(6*time.Minute)); len(say) != 0 {
			t.Errorf("%v", say)
		}
		if at, _ := checkpoint.Wake(b.State(), began); !at.Equal(began.Add(9 * time.Minute)) {
			t.Errorf("got %s", at.Sub(began))
		}
	})
	t.Run("PERS-7 a normal, a paused and an ended run, and one without durable persistence, take none", func(t *testing.T) {
		t.Parallel()
		normal, began := dreaming(t, "", nil)
		paused, _ := dreaming(t, events.ModeDream, nil)
		paused.Append(runtest.PausedClock("lunch"))
		light, _ := dreaming(t, events.ModeDream, func(c *events.RunCreatedData) { c.Options.EternalEngine = false })
		for what, s := range map[string]run.State{"normal": normal.State(), "paused": paused.State(), "light": light.State(), "none": {}} {
			if say := take(t, s, began.Add(time.Hour)); len(say) != 0 {
				t.Errorf("%s: %v", what, say)
			}
			if _, ok := checkpoint.Wake(s, began); ok {
				t.Errorf("%s: has a timer", what)
			}
		}
		paused.Append(runtest.Resumed())
		if _, ok := checkpoint.Wake(paused.State(), began); !ok {
			t.Error("a resumed run has no timer")
		}
	})
}
