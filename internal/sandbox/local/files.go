package local

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/inspan/inspan/internal/sandbox"
)

const (
	// maxPath is the longest path the file operations take, in bytes (PATH_MAX of Linux).
	maxPath = 4096
	// maxLinks is the most symbolic links WriteFile follows to reach the file it replaces.
	maxLinks = 16

	dirMode  fs.FileMode = 0o755
	fileMode fs.FileMode = 0o644
)

// Files is file access below one directory. It holds the directory open, so that renaming or replacing a part of
// its path later changes nothing. It is safe for concurrent use.
type Files struct {
	root *os.Root
	// escapes is the error with which os.Root refuses a path that leaves it. The os package does not export it, so
	// OpenFiles provokes it once.
	escapes error
	// readOnly, writable and denied are paths below the directory, as they are on disk; see keepReadOnly.
	readOnly, writable, denied []string
}

// OpenFiles opens the workspace, an existing directory given by absolute path. Close it when done.
func OpenFiles(workspace string) (*Files, error) {
	if !filepath.IsAbs(workspace) {
		return nil, fmt.Errorf("workspace %q: want an absolute path", workspace)
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	_, probe := root.Stat("..")
	refused, ok := errors.AsType[*fs.PathError](probe)
	if !ok {
		return nil, errors.Join(fmt.Errorf("open workspace %s: the root accepted a path outside: %w", workspace, probe),
			root.Close())
	}
	return &Files{root: root, escapes: refused.Err}, nil
}

// Close gives the directory back. Further operations return an error.
func (f *Files) Close() error { return f.root.Close() }

// ReadFile returns a whole regular file of at most sandbox.MaxReadFile bytes.
func (f *Files) ReadFile(name string) ([]byte, error) {
	file, info, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	large := fmt.Errorf("read %q (%d bytes): %w", name, info.Size(), sandbox.ErrTooLarge)
	if info.Size() > sandbox.MaxReadFile {
		return nil, large
	}
	data, err := readAll(io.LimitReader(file, sandbox.MaxReadFile+1), info.Size())
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	if len(data) > sandbox.MaxReadFile { // it grew meanwhile
		return nil, large
	}
	return data, nil
}

// readAll is io.ReadAll for about so many bytes.
func readAll(r io.Reader, size int64) ([]byte, error) {
	data := make([]byte, 0, min(max(size, 0), sandbox.MaxReadFile)+1) // one more, to see the end
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return data, err
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
	}
}

// WriteFile replaces a file in one move: whoever reads at the same time, or after a crash, finds the old content or
// the new, never a part. Parent directories are made, the mode bits of an existing file are kept, and a symbolic link
// that stays in the workspace is written through.
func (f *Files) WriteFile(name string, data []byte) error {
	if err := check(name); err != nil {
		return err
	}
	target, mode, err := f.target(name)
	if err != nil {
		return err
	}
	dir, base := path.Split(target)
	if base == "" || base == "." || base == ".." {
		return fmt.Errorf("write %q: %w: the path names a directory", name, fs.ErrInvalid)
	}
	if dir == "" {
		dir = "."
	}
	if err := f.parent("write", name, dir); err != nil {
		return err
	}
	// From here on the parent is held open: swapping it for a link cannot lead the write elsewhere.
	parent, err := f.root.OpenRoot(dir)
	if err != nil {
		return f.refused("write", name, err)
	}
	if err := f.allowed("write", name, parent, base); err != nil {
		return errors.Join(err, parent.Close())
	}
	err = replace(parent, base, data, mode)
	if err := errors.Join(err, parent.Close()); err != nil {
		return f.refused("write", name, err)
	}
	return nil
}

// Stat follows symbolic links that stay in the workspace.
func (f *Files) Stat(name string) (fs.FileInfo, error) {
	if err := check(name); err != nil {
		return nil, err
	}
	info, err := f.root.Stat(name)
	if err != nil {
		return nil, f.refused("stat", name, err)
	}
	return info, nil
}

// Dir checks that a path relative to the workspace names a directory in it; empty means the workspace itself.
func (f *Files) Dir(name string) error {
	if name == "" {
		return nil
	}
	info, err := f.Stat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "chdir", Path: name, Err: syscall.ENOTDIR}
	}
	return nil
}

// FS is a read-only view. It implements fs.ReadDirFS, fs.StatFS and fs.ReadLinkFS.
func (f *Files) FS() fs.FS { return view{f} }

// open opens a regular file or directory without ever waiting for the other end of a pipe.
func (f *Files) open(name string) (*os.File, fs.FileInfo, error) {
	if err := check(name); err != nil {
		return nil, nil, err
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, f.refused("open", name, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = fmt.Errorf("open %q (%s): %w", name, info.Mode().Type(), sandbox.ErrNotRegular)
	}
	if err == nil {
		err = f.readable("open", name, file, info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// target follows the symbolic links that the last part of a path names, and returns the path to replace and the mode
// its file should have. Links of parent directories are left to the root, which follows or refuses them itself.
func (f *Files) target(name string) (string, fs.FileMode, error) {
	at := name
	for range maxLinks {
		info, err := f.root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return at, fileMode, nil
		}
		if err != nil {
			return "", 0, f.refused("write", name, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			mode := info.Mode().Perm()
			if !info.Mode().IsRegular() {
				mode = fileMode
			}
			return at, mode, nil
		}
		link, err := f.root.Readlink(at)
		if err != nil {
			return "", 0, f.refused("write", name, err)
		}
		if path.IsAbs(link) {
			return "", 0, fmt.Errorf("write %q: link to %q: %w", name, link, sandbox.ErrOutside)
		}
		dir, _ := path.Split(at)
		at = dir + link
	}
	return "", 0, fmt.Errorf("write %q: %w", name, syscall.ELOOP)
}

// replace writes aside and renames within one open directory.
func replace(dir *os.Root, base string, data []byte, mode fs.FileMode) (err error) {
	aside := ".inspan-" + rand.Text()
	file, err := dir.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dir.Remove(aside))
		}
	}()
	_, err = file.Write(data)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return dir.Rename(aside, base)
}

// check refuses what no path of a workspace can be, before any system call.
func check(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("empty path: %w", fs.ErrInvalid)
	case len(name) > maxPath:
		return fmt.Errorf("path of %d bytes, at most %d: %w", len(name), maxPath, fs.ErrInvalid)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("path %q contains a NUL byte: %w", name, fs.ErrInvalid)
	case filepath.IsAbs(name):
		return fmt.Errorf("path %q is absolute: %w", name, sandbox.ErrOutside)
	}
	return nil
}

// refused names the path as it was asked for and translates the root's refusal into sandbox.ErrOutside.
func (f *Files) refused(op, name string, err error) error {
	if errors.Is(err, f.escapes) {
		return fmt.Errorf("%s %q: %w", op, name, sandbox.ErrOutside)
	}
	if errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("%s %q: %w", op, name, sandbox.ErrDestroyed)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
