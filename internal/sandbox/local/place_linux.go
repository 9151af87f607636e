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
	at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(d.Fd())))
	return at, errors.Join(err, d.Close())
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
