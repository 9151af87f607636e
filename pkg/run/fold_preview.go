package run

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// previewed folds what the call at a gate would change. The first preview of a gate counts and a later one changes
// nothing; one that comes behind the answer is kept with the gate, which stays as it was answered.
func (s *State) previewed(d *events.CallPreviewedData) string {
	g := s.Gate(d.Gate)
	switch {
	case g == nil:
		return fmt.Sprintf("gate %s is unknown", d.Gate)
	case g.CallID == "" || g.StepID != d.Step || g.CallID != d.Call || g.Hash != d.ProposalHash:
		return fmt.Sprintf("gate %s: the preview is of another action", d.Gate)
	case g.Preview != nil:
		return ""
	}
	next, preview := *g, d.CallPreview
	next.Preview = &preview
	s.setGate(next)
	return ""
}
