//go:build !linux

package guest

// Main says that this is no program for people, and returns the exit status.
func Main() int { return 2 }
