//go:build !linux

package launch

import (
	"fmt"
	"runtime"

	"github.com/inspan/inspan/internal/sandbox"
)

// Supported always says no.
func Supported() error {
	return fmt.Errorf("%w: Landlock needs Linux, this is %s", sandbox.ErrUnavailable, runtime.GOOS)
}

// Main always fails.
func Main() int { return fault(faultFD, Supported()) }
