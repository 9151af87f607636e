//go:build !linux

package mirrortest

// keepInherited does nothing here: there is no call that marks all descriptors at once.
func keepInherited() {}
