package sandbox

// Numbered is implemented by backends whose processes have numbers of their own: ProcessInfo.PID is that inside of the
// sandbox then, and tells sandboxes apart no more than it tells machines.
type Numbered interface{ OwnNumbers() }
