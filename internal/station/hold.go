package station

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/disk"
)

// ErrHeld means that another process has a store.
var ErrHeld = errors.New("another process has this store open: stop it, or name another folder with --store")

// holdFile is locked by the process that has a store.
const holdFile = "lock"

// hold takes a store for this process, before anything in it is opened: a server that shares its files with another ruins them.
func hold(store string) (*os.File, error) {
	if err := os.MkdirAll(store, 0o755); err != nil {
		return nil, fmt.Errorf("folder of the station: %w", err)
	}
	f, err := disk.Lock(filepath.Join(store, holdFile))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("%s: %w (%w)", store, ErrHeld, err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock of the store: %w", err)
	}
	return f, nil
}
