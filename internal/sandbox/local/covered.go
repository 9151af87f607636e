package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Covered calls cover for each place that must be covered so that denied paths cannot be seen: the paths, and what they
// lead to where they are links. A link itself is left out, because only the place that it leads to can be covered, and
// so is what seen does not know of. A path that is not there needs nothing: what a command makes at its place is the
// command's own.
func Covered(denied []string, seen func(at string) bool, cover func(at string, dir bool)) error {
	for _, path := range denied {
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("denied path: %w", err)
		}
		for _, at := range slices.Compact([]string{path, real}) {
			info, err := os.Lstat(at)
			if err != nil {
				return fmt.Errorf("denied path: %w", err)
			}
			if info.Mode()&fs.ModeSymlink == 0 && seen(at) {
				cover(at, info.IsDir())
			}
		}
	}
	return nil
}
