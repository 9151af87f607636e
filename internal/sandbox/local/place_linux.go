package local

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// placeOf is where an open directory is now.
func placeOf(dir *os.Root) (string, error) {
	d, err := dir.Open(".")
	if err != nil {
		return "", err
	}
	at, err := placeOfFile(d)
	return at, errors.Join(err, d.Close())
}

// placeOfFile is where an open file or directory is now.
func placeOfFile(f *os.File) (string, error) {
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
}

// move renames from one open directory into another one.
func move(from *os.Root, name string, to *os.Root, other string) error {
	a, err := from.Open(".")
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := to.Open(".")
	if err != nil {
		return err
	}
	defer b.Close()
	return unix.Renameat(int(a.Fd()), name, int(b.Fd()), other)
}
