package station

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/disk"
)

// ErrHeld means that another process has a store.
var ErrHeld = errors.New("another process has this store open: stop it, or name another folder with --store")

// holdFile is locked by the process that has a store.
const holdFile = "lock"

// hold takes a store for this process, before anything in it is opened: a server that shares its files with another
// ruins them.
func hold(store string) (*disk.Lock, error) {
	if err := os.MkdirAll(store, 0o755); err != nil {
		return nil, fmt.Errorf("folder of the station: %w", err)
	}
	if err := ignored(store); err != nil {
		return nil, err
	}
	f, err := disk.TakeLock(filepath.Join(store, holdFile))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("%s: %w (%w)", store, ErrHeld, err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock of the store: %w", err)
	}
	return f, nil
}

// ignoreFile keeps a store out of the repository that it may lie in: it holds keys and the work of agents. The
// configuration of a project has the same folder and may be committed.
const (
	ignoreFile = ".gitignore"
	ignoreText = "# Written by inspan: the log, the keys and the workspaces of a station are not for a repository.\n*\n!config.yaml\n"
)

// ignored writes the file where there is none.
func ignored(store string) error {
	f, err := os.OpenFile(filepath.Join(store, ignoreFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("folder of the station: %w", err)
	}
	_, err = f.WriteString(ignoreText)
	return errors.Join(err, f.Close())
}
