package formula

import "github.com/inspan/inspan/pkg/events"

// wake reads when the agent of a step that waits looks for itself, and what ends the wait then.
func (f checker) wake(n *node, x exprs) *events.StepWake {
	if n == nil || !f.is(n, isMap) {
		return nil
	}
	f.keys(n, []string{"every", "factor", "most", "until"}, nil)
	w := &events.StepWake{EveryMS: f.duration(n.child("every")), Factor: f.factor(n.child("factor")),
		MostMS: f.duration(n.child("most")), Until: x.read(n.child("until"), true)}
	if n.child("every") == nil {
		f.wrong(n, CodeMissing, `add every = "1m"`, "wake does not say when the agent looks first")
	}
	if n.child("until") == nil {
		f.wrong(n, CodeMissing, `add until = "EXPRESSION", such as last.found`, "wake does not say what ends the wait")
	}
	if w.MostMS > 0 && w.MostMS < w.EveryMS {
		f.wrong(n.child("most"), CodeValue, "want at least the time of every", "%s is less than every",
			shown(n.child("most").text))
	}
	return w
}
