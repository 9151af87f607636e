//go:build !linux

package natsserver

// freeBytes is not known here: the server's own limit is what counts.
func freeBytes(string) (free int64, ok bool) { return 0, false }
