//go:build !linux

package within

// Main does nothing: containers have Linux.
func Main() (code int, asked bool) { return 0, false }
