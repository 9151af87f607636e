package tools

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

// maxHeld is how many folders above each other are held open while a tree is walked; those below are found by their
// paths.
const maxHeld = 64

// found is a file that a search looks at.
type found struct {
	// name is its path in the workspace, base its name in the folder in.
	name, base string
	in         fs.FS
	sandbox    sandbox.Sandbox
}

// read returns what a file holds; ok is false where it is binary, larger than maxSearched or cannot be read.
func (f found) read() (data []byte, ok bool) {
	if !utf8.ValidString(f.base) { // package fs knows no such names
		data, err := f.sandbox.ReadFile(f.name)
		return data, err == nil && len(data) <= maxSearched && !binary(data)
	}
	file, err := f.in.Open(f.base)
	if err != nil {
		return nil, false
	}
	defer func() { _ = file.Close() }() // it is only read
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxSearched {
		return nil, false
	}
	data = make([]byte, info.Size())
	n, err := io.ReadFull(file, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) { // it became shorter meanwhile
		return nil, false
	}
	return data[:n], !binary(data[:n])
}

type visitor func(found) error

// walk visits the regular files below a folder in order, but not git's own; all is false where there are more than
// maxVisited.
func walk(ctx context.Context, env tool.Env, dir string, visit visitor) (all bool, err error) {
	root := env.Sandbox.FS()
	info, err := fs.Lstat(root, dir)
	if err != nil {
		return true, err
	}
	w := walker{ctx: ctx, sandbox: env.Sandbox, visit: visit}
	switch {
	case info.IsDir() && path.Base(dir) == ".git", !info.IsDir() && !info.Mode().IsRegular():
		return true, ctx.Err()
	case info.IsDir():
		var in fs.FS
		var done func()
		if in, done, err = enter(root, dir, 0); err == nil {
			err = w.folder(in, dir, 0)
			done()
		}
	default:
		err = w.file(found{dir, dir, root, env.Sandbox})
	}
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return w.visited <= maxVisited, err
}

type walker struct {
	ctx     context.Context
	sandbox sandbox.Sandbox
	visit   visitor
	visited int
}

func (w *walker) file(f found) error {
	if w.visited++; w.visited > maxVisited {
		return fs.SkipAll
	}
	return w.visit(f)
}

func (w *walker) folder(in fs.FS, dir string, depth int) error {
	list, err := fs.ReadDir(in, ".")
	if err != nil && depth == 0 {
		return err
	}
	for _, d := range list { // of a folder that cannot be read, what could be
		if w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		name := path.Join(dir, d.Name())
		switch {
		case d.IsDir() && d.Name() != ".git":
			below, done, err := enter(in, d.Name(), depth+1)
			if err != nil {
				continue
			}
			err = w.folder(below, name, depth+1)
			done()
			if err != nil {
				return err
			}
		case d.Type().IsRegular():
			if err := w.file(found{name, d.Name(), in, w.sandbox}); err != nil {
				return err
			}
		}
	}
	return w.ctx.Err()
}

// enter opens a folder; done gives it back.
func enter(in fs.FS, name string, depth int) (folder fs.FS, done func(), err error) {
	if depth > maxHeld {
		return lower{in, name}, func() {}, nil
	}
	if folder, err = fs.Sub(in, name); err != nil {
		return nil, nil, err
	}
	if c, ok := folder.(io.Closer); ok && name != "." {
		return folder, func() { _ = c.Close() }, nil // it was only read
	}
	return folder, func() {}, nil
}

// lower is a folder that is not held open.
type lower struct {
	in  fs.FS
	dir string
}

func (l lower) Open(name string) (fs.File, error) { return l.in.Open(path.Join(l.dir, name)) }

func (l lower) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(l.in, path.Join(l.dir, name))
}

// visitAll visits files by their names.
func visitAll(ctx context.Context, env tool.Env, names []string, visit visitor) error {
	root := env.Sandbox.FS()
	dir, in, done := ".", root, func() {}
	defer func() { done() }()
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if at := path.Dir(name); at != dir {
			folder, leave, err := enter(root, at, 0)
			if err != nil {
				continue // it is gone, as a file may be
			}
			done()
			dir, in, done = at, folder, leave
		}
		if err := visit(found{name, path.Base(name), in, env.Sandbox}); err != nil {
			return err
		}
	}
	return nil
}
