package local

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/inspan/inspan/internal/sandbox"
)

// view is Files as an fs.FS: what io/fs calls valid paths only, no pipes, no writing.
type view struct{ files *Files }

var (
	_ fs.ReadDirFS  = view{}
	_ fs.StatFS     = view{}
	_ fs.ReadLinkFS = view{}
	_ fs.SubFS      = view{}
)

// Sub implements fs.SubFS. What it returns holds the folder open, also where that is moved or replaced, so that its
// files are found without a walk from the root; it is an io.Closer.
func (v view) Sub(dir string) (fs.FS, error) {
	if !fs.ValidPath(dir) {
		return nil, invalid("sub", dir)
	}
	root, err := v.files.root.OpenRoot(dir)
	if err != nil {
		return nil, pathError("sub", dir, v.files.refused("sub", dir, err))
	}
	return folder{view{&Files{root: root, escapes: v.files.escapes, denied: v.files.denied}}}, nil
}

// folder is a view of its own.
type folder struct{ view }

// Close implements io.Closer.
func (f folder) Close() error { return f.files.Close() }

func (v view) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, invalid("open", name)
	}
	file, info, err := v.files.open(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if info.IsDir() {
		return file, nil
	}
	return readOnly{file}, nil
}

func (v view) ReadDir(name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, invalid("readdir", name)
	}
	file, info, err := v.files.open(name)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	if !info.IsDir() {
		err := &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
		return nil, errors.Join(err, file.Close())
	}
	list, err := file.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, errors.Join(err, file.Close())
}

func (v view) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, invalid("stat", name)
	}
	info, err := v.files.Stat(name)
	return info, pathError("stat", name, err)
}

func (v view) Lstat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, invalid("lstat", name)
	}
	info, err := v.files.root.Lstat(name)
	if err != nil {
		return nil, pathError("lstat", name, v.files.refused("lstat", name, err))
	}
	return info, nil
}

func (v view) ReadLink(name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", invalid("readlink", name)
	}
	link, err := v.files.root.Readlink(name)
	if err != nil {
		return "", pathError("readlink", name, v.files.refused("readlink", name, err))
	}
	return link, nil
}

// readOnly hides the writing methods of the file below and keeps reading and seeking.
type readOnly struct{ file fileReader }

type fileReader interface {
	fs.File
	Seek(offset int64, whence int) (int64, error)
	ReadAt(p []byte, off int64) (int, error)
}

func (r readOnly) Stat() (fs.FileInfo, error)                { return r.file.Stat() }
func (r readOnly) Read(p []byte) (int, error)                { return r.file.Read(p) }
func (r readOnly) ReadAt(p []byte, off int64) (int, error)   { return r.file.ReadAt(p, off) }
func (r readOnly) Seek(off int64, whence int) (int64, error) { return r.file.Seek(off, whence) }
func (r readOnly) Close() error                              { return r.file.Close() }

func invalid(op, name string) error {
	err := error(fs.ErrInvalid)
	if check(name) != nil && errors.Is(check(name), sandbox.ErrOutside) {
		err = sandbox.ErrOutside
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// pathError gives an error the type that users of io/fs expect and keeps its cause.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
