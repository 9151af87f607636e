package run

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Pruned says which backup has the events of a run up to a sequence.
type Pruned struct {
	Covered uint64 `json:"coveredSequence"`
	// Backup is the SHA-256 of its manifest, At its moment.
	Backup string    `json:"backupSha256"`
	At     time.Time `json:"backupAt"`
	// Forgotten is set where the events were deleted on request; then that backup is one that was copied without them.
	Forgotten bool `json:"forgotten,omitempty"`
}

// Why says in words what became of the events of a run, after the name of what they are.
func (p Pruned) Why() string {
	if p.Forgotten {
		return "were deleted on request"
	}
	return "are in a backup, to make room here"
}

// pruned makes the run one that has ended and whose events are elsewhere.
func (s *State) pruned(f events.Event, d *events.RunPrunedData) string {
	switch {
	case d.Covered == 0 || d.Covered != f.Sequence-1:
		return fmt.Sprintf("it stands for %d events and is event %d", d.Covered, f.Sequence)
	case !d.Result.Status.Ended():
		return fmt.Sprintf("it stands for a run that is %s, which has not ended", d.Result.Status)
	case d.Created.Direct || d.Created.ForkOf != nil:
		return "it says more of the first event than what that was"
	}
	if fault := s.create(f, &d.Created); fault != "" {
		return fault
	}
	s.CreatedAt, s.StartedAt, s.EndedAt = d.CreatedAt, d.StartedAt, &d.EndedAt
	s.Status, s.Result, s.TotalToolCalls = d.Result.Status, &d.Result, d.Result.ToolCallCount
	s.Pruned = &Pruned{Covered: d.Covered, Backup: d.Backup, At: d.BackupAt, Forgotten: d.Forgotten != nil}
	s.Tokens.Input, s.Tokens.Output, s.Cost = d.Result.InputTokens, d.Result.OutputTokens, d.Result.Cost
	return ""
}

// StepsCompleted counts the steps that are done, and all steps.
func (s *State) StepsCompleted() (done, total int) {
	if s.Pruned != nil {
		return s.Result.StepsCompleted, s.Result.StepsTotal
	}
	if s.Plan == nil {
		return 0, 0
	}
	for _, st := range s.Plan.Steps {
		if st.Done() {
			done++
		}
	}
	return done, len(s.Plan.Steps)
}
