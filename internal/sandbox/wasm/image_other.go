//go:build !linux

package wasm

import (
	"errors"
	"os"
)

// imageOf makes none: the engine copies what a program begins with.
func imageOf([]segment) (*os.File, error) { return nil, errors.ErrUnsupported }

// fill is never called, because there are no images.
func fill([]byte, *os.File) error { return errors.ErrUnsupported }
