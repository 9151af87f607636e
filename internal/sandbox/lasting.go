package sandbox

// Lasting is implemented by sandboxes that tell whether they outlive the call that uses them: then what a call leaves in HOME and
// TMPDIR is there for the next one.
type Lasting interface{ Lasts() bool }

// Outlives reports whether a sandbox outlives the call that uses it.
func Outlives(box Sandbox) bool {
	l, ok := box.(Lasting)
	return ok && l.Lasts()
}
