package docker_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// leashed makes a named pipe that a script opens for writing as descriptor 9, and tells whether any process holds it.
func leashed(t *testing.T, workspace string) (alive func() bool) {
	t.Helper()
	path := filepath.Join(workspace, "leash")
	must(t, syscall.Mkfifo(path, 0o600))
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	return func() bool {
		for {
			n, err := syscall.Read(fd, make([]byte, 64))
			switch {
			case errors.Is(err, syscall.EAGAIN):
				return true
			case errors.Is(err, syscall.EINTR) || n > 0:
			default:
				return false
			}
		}
	}
}
