package local

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Beneath opens a handle on a path below a directory without following any link from there on. The kernel asks to be
// asked again where something was renamed meanwhile. It is ENOSYS before Linux 5.6, and ELOOP where there is a link.
func Beneath(root, rel string) (fd int, err error) {
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", root, err)
	}
	defer func() { _ = unix.Close(at) }()
	const tries = 100
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	for range tries {
		if fd, err = unix.Openat2(at, rel, &how); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}
