package local

import (
	"errors"
	"io/fs"
	"path"
	"syscall"
)

// Remove takes a file or a symbolic link away, never a directory.
func (f *Files) Remove(name string) error {
	if err := f.file("remove", name); err != nil {
		return err
	}
	dir, base, err := f.in("remove", name)
	if err != nil {
		return err
	}
	if err := errors.Join(dir.Remove(base), dir.Close()); err != nil {
		return f.refused("remove", name, err)
	}
	return nil
}

// Rename moves a file or a symbolic link, with its mode. Parent directories are made; what stands at the new place
// already is not replaced, unless somebody put it there in between.
func (f *Files) Rename(from, to string) error {
	if err := f.file("rename", from); err != nil {
		return err
	}
	if err := check(to); err != nil {
		return err
	}
	dir, base := path.Split(to)
	if base == "" || base == "." || base == ".." {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrInvalid}
	}
	if dir == "" {
		dir = "."
	}
	source, name, err := f.in("rename", from)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := f.parent("rename", to, dir); err != nil {
		return err
	}
	target, _, err := f.in("rename", to)
	if err != nil {
		return err
	}
	defer target.Close()
	if _, err := target.Lstat(base); err == nil {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	if err := move(source, name, target, base); err != nil {
		return f.refused("rename", from, err)
	}
	return nil
}

// file checks that a path names a file or a link.
func (f *Files) file(op, name string) error {
	if err := check(name); err != nil {
		return err
	}
	info, err := f.root.Lstat(name)
	if err != nil {
		return f.refused(op, name, err)
	}
	if info.IsDir() {
		return &fs.PathError{Op: op, Path: name, Err: syscall.EISDIR}
	}
	return nil
}

// parent makes a directory for the file name where it is missing. MkdirAll of "." or of "a/.." is refused by some
// systems, an existing directory needs none.
func (f *Files) parent(op, name, dir string) error {
	if info, err := f.root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := f.makeable(op, name, dir); err != nil {
		return err
	}
	if err := f.root.MkdirAll(path.Clean(dir), dirMode); err != nil {
		return f.refused(op, name, err)
	}
	return nil
}
