package natsserver

import (
	"os"
	"syscall"
)

// memoryRoot is a folder in memory.
const memoryRoot = "/dev/shm"

// tmpfs is the type of file systems in memory, see statfs(2).
const tmpfs = 0x01021994

func isMemory(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && int64(st.Type) == tmpfs
}

// isOwn reports whether a path is a folder, no link, of this user and closed to all others.
func isOwn(path string) bool {
	i, err := os.Lstat(path)
	if err != nil || !i.IsDir() || i.Mode().Perm() != 0o700 {
		return false
	}
	st, ok := i.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
