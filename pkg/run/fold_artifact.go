package run

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// MaxArtifacts bounds State.Artifacts.
const MaxArtifacts = 1000

// saved folds artifacts of the attempt under way: those of one that is over do not count.
func (s *State) saved(d *events.ArtifactSavedData) string {
	c, fault := s.attempted(d.ToolRef, d.Fence)
	if fault != "" {
		return fault
	}
	if s.Artifacts.Len()+len(d.Artifacts) > MaxArtifacts {
		return fmt.Sprintf("the run has %d artifacts and cannot have %d more, the limit is %d", s.Artifacts.Len(),
			len(d.Artifacts), MaxArtifacts)
	}
	for _, a := range d.Artifacts {
		s.Artifacts = Append(s.Artifacts, a)
	}
	c.Made = true
	s.setOpen(d.Call, &c)
	return ""
}
