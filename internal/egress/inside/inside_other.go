//go:build !linux

package inside

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
)

// ErrNoHelper means that there is no helper for this system.
var ErrNoHelper = errors.New("sandboxes with egress need Linux")

// Main does nothing.
func Main() bool { return false }

// Hand is the outside end of one helper.
type Hand struct{}

// Prepare always fails.
func Prepare([]string, int) (*Hand, []string, []*os.File, error) {
	return nil, nil, nil, fmt.Errorf("%w, this is %s", ErrNoHelper, runtime.GOOS)
}

// Started does nothing.
func (*Hand) Started() {}

// Take always fails.
func (*Hand) Take() (net.Listener, error) { return nil, ErrNoHelper }

// Reason returns "".
func (*Hand) Reason() string { return "" }

// Ended does nothing.
func (*Hand) Ended() {}

// Close does nothing.
func (*Hand) Close() error { return nil }

// Give always fails.
func Give([]*os.File, int) error { return ErrNoHelper }
