package local

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Memory makes an unnamed file that holds a text, to be read from its beginning.
func Memory(name, text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("inspan-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	_, err = io.WriteString(file, text)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
