//go:build unix

package archive

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the process, whatever becomes of it.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(ErrLocked, f.Close())
	}
	return f, nil
}
