//go:build unix

package station

import (
	"io/fs"
	"os"
	"syscall"
)

// own reports whether a file is this user's, and written by no one else.
func own(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}

// ownProcess reports whether a process lives and is this user's.
func ownProcess(pid int) bool { return syscall.Kill(pid, 0) == nil }
