//go:build unix

package disk

import (
	"path/filepath"
	"syscall"
	"testing"
)

func TestCloseReleases(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held, err := TakeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := syscall.Dup(int(held.f.Fd())) // as a child has it between its fork and its exec
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(inherited) }()
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := TakeLock(path)
	if err != nil {
		t.Fatalf("a copy of the descriptor keeps the lock: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
