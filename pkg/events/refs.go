package events

import "encoding/json"

// Refs returns the objects that a payload refers to, in the order of its fields. An event is whole only with them.
func Refs(p Payload) []Ref {
	var refs []Ref
	add := func(r *Ref) {
		if r != nil {
			refs = append(refs, *r)
		}
	}
	switch d := p.(type) {
	case *RunCreatedData:
		add(d.History)
	case *RunPrunedData:
		add(d.Created.History)
	case *PlanAnsweredData:
		add(d.TextRef)
	case *TurnFinishedData:
		add(d.TextRef)
		for _, c := range d.Calls {
			add(c.InputRef)
		}
		add(d.RawRef)
	case *CallRequestedData:
		add(d.InputRef)
	case *CallProgressedData:
		add(d.Transcript)
	case *CallFinishedData:
		add(d.OutputRef)
		for _, i := range d.Images {
			refs = append(refs, i.Ref)
		}
	case *CheckPassedData:
		add(d.OutputRef)
	case *CheckFailedData:
		add(d.OutputRef)
	case *ArtifactSavedData:
		for _, a := range d.Artifacts {
			if a.Kept == StoredWithLog { // the others are kept for a time only, and the event is whole without them
				refs = append(refs, a.Ref())
			}
		}
	case *CallPreviewedData:
		add(d.Diff)
	case *RunForkedData:
		refs = append(refs, d.Refs...)
	}
	return refs
}

// RefHistory is the type of an object that is a Part.
const RefHistory = "history"

// Inside returns the objects that a stored object refers to: a history names the parts before it and what its messages
// are too large for. An object of another type, or one that cannot be read, refers to nothing.
func Inside(ref Ref, data []byte) []Ref {
	var p Part
	if ref.Type != RefHistory || json.Unmarshal(data, &p) != nil {
		return nil
	}
	var refs []Ref
	add := func(r *Ref) {
		if r != nil {
			refs = append(refs, *r)
		}
	}
	add(p.Prev)
	for _, m := range p.Messages {
		add(m.ContentRef)
		for _, c := range m.Calls {
			add(c.InputRef)
		}
		add(m.RawRef)
	}
	return refs
}
