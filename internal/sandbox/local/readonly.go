package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
)

// keepReadOnly has file operations refuse what is read-only for commands, or denied to them. They work outside of the
// mounts that commands see: without this a path that no command can change could be written by a file tool.
func (f *Files) keepReadOnly(cfg sandbox.Config) error {
	top, err := placeOf(f.root)
	if err != nil {
		return fmt.Errorf("open workspace: %w", err)
	}
	below := func(paths []string) (list []string) {
		for _, p := range paths {
			if rel, ok := strings.CutPrefix(p, cfg.Workspace+"/"); ok {
				list = append(list, filepath.Join(top, rel))
			}
		}
		return list
	}
	f.readOnly, f.writable, f.denied = below(cfg.ReadOnly), below(cfg.Writable), below(cfg.Denied)
	for _, p := range f.denied { // what a denied link leads to is denied as well
		if real, err := filepath.EvalSymlinks(p); err == nil && real != p {
			f.denied = append(f.denied, real)
		}
	}
	return nil
}

// readable refuses an open file or directory that is denied, or is in what is, by whatever name it was opened.
func (f *Files) readable(op, name string, file *os.File, info fs.FileInfo) error {
	if len(f.denied) == 0 {
		return nil
	}
	at, err := placeOfFile(file)
	if err != nil {
		return f.refused(op, name, err)
	}
	same := func(p string) bool {
		denied, err := os.Lstat(p)
		return err == nil && os.SameFile(denied, info)
	}
	if deepest(f.denied, at) > 0 || slices.ContainsFunc(f.denied, same) {
		return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("%w: the path is denied to this agent", fs.ErrPermission)}
	}
	return nil
}

// allowed refuses to change a name in an open directory that is read-only, or is in what is. The directory is asked
// where it is: links on the way to it, also those that are put there meanwhile, change nothing.
func (f *Files) allowed(op, name string, dir *os.Root, base string) error {
	if len(f.readOnly)+len(f.denied) == 0 {
		return nil
	}
	at, err := placeOf(dir)
	if err != nil {
		return f.refused(op, name, err)
	}
	if deepest(f.denied, filepath.Join(at, base)) > 0 {
		return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("%w: the path is denied to this agent", fs.ErrPermission)}
	}
	if at = filepath.Join(at, base); deepest(f.readOnly, at) > deepest(f.writable, at) {
		return &fs.PathError{Op: op, Path: name,
			Err: fmt.Errorf("%w: the path is read-only for this agent", fs.ErrPermission)}
	}
	return nil
}

// deepest is the length of the longest of some paths that is one, or is above it; 0 for none.
func deepest(paths []string, p string) (n int) {
	for _, q := range paths {
		if p == q || strings.HasPrefix(p, q+"/") {
			n = max(n, len(q))
		}
	}
	return n
}

// in opens the directory of a name that may be changed.
func (f *Files) in(op, name string) (dir *os.Root, base string, err error) {
	at, base := path.Split(name)
	if at == "" {
		at = "."
	}
	if dir, err = f.root.OpenRoot(at); err != nil {
		return nil, "", f.refused(op, name, err)
	}
	if err := f.allowed(op, name, dir, base); err != nil {
		return nil, "", errors.Join(err, dir.Close())
	}
	return dir, base, nil
}

// makeable refuses to make a directory where its nearest one that is there is read-only.
func (f *Files) makeable(op, name, dir string) error {
	if len(f.readOnly)+len(f.denied) == 0 {
		return nil
	}
	at, rest := path.Clean(dir), ""
	for at != "." {
		if _, err := f.root.Stat(at); err == nil {
			break
		}
		at, rest = path.Dir(at), path.Join(path.Base(at), rest)
	}
	above, err := f.root.OpenRoot(at)
	if err != nil {
		return f.refused(op, name, err)
	}
	return errors.Join(f.allowed(op, name, above, rest), above.Close())
}
