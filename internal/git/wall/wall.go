// Package wall runs a program on this machine in directories that strangers write while it runs.
//
// Promises: in an Order's trees no symbolic link is followed, whoever makes it and when, and nothing but the trees and
// the private directories can be written, also where the program reads a link's text and goes there by itself. Links
// stay what they are: they can be made, read, compared and removed. The owner and the mode of what is written are as
// without a wall. The walls are mounts that only the program and what it starts can see, and they are gone with it.
//
// It needs Linux 5.14 and the right to mount: as root, or by a user namespace. Find really tries it.
package wall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/helper"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// Flag is the first argument of the helper that raises walls in a user namespace. Programs that do not know it refuse
// it.
const Flag = "-inspan-git-wall"

// Failed is the exit status of a helper that could not begin its program; standard error tells why.
const Failed = 125

// ErrNone means that no wall can be raised here.
var ErrNone = errors.New("git cannot be protected from links that a command creates while git runs")

// Order is what a wall is around. Its paths are absolute.
type Order struct {
	// Trees are directories that strangers write. There must be no link in their own paths: it is refused with ELOOP.
	Trees []string `json:"trees"`
	// Private are directories of ours that the program writes. Links in them are followed.
	Private []string `json:"private"`
	// Pin, if set, is a directory in a tree that is shown at At, an empty directory in a private one: whatever becomes
	// of the names above Pin, what is at At stays the same.
	Pin string `json:"pin,omitempty"`
	At  string `json:"at,omitempty"`
	// Open leaves all else as writable as it is.
	Open bool `json:"open,omitempty"`
	// Dir is where the helper starts the program.
	Dir string `json:"dir,omitempty"`
}

// Way is how walls are raised. The zero Way raises none.
type Way int

// The ways: by a thread of our own that may mount, and by a helper that may in a user namespace of its own.
const (
	None Way = iota
	Thread
	Helper
)

// programs are those whose main asks Main. A program of tests that does not refuses the flag.
var programs = [...]string{"/cmd/inspan", "/cmd/toolrunner", ".test"}

// Find tries what works here, in a directory that it makes below temp and removes. The error wraps ErrNone and says
// why.
func Find(ctx context.Context, temp string) (Way, error) {
	var all []error
	for _, w := range []Way{Thread, Helper} {
		err := w.try(ctx, temp)
		if err == nil {
			return w, nil
		}
		if ctx.Err() != nil {
			return None, err
		}
		all = append(all, err)
	}
	return None, fmt.Errorf("%w: as root: %w; in a user namespace: %w", ErrNone, all[0], all[1])
}

// trial reads and writes in a tree, and tries to leave it by a link and by a path.
const trial = `read -r x <tree/in && [ "$x" = in ] && echo x >tree/new && echo x >private/new && [ -h tree/link ] || exit 3
{ read -r x <tree/link/in; } 2>/dev/null && exit 4
{ echo x >out/new; } 2>/dev/null && exit 5
echo walled`

func (w Way) try(ctx context.Context, temp string) (err error) {
	dir, err := os.MkdirTemp(temp, "inspan-wall-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	for _, name := range []string{"tree", "private", "out"} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, "in"), []byte("in\n"), 0o600)); err != nil {
			return err
		}
	}
	if err := os.Symlink("../out", filepath.Join(dir, "tree", "link")); err != nil {
		return err
	}
	var out, said strings.Builder
	exit, err := w.Run(ctx, Order{Trees: []string{filepath.Join(dir, "tree")},
		Private: []string{filepath.Join(dir, "private")}},
		local.Process{Path: "/bin/sh", Args: []string{"/bin/sh", "-c", trial}, Dir: dir, Stdout: &out, Stderr: &said,
			Marker: filepath.Base(dir)})
	switch {
	case err != nil:
		return err
	case exit.Code != 0 || out.String() != "walled\n":
		return fmt.Errorf("a trial ended with %d: %s", exit.Code, strings.TrimSpace(said.String()))
	}
	return nil
}

// known reports whether this program answers the flag.
func known() bool {
	info, ok := debug.ReadBuildInfo()
	for _, name := range programs {
		if ok && strings.HasSuffix(info.Path, name) {
			return true
		}
	}
	return false
}

// helped is the process that becomes another one behind a wall.
func helped(o Order, p local.Process) (local.Process, error) {
	if !known() {
		return p, errors.New("this program cannot run the git helper: use inspan or toolrunner")
	}
	o.Dir = p.Dir
	text, err := json.Marshal(o)
	if err != nil {
		return p, err
	}
	program := helper.Program()
	p.Args = append([]string{program, Flag, string(text), p.Path}, p.Args...)
	p.Path, p.Dir = program, "/" // the directory of the program would lead around the wall
	return p, nil
}

// Run is local.Run behind a wall.
func (w Way) Run(ctx context.Context, o Order, p local.Process) (sandbox.Exit, error) {
	switch w {
	case Thread:
		return byThread(ctx, o, p)
	case Helper:
		p, err := helped(o, p)
		if err != nil {
			return sandbox.Exit{}, err
		}
		p.Attributes = apartUser
		return local.Run(ctx, p)
	case None:
	}
	return local.Run(ctx, p)
}

// Main is the helper where this process was started as one: it becomes the program, or asked is true and code is what
// the process is to end with. Otherwise it does nothing. It is to be called before anything else.
func Main() (code int, asked bool) {
	if len(os.Args) < 2 || os.Args[1] != Flag {
		return 0, false
	}
	if err := become(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "inspan: wall:", err)
	}
	return Failed, true
}

func become(args []string) error {
	const least = 3
	var o Order
	if len(args) < least || json.Unmarshal([]byte(args[0]), &o) != nil {
		return errors.New("it is a helper for git and is not run by hand")
	}
	if err := o.raise(); err != nil {
		return err
	}
	if err := os.Chdir(o.Dir); err != nil {
		return err
	}
	return execute(args[1], args[2:])
}
