//go:build !linux

package wall

import (
	"context"
	"fmt"
	"runtime"
	"syscall"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

func none() error { return fmt.Errorf("it needs Linux, this is %s", runtime.GOOS) }

func byThread(context.Context, Order, local.Process) (sandbox.Exit, error) {
	return sandbox.Exit{}, none()
}

func apartUser(*syscall.SysProcAttr) {}

func (Order) raise() error { return none() }

func execute(string, []string) error { return none() }
