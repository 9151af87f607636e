package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/disk"
)

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held, err := disk.TakeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disk.TakeLock(path); !errors.Is(err, disk.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("a second time: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := disk.TakeLock(path)
	if err != nil {
		t.Fatalf("after it was released: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.TakeLock(filepath.Join(path, "below a file")); err == nil || errors.Is(err, disk.ErrLocked) {
		t.Errorf("where no file can be: %v", err)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	texts := []string{strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<19), ""}
	if err := disk.Replace(path, []byte(texts[0]), 0o640); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			if err := disk.Replace(path, []byte(texts[i%3]), 0o640); err != nil {
				t.Error(err)
			}
			b, err := os.ReadFile(path)
			if got := string(b); err != nil || got != texts[0] && got != texts[1] && got != texts[2] {
				t.Errorf("%d bytes of no text: %v", len(b), err)
			}
		})
	}
	all.Wait()
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	full := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(full, "in it"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := disk.Replace(full, []byte("x"), 0o600); err == nil {
		t.Error("a file in the place of a folder")
	}
	if err := disk.Replace(filepath.Join(dir, "none", "f"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no folder: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
