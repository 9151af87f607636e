//go:build !linux

package local

import (
	"os"
	"path/filepath"
)

// placeOf is where an open directory was when it was opened.
func placeOf(dir *os.Root) (string, error) { return filepath.EvalSymlinks(dir.Name()) }

// placeOfFile is where an open file or directory was when it was opened.
func placeOfFile(f *os.File) (string, error) { return filepath.EvalSymlinks(f.Name()) }

// move renames from one open directory into another one.
func move(from *os.Root, name string, to *os.Root, other string) error {
	return os.Rename(filepath.Join(from.Name(), name), filepath.Join(to.Name(), other))
}
