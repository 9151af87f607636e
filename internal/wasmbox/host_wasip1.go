package wasmbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"unsafe"
)

//go:wasmimport inspan mode
func hostMode(path unsafe.Pointer, length uint32) int32

//go:wasmimport inspan chmod
func hostChmod(path unsafe.Pointer, length, mode uint32) int32

//go:wasmimport inspan run
func hostRun(request unsafe.Pointer, length uint32) int32

//go:wasmimport inspan answer
func hostAnswer(to unsafe.Pointer, length uint32)

// errMode is all that the host says of a mode that cannot be read or set.
var errMode = errors.New("its mode cannot be read or changed")

// System is the sandbox: it knows the modes of its files, which WASI does not, and runs other programs.
type System struct{}

// Mode implements Host.
func (System) Mode(path string) (fs.FileMode, error) {
	mode := hostMode(unsafe.Pointer(unsafe.StringData(path)), uint32(len(path)))
	runtime.KeepAlive(path)
	if mode < 0 {
		return 0, &fs.PathError{Op: "mode", Path: path, Err: errMode}
	}
	return fs.FileMode(mode).Perm(), nil
}

// Chmod implements Host.
func (System) Chmod(path string, mode fs.FileMode) error {
	failed := hostChmod(unsafe.Pointer(unsafe.StringData(path)), uint32(len(path)), uint32(mode.Perm()))
	runtime.KeepAlive(path)
	if failed != 0 {
		return &fs.PathError{Op: "chmod", Path: path, Err: errMode}
	}
	return nil
}

// errRun means that the host did not understand.
var errRun = errors.New("the sandbox does not run other programs")

// Run implements Host.
func (System) Run(call Call) (int, error) {
	in, err := io.ReadAll(call.In)
	if err != nil {
		return 0, err
	}
	request, err := json.Marshal(map[string]any{"args": call.Args, "env": call.Env, "dir": call.Dir, "in": in})
	if err != nil {
		return 0, err
	}
	length := hostRun(unsafe.Pointer(unsafe.SliceData(request)), uint32(len(request)))
	runtime.KeepAlive(request)
	if length <= 0 {
		return 0, fmt.Errorf("%s: %w", call.Args[0], errRun)
	}
	data := make([]byte, length)
	hostAnswer(unsafe.Pointer(unsafe.SliceData(data)), uint32(len(data)))
	var answer struct {
		Code     int
		Error    string
		Out, Err []byte
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return 0, err
	}
	if answer.Error != "" {
		return 0, errors.New(answer.Error)
	}
	_, err = call.Out.Write(answer.Out)
	if _, e := call.Err.Write(answer.Err); err == nil {
		err = e
	}
	if errors.Is(err, io.ErrClosedPipe) {
		return int(deafness), nil
	}
	return answer.Code, err
}
