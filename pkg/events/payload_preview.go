package events

import "fmt"

// CallPreview is what the call at a gate would change, for the person who decides. It has no effect on any decision: an
// approval is one of the arguments.
type CallPreview struct {
	// Diff is the object with the whole unified diff; nil where there is none.
	Diff *Ref `json:"diff_ref,omitempty"`
	// Truncated is true where the object has the beginning of the diff only.
	Truncated bool `json:"truncated,omitempty"`
	// Seen names the content that was read for it, as 64 hex digits: files may change until the call is carried out.
	Seen string `json:"seen_digest,omitempty"`
	// Reason is why there is no diff; empty where there is one.
	Reason string `json:"reason,omitempty"`
}

// CallPreviewedData shows what the call at a gate would change. The object is stored before the event.
type CallPreviewedData struct {
	Event string `json:"event"`
	ToolRef
	Gate         string `json:"gate_id"`
	ProposalHash string `json:"proposal_hash"`
	// Head is the beginning of the diff, at most MaxPreview bytes of whole lines.
	Head string `json:"head,omitempty"`
	CallPreview
}

// Kind implements Payload.
func (*CallPreviewedData) Kind() Kind { return CallPreviewed }

func (d *CallPreviewedData) line() string {
	switch {
	case d.Diff == nil:
		return fmt.Sprintf("no preview of %s for gate %s: %s", d.Call, d.Gate, d.Reason)
	case d.Truncated:
		return fmt.Sprintf("preview of %s for gate %s, the first %d bytes of its diff", d.Call, d.Gate, d.Diff.Size)
	}
	return fmt.Sprintf("preview of %s for gate %s, a diff of %d bytes", d.Call, d.Gate, d.Diff.Size)
}
