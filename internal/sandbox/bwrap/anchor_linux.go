package bwrap

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// anchors are handles on what is mounted from below a directory that commands write. Commands that run at the same time
// can put a link in the place of such a path between a look at it and its mount, and what the link leads to would be
// shown instead: so it is opened once, through no link, and bubblewrap is given the handle.
type anchors struct {
	files []*os.File
	index map[string]int
}

// anchor opens a path below the outermost of some directories that holds it. ok is false where none does: then the path
// is an operator's, and links on the way to it are the operator's too.
func (a *anchors) anchor(path string, open []string) (ok bool, err error) {
	if _, ok := a.index[path]; ok {
		return true, nil
	}
	root := ""
	for _, dir := range open {
		if strings.HasPrefix(path, dir+"/") && (root == "" || len(dir) < len(root)) {
			root = dir
		}
	}
	if root == "" {
		return false, nil
	}
	fd, err := local.Beneath(root, strings.TrimPrefix(path, root+"/"))
	switch {
	case errors.Is(err, unix.ELOOP):
		return false, fmt.Errorf("path to show inside: %s is, or leads through, a symbolic link in a directory that commands can write: name the target of the link: %w", path, err)
	case errors.Is(err, unix.ENOSYS):
		return false, fmt.Errorf("%w: %s is in a directory that commands can write, and mounting it safely needs Linux 5.6 or newer", sandbox.ErrNotEnforced, path)
	case err != nil:
		return false, fmt.Errorf("path to show inside: %s: %w", path, err)
	}
	if a.index == nil {
		a.index = make(map[string]int)
	}
	a.index[path] = len(a.files)
	a.files = append(a.files, os.NewFile(uintptr(fd), path))
	return true, nil
}

// byHandle are the flags that take a handle, by those that take a path.
var byHandle = map[string]string{"--bind": "--bind-fd", "--bind-try": "--bind-fd", "--ro-bind": "--ro-bind-fd"}

// fix turns the mounts of paths in a sandbox's writable directories, onto themselves, into mounts by handle; first is
// the descriptor of the first handle. What may be missing is left out where it is, or where a link leads to it: then
// nothing is to be kept in its place.
func (a *anchors) fix(args, open []string, first int) ([]string, error) {
	fixed := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		flag, mounts := byHandle[args[i]]
		if !mounts || i+2 >= len(args) || args[i+1] != args[i+2] {
			fixed = append(fixed, args[i])
			continue
		}
		path := args[i+1]
		ok, err := a.anchor(path, open)
		switch {
		case args[i] == "--bind-try" && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP)):
		case err != nil:
			return nil, err
		case ok:
			fixed = append(fixed, flag, strconv.Itoa(first+a.index[path]), path)
		default:
			fixed = append(fixed, args[i:i+3]...)
		}
		i += 2
	}
	return fixed, nil
}

func (a *anchors) close() {
	for _, f := range a.files {
		_ = f.Close() // a handle without data
	}
}
