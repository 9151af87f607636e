package run

import (
	"encoding/json"

	"github.com/inspan/inspan/pkg/events"
)

// Final is what a run that has ended came to, as all who ask for it are given it: the gateway, the SDK, the command
// line and callbacks. It is the result that the end of the run has in its log, with what the rest of the log adds.
type Final struct {
	events.Result
	// Structured is the output as JSON, where the definition of the run's agent has an output schema and the run has
	// completed: then the output fits it.
	Structured json.RawMessage `json:"structured,omitempty"`
	// Artifacts are those that the run made, in their order.
	Artifacts []FinalArtifact `json:"artifacts,omitempty"`
}

// FinalArtifact names an artifact of a run. Its bytes are where artifacts are.
type FinalArtifact struct {
	ID          string `json:"id"`
	Type        string `json:"type"`
	Name        string `json:"name"`
	Path        string `json:"path,omitempty"`
	Size        int64  `json:"size"`
	SHA256      string `json:"digest"`
	ContentType string `json:"content_type"`
}

// FinalOf returns what a run came to; nil where it has not ended.
func FinalOf(s State) *Final {
	if s.Result == nil || !s.Status.Ended() {
		return nil
	}
	f := &Final{Result: *s.Result}
	if a := s.Agents[s.AgentName]; len(a.OutputSchema) > 0 && s.Status == events.Completed &&
		json.Valid([]byte(f.Output)) {
		f.Structured = json.RawMessage(f.Output)
	}
	for _, a := range All(s.Artifacts) {
		f.Artifacts = append(f.Artifacts,
			FinalArtifact{ID: a.ID, Type: a.Type, Name: a.Name, Path: a.Path, Size: a.Size, SHA256: a.SHA256,
				ContentType: a.ContentType})
	}
	return f
}
