package run

import (
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// checkpointRules fold the events about what is stored of a run.
var checkpointRules = []rule{
	on(func(s *State, f events.Event, d *events.CheckpointSavedData) string {
		s.snapshotSaved(d, f.Time)
		return ""
	}),
	on(func(s *State, f events.Event, d *events.CheckpointTakenData) string {
		if _, known := s.Checkpoint(d.Name); known {
			return "the run has a checkpoint " + d.Name
		}
		s.checkpointed(Checkpoint{Number: s.CheckpointCount + 1, Name: d.Name, Sequence: f.Sequence, At: f.Time})
		return ""
	}),
	// a warning for whoever reads the log
	on(func(*State, events.Event, *events.CheckpointFallbackData) string { return "" }),
	on(func(s *State, _ events.Event, d *events.ArtifactSavedData) string { return s.saved(d) }),
}

// Checkpoint is a named state of a run: the one after the event of Sequence, which the log holds (PERS-10). The end of
// each step is one, and in Dream Mode each checkpoint.taken.
type Checkpoint struct {
	Number   int       `json:"number"`
	Name     string    `json:"name"`
	Sequence uint64    `json:"sequence"`
	At       time.Time `json:"at"`
}

// Checkpoint returns the checkpoint of a name.
func (s *State) Checkpoint(name string) (Checkpoint, bool) {
	for _, c := range Backward(s.Checkpoints) {
		if c.Name == name {
			return c, true
		}
	}
	return Checkpoint{}, false
}

// NextCheckpoint is the number of the checkpoint that the end of a step is, 0 in a run that keeps none: a direct one,
// and one that does without durable persistence (C30, PERS-17).
func (s *State) NextCheckpoint() int {
	if s.Direct() || !s.Options.EternalEngine {
		return 0
	}
	return s.CheckpointCount + 1
}

// stepCheckpoint folds the checkpoint that the end of a step is. An end without a number is of an earlier version,
// whose checkpoints are only those of checkpoint.saved. The count is the fold's own, so that it has no gap.
func (s *State) stepCheckpoint(step string, number int, at time.Time, seq uint64) {
	if number > 0 {
		s.checkpointed(Checkpoint{Number: s.CheckpointCount + 1, Name: events.StepCheckpoint(step), Sequence: seq, At: at})
	}
}

// snapshotSaved folds that a state was stored as a snapshot. Where the log has the checkpoint already it is not another
// one.
func (s *State) snapshotSaved(d *events.CheckpointSavedData, at time.Time) {
	if _, known := s.Checkpoint(d.Name); !known {
		s.checkpointed(Checkpoint{Number: d.Number, Name: d.Name, Sequence: d.Covered, At: at})
	}
	s.CheckpointCovers = d.Covered
	if s.Options.Mode != "" {
		s.CheckpointSaves++
	}
}

// MovedOn reports whether something happened since the last checkpoint, other than that it was stored as a snapshot.
func (s *State) MovedOn() bool {
	if n := s.Checkpoints.Len(); n > 0 {
		return s.Sequence > s.Checkpoints.At(n-1).Sequence+s.CheckpointSaves
	}
	return true
}

func (s *State) checkpointed(c Checkpoint) {
	s.Checkpoints = Append(s.Checkpoints, c)
	s.CheckpointCount, s.LastCheckpointAt, s.CheckpointSaves = c.Number, &c.At, 0
}
