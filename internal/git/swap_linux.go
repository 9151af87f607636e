package git

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// swap exchanges two directories at once; a tree that is not there is only put in place.
func swap(aside, tree string) error {
	if _, err := os.Lstat(tree); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(aside, tree)
	}
	err := unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, tree, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return replace(aside, tree)
	}
	if err != nil {
		return &os.LinkError{Op: "exchange", Old: aside, New: tree, Err: err}
	}
	return nil
}

func changed(s *syscall.Stat_t) int64 { return s.Ctim.Nano() }
