package helper

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// high is above the descriptors that a process is started with: the kernel finds the helper by its descriptor in the
// new process after those were put in their places.
const high = 256

// keep moves a file to a high descriptor.
func keep(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, high)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep %s open: %w", f.Name(), err), f.Close())
	}
	return os.NewFile(uintptr(fd), f.Name()), f.Close() //nolint:gosec // a descriptor is never negative
}
