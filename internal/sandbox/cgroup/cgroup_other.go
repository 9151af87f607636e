//go:build !linux

package cgroup

import (
	"errors"

	"github.com/inspan/inspan/internal/sandbox"
)

// Driver makes no groups: only Linux has them.
type Driver struct{}

// Find finds none.
func Find() *Driver { return &Driver{} }

// Has always says no.
func (*Driver) Has(sandbox.Isolation) error { return errors.New("control groups need Linux") }

// Measures is always false.
func (*Driver) Measures() bool { return false }

// Works is false.
func (*Driver) Works() bool { return false }

// Version is empty.
func (*Driver) Version() string { return "" }

// Directories are none.
func (*Driver) Directories() []string { return nil }
