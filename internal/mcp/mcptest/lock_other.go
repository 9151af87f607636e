//go:build !unix

package mcptest

import (
	"errors"
	"os"
)

func lock(*os.File) error { return errors.ErrUnsupported }
