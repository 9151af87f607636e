//go:build !unix

package lineedit

import "os"

// resizes returns no channel where the system has no signal for it: the size is read with each key.
func resizes() (changed <-chan os.Signal, stop func()) { return nil, func() {} }
