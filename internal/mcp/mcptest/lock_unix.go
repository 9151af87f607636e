//go:build unix

package mcptest

import (
	"os"
	"syscall"
)

// lock locks a file for this process, or fails.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
