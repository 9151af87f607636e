package wasm

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// imageOf makes a file in memory that no one can change any more. It has pages for what the parts fill alone.
func imageOf(parts []segment) (*os.File, error) {
	fd, err := unix.MemfdCreate("inspan-wasm", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "memory of a wasm program")
	for _, p := range parts {
		if _, err = file.WriteAt(p.data, p.at); err != nil {
			break
		}
	}
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS,
			unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// fill maps an image over the beginning of a memory that begins on a page. What is written there is written to a copy.
func fill(memory []byte, image *os.File) error {
	info, err := image.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if info.Size() > int64(len(memory)) {
		return os.ErrInvalid
	}
	_, err = unix.MmapPtr(int(image.Fd()), 0, unsafe.Pointer(&memory[0]), uintptr(info.Size()),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}
