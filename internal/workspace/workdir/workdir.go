// Package workdir opens the directories of workspaces below a root.
//
// Promise: no part of the way from the root to a workspace is followed through a link, and a directory that was
// replaced while it was in use is noticed. A caller that was given an *os.Root never leaves that directory.
package workdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrLinked means that a link, or something else that is no directory, stands on the way from a root to a workspace: it
// may lead to the workspace of another run.
var ErrLinked = errors.New("a link or a file is in the place of a workspace: remove it")

// Dir is the directory of a workspace. Workspace is its name, Path where it is now: both are relative to the workspace
// root, and differ where the workspace follows its runs from machine to machine.
type Dir struct{ Workspace, Path string }

// Pinned is a directory below a root as it was when it was opened, through no link.
type Pinned struct {
	// Path is absolute.
	Path      string
	root, rel string
	info      fs.FileInfo
}

// Pin makes a directory below a root and looks at it.
func Pin(root, rel string) (Pinned, error) {
	p := Pinned{root: root, rel: rel}
	var err error
	if p.Path, err = Path(root, rel); err != nil {
		return p, err
	}
	r, err := Open(root, rel)
	if err != nil {
		return p, err
	}
	p.info, err = r.Stat(".")
	return p, errors.Join(err, r.Close())
}

// Still reports with an error that the path leads elsewhere by now: the caller that was given it in between may have
// followed.
func (p Pinned) Still() error {
	now, err := Pin(p.root, p.rel)
	if err == nil && !os.SameFile(now.info, p.info) {
		err = fmt.Errorf("workspace %s was replaced while it was opened: %w", p.rel, ErrLinked)
	}
	return err
}

// Open makes a directory below a root and opens it, one part of the way after the other, and through no link. The root
// itself may be one: an operator chose it. A Place is opened where it is, and not made.
func Open(root, rel string) (*os.Root, error) {
	if p, ok, err := PlaceOf(root, rel); err != nil {
		return nil, err
	} else if ok {
		return p.open()
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w", root, err)
	}
	at, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	for name := range strings.SplitSeq(filepath.ToSlash(filepath.Clean(filepath.FromSlash(rel))), "/") {
		next, err := descend(at, name)
		if err = errors.Join(err, at.Close()); err != nil {
			if next != nil {
				err = errors.Join(err, next.Close())
			}
			return nil, fmt.Errorf("make workspace %s: %w", rel, err)
		}
		at = next
	}
	return at, nil
}

// descend opens a directory in another one, and makes it where it is missing.
func descend(in *os.Root, name string) (*os.Root, error) {
	if err := in.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return step(in, name)
}

// step opens a directory in another one. What is opened is what was looked at.
func step(in *os.Root, name string) (*os.Root, error) {
	seen, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, fmt.Errorf("%s: %w", name, ErrLinked)
	}
	next, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	got, err := next.Stat(".")
	if err == nil && !os.SameFile(seen, got) {
		err = fmt.Errorf("%s: %w", name, ErrLinked)
	}
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// Make is the absolute path of a directory that it makes below a root, for those who open it themselves.
func Make(root, rel string) (string, error) {
	p, err := Pin(root, rel)
	return p.Path, err
}
