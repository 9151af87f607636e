package capture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/pkg/events"
)

// unfit says why a file is not taken.
type unfit struct {
	code, reason string
	size         int64
	err          error
}

func (u *unfit) Error() string { return u.reason }

// Unwrap returns the cause.
func (u *unfit) Unwrap() error { return u.err }

// open opens a regular file of a workspace. What is opened is what stands there under this name, not what a link leads
// to: each folder on the way is opened by itself.
func open(root *os.Root, file string) (*os.File, os.FileInfo, error) {
	at, dir := root, path.Dir(file)
	if dir != "." {
		sub, err := openFolder(root, dir)
		if err != nil {
			return nil, nil, err
		}
		defer sub.Close()
		at = sub
	}
	seen, err := at.Lstat(path.Base(file))
	if err != nil {
		return nil, nil, &unfit{code: events.LeftUnreadable, reason: "it does not exist", err: err}
	}
	if !seen.Mode().IsRegular() {
		return nil, nil, &unfit{code: events.LeftUnreadable, reason: "it is not a regular file"}
	}
	f, err := at.OpenFile(path.Base(file), openFlags, 0)
	if err != nil {
		return nil, nil, &unfit{code: events.LeftUnreadable, reason: "it cannot be opened", err: err}
	}
	now, err := f.Stat()
	if err != nil || !os.SameFile(seen, now) {
		return nil, nil, errors.Join(&unfit{code: events.LeftChanging, reason: "it was replaced while it was read",
			err: err}, f.Close())
	}
	return f, now, nil
}

// openFolder opens a folder without following links on the way.
func openFolder(root *os.Root, dir string) (*os.Root, error) {
	at := root
	for part := range strings.SplitSeq(dir, "/") {
		seen, err := at.Lstat(part)
		if err == nil && !seen.IsDir() {
			err = fmt.Errorf("%s is not a folder", part)
		}
		var next *os.Root
		if err == nil {
			next, err = at.OpenRoot(part)
		}
		if at != root {
			err = errors.Join(err, at.Close())
		}
		if err != nil {
			if next != nil {
				err = errors.Join(err, next.Close())
			}
			return nil, &unfit{code: events.LeftUnreadable, reason: "a folder of its path is missing, or is a link", err: err}
		}
		if now, err := next.Lstat("."); err != nil || !os.SameFile(seen, now) {
			return nil, errors.Join(&unfit{code: events.LeftChanging,
				reason: "a folder of its path was replaced while it was read", err: err}, next.Close())
		}
		at = next
	}
	return at, nil
}

// read reads a file that check agrees to, by its size. A file that is not the same before and after is being written.
func read(root *os.Root, file string,
	check func(size int64) (code, reason string)) (data []byte, state mark, err error) {
	if why := artifact.CheckPath(file); why != "" {
		return nil, mark{}, &unfit{code: events.LeftBadName, reason: why}
	}
	f, before, err := open(root, file)
	if err != nil {
		return nil, mark{}, err
	}
	defer f.Close()
	size := before.Size()
	if code, reason := check(size); code != "" {
		return nil, markOf(before), &unfit{code: code, reason: reason, size: size}
	}
	data = make([]byte, 0, size+1)
	for len(data) <= int(size) { // at most one byte more than it had
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, mark{}, &unfit{code: events.LeftUnreadable, reason: "it cannot be read", size: size, err: err}
		}
	}
	after, err := f.Stat()
	if err != nil || int64(len(data)) != size || markOf(after) != markOf(before) {
		return nil, mark{}, &unfit{code: events.LeftChanging, reason: "it was changed while it was read", size: size,
			err: err}
	}
	return data, markOf(after), nil
}
