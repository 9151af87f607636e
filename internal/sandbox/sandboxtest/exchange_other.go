//go:build !linux && !darwin

package sandboxtest

import "errors"

func exchange(string, string) error { return errors.ErrUnsupported }
