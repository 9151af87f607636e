//go:build !linux

package mirror

import "io/fs"

// number is empty here: size and time of change alone tell one content of a file from another.
func number(fs.FileInfo) string { return "" }
