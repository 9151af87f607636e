package run_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestCheckpoints(t *testing.T) {
	t.Parallel()
	t.Run("PERS-1 PERS-11 in any history each end of a step and each interval is one checkpoint, at its own event, and snapshots of it are none", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := walk(t, 120)
			s := b.State()
			numbered := map[uint64]string{}
			others := 0
			var at run.State
			for _, line := range b.Events() {
				f, p, err := events.Read(line)
				if err != nil {
					t.Fatal(err)
				}
				switch d := p.(type) {
				case *events.StepFinishedData:
					if d.Checkpoint > 0 {
						numbered[f.Sequence] = events.StepCheckpoint(d.Step)
					}
				case *events.StepFailedData:
					if d.Checkpoint > 0 {
						numbered[f.Sequence] = events.StepCheckpoint(d.Step)
					}
				case *events.CheckpointTakenData:
					numbered[f.Sequence] = d.Name
				case *events.CheckpointSavedData:
					others++
				case *events.RunForkedData:
					if at, err = at.Apply(line); err != nil {
						t.Fatal(err)
					}
					if at.Forked {
						others = 0 // the state that a fork begins with has none
						clear(numbered)
					}
					continue
				}
				if at, err = at.Apply(line); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range run.All(s.Checkpoints) {
				if name, step := numbered[c.Sequence]; step && name == c.Name {
					delete(numbered, c.Sequence)
					continue
				}
				others--
			}
			if len(numbered) > 0 || others != 0 || s.CheckpointCount != s.Checkpoints.Len() {
				t.Fatalf("ends without a checkpoint: %v; checkpoints that nothing made: %d; count %d of %d", numbered, -others, s.CheckpointCount, s.Checkpoints.Len())
			}
		})
	})
	t.Run("PERS-11 that a checkpoint was stored as a snapshot makes no other checkpoint, also where an earlier version numbers it otherwise", func(t *testing.T) {
		t.Parallel()
		b := running()
		b.Append(runtest.Turn(1, "a", "done"))
		done := runtest.StepDone("a", "done")
		s := b.State()
		done.Checkpoint = s.NextCheckpoint()
		b.Append(done)
		at := b.State()
		for _, number := range []int{1, 7} {
			b.Append(&events.CheckpointSavedData{Event: "checkpoint", Name: "step-a", Number: number, Covered: at.Sequence, Key: "k"})
		}
		s = b.State()
		if c, ok := s.Checkpoint("step-a"); !ok || c != at.Checkpoints.At(0) || s.CheckpointCount != 1 || s.CheckpointCovers != at.Sequence || !s.LastCheckpointAt.Equal(at.UpdatedAt) {
			t.Errorf("got %+v of %d, covers %d", c, s.CheckpointCount, s.CheckpointCovers)
		}
	})
	t.Run("C30 PERS-17 a direct run and one without durable persistence number none", func(t *testing.T) {
		t.Parallel()
		off := runtest.Created()
		off.Options.EternalEngine = false
		for name, c := range map[string]*events.RunCreatedData{"direct": runtest.DirectCreated(), "off": off} {
			b := runtest.New("demo", "r")
			b.Append(c)
			if s := b.State(); s.NextCheckpoint() != 0 {
				t.Errorf("%s: %d", name, s.NextCheckpoint())
			}
		}
	})
	t.Run("PERS-10 a fork begins without those of the run it comes from", func(t *testing.T) {
		t.Parallel()
		b := running()
		b.Append(runtest.Turn(1, "a", "done"))
		done := runtest.StepDone("a", "done")
		done.Checkpoint = 1
		b.Append(done)
		start, err := run.Fork(b.State(), "", true)
		if err != nil || start.Checkpoints.Len() != 0 || start.NextCheckpoint() != 1 {
			t.Errorf("%d checkpoints, %v", start.Checkpoints.Len(), err)
		}
	})
}
