//go:build !wasip1

package wasmbox

import (
	"io/fs"
	"os"
)

// System are the modes of files of a system that knows them.
type System struct{}

// Mode implements Modes.
func (System) Mode(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

// Chmod implements Modes.
func (System) Chmod(path string, mode fs.FileMode) error { return os.Chmod(path, mode) }
