package workdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Reasons for which a file of a workspace is not read.
var (
	ErrMissing  = errors.New("the workspace is not on this machine")
	ErrNotFile  = errors.New("not a regular file")
	ErrTooLarge = errors.New("too large to be shown")
)

// Read returns a file of a workspace below a root, of at most limit bytes. It makes nothing, follows no link on the way
// and waits for no pipe. A file that is missing is fs.ErrNotExist, a workspace that is missing ErrMissing.
func Read(root, rel, name string, limit int64) (data []byte, err error) {
	name = filepath.FromSlash(name)
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("%q is not a path in the workspace", name)
	}
	at, err := there(root, rel)
	if err != nil {
		return nil, err
	}
	dir, err := walk(at, filepath.Dir(filepath.Clean(name)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return read(dir, filepath.Base(filepath.Clean(name)), limit)
}

// there opens a workspace that must be there.
func there(root, rel string) (*os.Root, error) {
	if p, ok, err := PlaceOf(root, rel); err != nil {
		return nil, err
	} else if ok {
		return p.open()
	}
	top, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	at, err := walk(top, filepath.FromSlash(rel))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMissing
	}
	return at, err
}

// walk goes from one directory down to another one, through no link, and closes all it leaves.
func walk(at *os.Root, path string) (*os.Root, error) {
	for name := range strings.SplitSeq(filepath.ToSlash(filepath.Clean(path)), "/") {
		next, err := step(at, name)
		if err = errors.Join(err, at.Close()); err != nil {
			if next != nil {
				err = errors.Join(err, next.Close())
			}
			return nil, err
		}
		at = next
	}
	return at, nil
}

// read reads one file of a directory. What is read is what was looked at.
func read(in *os.Root, name string, limit int64) (data []byte, err error) {
	seen, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFile)
	}
	f, err := in.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	got, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(seen, got) {
		return nil, fmt.Errorf("%s: %w", name, ErrLinked)
	}
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes: %w", name, limit, ErrTooLarge)
	}
	return data, err
}
