//go:build !unix

package lineedit

import "os"

// resizes tells nothing where a terminal does not say so: its size is asked for with each key.
func resizes() (changed <-chan os.Signal, stop func()) { return nil, func() {} }
