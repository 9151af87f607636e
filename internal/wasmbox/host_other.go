//go:build !wasip1

package wasmbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// System is a host that knows modes of files, and where nothing else is run.
type System struct{}

// Mode implements Host.
func (System) Mode(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

// Chmod implements Host.
func (System) Chmod(path string, mode fs.FileMode) error { return os.Chmod(path, mode) }

// errUnknown means that nothing else is run here.
var errUnknown = errors.New("not found")

// Run implements Host.
func (System) Run(call Call) (int, error) {
	return 0, fmt.Errorf("%s: %w: there are %s", call.Args[0], errUnknown, strings.Join(Names(), " "))
}
