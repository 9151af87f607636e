// Package disk has what programs of one machine need of files that they share or that outlive them.
//
// Promises: Replace leaves the old file or the new one, whole, also after a power cut. A lock ends with its process,
// however that ends, and says whose it is.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrLocked means that another process has a lock.
var ErrLocked = errors.New("another process has it")

// lockBytes is the most that is read of who has a lock.
const lockBytes = 32

// Lock is a lock that this process has, a file.
type Lock struct{ f *os.File }

// TakeLock takes a lock and writes this process into its file for people. Where another has it the error is ErrLocked
// and says which process that is. Close releases it.
func TakeLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = lock(f); errors.Is(err, ErrLocked) {
		err = fmt.Errorf("%w%s", err, holder(f))
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Lock{f}, nil
}

// lockPause is how often WaitLock looks.
const lockPause = 10 * time.Millisecond

// WaitLock is TakeLock, but waits so long for another process to release the lock before the error is ErrLocked.
func WaitLock(path string, most time.Duration) (*Lock, error) {
	tick := time.NewTicker(lockPause)
	defer tick.Stop()
	for until := time.Now().Add(most); ; <-tick.C {
		l, err := TakeLock(path)
		if !errors.Is(err, ErrLocked) || time.Now().After(until) {
			return l, err
		}
	}
}

// Close releases the lock. It does not leave that to the end of the descriptor: a child between its fork and its exec
// has a copy of it.
func (l *Lock) Close() error { return errors.Join(unlock(l.f), l.f.Close()) }

// holder is the process that wrote itself into a lock; empty where it has only just begun.
func holder(f io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(f, lockBytes))
	pid, notOne := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || notOne != nil {
		return ""
	}
	return fmt.Sprintf(", process %d", pid)
}

// ReadAtMost reads a file, and refuses one that is larger.
func ReadAtMost(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, fmt.Errorf("more than %d bytes", most)
	}
	return b, err
}

// Replace puts a file in the place of another, or of none, at once, and returns when that is on disk. The folder must
// be there.
func Replace(path string, b []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".part-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
