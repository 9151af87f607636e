package wasmbox

import (
	"errors"
	"io/fs"
	"runtime"
	"unsafe"
)

//go:wasmimport inspan mode
func hostMode(path unsafe.Pointer, length uint32) int32

//go:wasmimport inspan chmod
func hostChmod(path unsafe.Pointer, length, mode uint32) int32

// errMode is all that the host says of a mode that can not be read or set.
var errMode = errors.New("its mode can not be read or changed")

// System are the modes of the files of the sandbox, which WASI knows nothing of.
type System struct{}

// Mode implements Modes.
func (System) Mode(path string) (fs.FileMode, error) {
	mode := hostMode(unsafe.Pointer(unsafe.StringData(path)), uint32(len(path)))
	runtime.KeepAlive(path)
	if mode < 0 {
		return 0, &fs.PathError{Op: "mode", Path: path, Err: errMode}
	}
	return fs.FileMode(mode).Perm(), nil
}

// Chmod implements Modes.
func (System) Chmod(path string, mode fs.FileMode) error {
	failed := hostChmod(unsafe.Pointer(unsafe.StringData(path)), uint32(len(path)), uint32(mode.Perm()))
	runtime.KeepAlive(path)
	if failed != 0 {
		return &fs.PathError{Op: "chmod", Path: path, Err: errMode}
	}
	return nil
}
