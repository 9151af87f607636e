//go:build !unix

package checks

import "os"

// openFile opens a file to be read.
func openFile(in *os.Root, name string) (*os.File, error) { return in.Open(name) }
