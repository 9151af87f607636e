package wasm

import (
	"context"
	"io/fs"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// hostModule names the functions that programs may have besides those of WASI, which knows no modes of files.
const hostModule = "inspan"

// fsysKey finds the tree of the program that calls.
type fsysKey struct{}

// hostFunctions offers mode(path, length) -> bits or -1, and chmod(path, length, bits) -> 0 or -1. Paths are absolute.
func hostFunctions(ctx context.Context, r wazero.Runtime) error {
	_, err := r.NewHostModuleBuilder(hostModule).
		NewFunctionBuilder().WithFunc(func(ctx context.Context, m api.Module, path, length uint32) int32 {
		f, name, ok := asked(ctx, m, path, length)
		if !ok {
			return -1
		}
		st, errno := f.Stat(name)
		if errno != 0 {
			return -1
		}
		return int32(st.Mode.Perm())
	}).Export("mode").
		NewFunctionBuilder().WithFunc(func(ctx context.Context, m api.Module, path, length, mode uint32) int32 {
		f, name, ok := asked(ctx, m, path, length)
		if !ok || f.Chmod(name, fs.FileMode(mode&0o777)) != 0 {
			return -1
		}
		return 0
	}).Export("chmod").
		Instantiate(ctx)
	return err
}

func asked(ctx context.Context, m api.Module, path, length uint32) (*fsys, string, bool) {
	f, ok := ctx.Value(fsysKey{}).(*fsys)
	if !ok || m.Memory() == nil {
		return nil, "", false
	}
	name, ok := m.Memory().Read(path, length)
	return f, string(name), ok
}
