package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

const (
	// hostModule names the functions that programs may have besides those of WASI, which knows no modes of files and no
	// processes.
	hostModule = "inspan"
	// maxPassed is the most bytes of a request to run a program, and of what it says on each stream.
	maxPassed = 8 << 20
	// maxDepth is how deep programs may run programs.
	maxDepth = 4
)

// caller is the program that calls a function of the host.
type caller struct {
	sandbox *guest
	files   *fsys
	self    *instance
	p       local.Process
	depth   int
	answer  []byte
}

// callerKey finds the caller.
type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// hostFunctions offers, with paths that are absolute: mode(path, length) -> bits, chmod(path, length, bits) -> 0, both
// -1 where that fails; run(request, length) -> length of the answer or -1; and answer(to, length), which copies that.
func hostFunctions(ctx context.Context, r wazero.Runtime) error {
	_, err := r.NewHostModuleBuilder(hostModule).
		NewFunctionBuilder().WithFunc(func(ctx context.Context, m api.Module, at, length uint32) int32 {
		c, name, ok := asked(ctx, m, at, length)
		if !ok {
			return -1
		}
		st, errno := c.files.Stat(string(name))
		if errno != 0 {
			return -1
		}
		return int32(st.Mode.Perm())
	}).Export("mode").
		NewFunctionBuilder().WithFunc(func(ctx context.Context, m api.Module, at, length, mode uint32) int32 {
		c, name, ok := asked(ctx, m, at, length)
		if !ok || c.files.Chmod(string(name), fs.FileMode(mode&0o777)) != 0 {
			return -1
		}
		return 0
	}).Export("chmod").
		NewFunctionBuilder().WithFunc(func(ctx context.Context, m api.Module, at, length uint32) int32 {
		c, data, ok := asked(ctx, m, at, min(length, maxPassed+1))
		if !ok || length > maxPassed {
			return -1
		}
		return int32(len(c.run(ctx, bytes.Clone(data))))
	}).Export("run").
		NewFunctionBuilder().WithFunc(func(ctx context.Context, m api.Module, to, length uint32) {
		if c, buf, ok := asked(ctx, m, to, length); ok {
			copy(buf, c.answer)
			c.answer = nil
		}
	}).Export("answer").
		Instantiate(ctx)
	return err
}

// asked returns who calls and the part of its memory that it names.
func asked(ctx context.Context, m api.Module, at, length uint32) (*caller, []byte, bool) {
	c := callerOf(ctx)
	if c == nil || m.Memory() == nil {
		return nil, nil, false
	}
	data, ok := m.Memory().Read(at, length)
	return c, data, ok
}

// reply is what a program is told of one that it had run.
type reply struct {
	Code     int
	Error    string
	Out, Err []byte
}

// run carries out a program for another, on its thread and in its time, and keeps the answer.
func (c *caller) run(ctx context.Context, request []byte) []byte {
	var ask struct {
		Args, Env []string
		Dir       string
		In        []byte
	}
	var told reply
	out, errs := &tail{}, &tail{}
	err := json.Unmarshal(request, &ask)
	var env local.Env
	if err == nil {
		env, err = local.Env{}.With(without(ask.Env, local.MarkerName))
	}
	switch {
	case err != nil:
		told.Error = err.Error()
	case len(ask.Args) == 0 || ask.Args[0] == "":
		told.Error = "no program is named"
	case c.depth >= maxDepth:
		told.Error = ask.Args[0] + ": programs that run programs are nested too deep"
	default:
		env["PWD"] = path.Join("/", ask.Dir)
		child := local.Process{Args: ask.Args, Env: env, Dir: env["PWD"], Marker: c.p.Marker, Stdin: bytes.NewReader(ask.In),
			Stdout: out, Stderr: errs}
		var exit sandbox.Exit
		exit, err = c.sandbox.run(context.WithValue(ctx, callerKey{}, &caller{depth: c.depth + 1}), child, nil)
		told.Code = exit.Code
		switch {
		case errors.Is(err, sandbox.ErrNotStarted):
			told.Error = err.Error()
		case err != nil:
			c.self.end(err) // the limit that ended it ends all
		}
	}
	if out.over || errs.over {
		told.Error = ask.Args[0] + ": it printed more than can be passed on: redirect its output to a file"
	}
	told.Out, told.Err = out.Bytes(), errs.Bytes()
	c.answer, err = json.Marshal(told)
	if err != nil {
		c.self.end(err)
	}
	return c.answer
}

// without leaves a variable out.
func without(env []string, name string) []string {
	var out []string
	for _, entry := range env {
		if len(entry) <= len(name) || entry[:len(name)+1] != name+"=" {
			out = append(out, entry)
		}
	}
	return out
}

// tail is what a program said, up to maxPassed.
type tail struct {
	bytes.Buffer
	over bool
}

func (k *tail) Write(p []byte) (int, error) {
	if k.Len()+len(p) > maxPassed {
		k.over = true
		return len(p), nil
	}
	return k.Buffer.Write(p)
}
