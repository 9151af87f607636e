package mirror

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/sandbox/local"
)

// copied is a workspace and its copy on the other machine.
type copied struct {
	remote   Remote
	root     *os.Root
	base, ws string // there
	uid, gid int    // of commands there
	path     string // PATH there
	since    string // when the sandbox was made there, as its processes tell their own start
	denied   map[string]bool
	folds    bool // this machine takes names of small and capital letters for the same

	mu sync.Mutex // held while the tree goes one way or the other
	// here and there are what both sides had when they were last the same; guarded by mu.
	here, there tree
}

// newCopied makes the directories on the other machine. Close the root when done.
func newCopied(ctx context.Context, workspace string, denied []string, base, name string, remote Remote) (*copied,
	error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	c := &copied{remote: remote, root: root, here: tree{}, there: tree{}}
	if c.folds, err = folds(root); err == nil {
		c.denied, err = relative(workspace, denied)
	}
	if err == nil {
		err = c.prepare(ctx, base, name)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return c, nil
}

func (c *copied) prepare(ctx context.Context, base, name string) error {
	said, err := c.helper(ctx, Program{}, setup, base, name)
	if err != nil {
		return fmt.Errorf("make the sandbox's directories: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(said, "\n"), "\n")
	if len(lines) != 5 || !filepath.IsAbs(lines[0]) || len(lines[0]) > MaxPath {
		return fmt.Errorf("make the sandbox's directories: %w: %.200q", ErrHostile, said)
	}
	c.base, c.ws, c.path = lines[0], lines[0]+"/ws", lines[3]
	var errUID, errGID error
	c.uid, errUID = strconv.Atoi(lines[1])
	c.gid, errGID = strconv.Atoi(lines[2])
	_, errSince := strconv.ParseUint(lines[4], 10, 63)
	c.since = lines[4]
	return errors.Join(errUID, errGID, errSince)
}

// helper runs a script there and returns what it says on stdout, at most maxListing bytes.
func (c *copied) helper(ctx context.Context, p Program, script string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, helperWait)
	defer cancel()
	out, errs := &local.Head{Most: maxListing}, &local.Head{Most: maxStderr}
	nonce := rand.Text()
	// The script's code comes behind its output, because not every Remote tells one.
	p.Args = append([]string{"/bin/sh", "-c", "(" + script + "\n)\ncode=$?\nprintf '%s' \"" + nonce + "$code\"", "inspan"},
		args...)
	p.Stdout, p.Stderr = out, errs
	if err := c.remote.Run(ctx, p); err != nil {
		return "", err
	}
	said := out.Text()
	at := strings.LastIndex(said, nonce)
	if at < 0 {
		return "", fmt.Errorf("%w: a helper on the other machine ended unexpectedly: %s", ErrCut, quoted(errs.Text()))
	}
	if code := said[at+len(nonce):]; code != "0" {
		return "", fmt.Errorf("a helper on the other machine ended with status %.8q: %s", code, quoted(errs.Text()))
	}
	return said[:at], nil
}

// folds reports whether the file system of a workspace takes two names that differ in case for one.
func folds(root *os.Root) (bool, error) {
	name := asidePrefix + rand.Text()
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false, fmt.Errorf("write to the workspace: %w", err)
	}
	_, err = root.Lstat(strings.ToUpper(name))
	return err == nil, errors.Join(f.Close(), root.Remove(name))
}

// relative are the denied paths that are in the workspace; others are not there on the other machine.
func relative(workspace string, denied []string) (map[string]bool, error) {
	list := map[string]bool{}
	real, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	for _, at := range denied {
		at, err := resolve(at)
		if err != nil {
			return nil, fmt.Errorf("denied path: %w", err)
		}
		name, err := filepath.Rel(real, at)
		switch {
		case err != nil || name == ".." || strings.HasPrefix(name, "../"):
		case name == ".":
			return nil, errors.New("denied path: the whole workspace cannot be denied")
		default:
			list[filepath.ToSlash(name)] = true
		}
	}
	return list, nil
}

// resolve follows the links of a path as far as it is there.
func resolve(at string) (string, error) {
	real, err := filepath.EvalSymlinks(at)
	if err == nil {
		return real, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(at) == at {
		return "", err
	}
	dir, err := resolve(filepath.Dir(at))
	return filepath.Join(dir, filepath.Base(at)), err
}
