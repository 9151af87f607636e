package events

// Refs returns the objects that a payload refers to, in the order of its fields. A fact is whole only with them.
func Refs(p Payload) []Ref {
	var refs []Ref
	add := func(r *Ref) {
		if r != nil {
			refs = append(refs, *r)
		}
	}
	switch d := p.(type) {
	case *TurnFinishedData:
		add(d.TextRef)
		for _, c := range d.Calls {
			add(c.InputRef)
		}
		add(d.RawRef)
	case *CallFinishedData:
		add(d.OutputRef)
	}
	return refs
}
