package hooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/pkg/events"
)

// exitBlock is the exit code of a program that blocks without an answer on its standard output.
const exitBlock = 2

// command runs a program. It answers on its standard output and ends with 0; one that ends with 2 blocks, and what it
// wrote to its standard error is the message.
func (a *Asker) command(ctx context.Context, d hook.Due, question []byte) (answer, message string, err error) {
	path, err := a.program(d)
	if err != nil {
		return "", "", &fault{hook.FaultUnavailable, err}
	}
	home, err := os.MkdirTemp("", "inspan-hook-")
	if err != nil {
		return "", "", &fault{hook.FaultUnavailable, fmt.Errorf("create a folder for the program: %w", err)}
	}
	defer func() { _ = os.RemoveAll(home) }() // it is empty or of no use to anybody
	// What is too much ends the program: it may never stop.
	bounded, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, errs := &limited{most: hook.MaxAnswer, full: func() { stop(ErrFlood) }}, &limited{most: hook.MaxMessage}
	exit, err := local.Run(bounded, local.Process{Path: path, Args: append([]string{path}, d.Hook.Command[1:]...),
		Env: local.FixedEnv(home, home),
		Dir: home, Stdin: bytes.NewReader(question), Stdout: out, Stderr: errs, Marker: rand.Text()})
	switch {
	case out.over:
		return "", "", ErrFlood
	case err != nil:
		return "", "", err
	case exit.Code == exitBlock:
		return events.HookBlock, hook.Clip(strings.TrimSpace(errs.String())), nil
	case exit.Code != 0:
		return "", "", fmt.Errorf("the program ended with status %d", exit.Code)
	}
	return hook.Read(out.Bytes())
}

// program finds the program of a hook. An agent file may only name one in the folder that the operator has given.
func (a *Asker) program(d hook.Due) (string, error) {
	name := d.Hook.Command[0]
	if d.Layer == hook.Agent {
		if a.cfg.Dir == "" {
			return "", errors.New("this service does not run programs named by agent files; an operator can enable a folder of programs with INSPAN_HOOKS_DIR")
		}
		if name != filepath.Base(name) || name == "." || name == ".." {
			return "", fmt.Errorf("an agent file names a program of INSPAN_HOOKS_DIR by its name alone, not %q", hook.Clip(name))
		}
		name = filepath.Join(a.cfg.Dir, name)
	}
	if !filepath.IsAbs(name) {
		return "", fmt.Errorf("the program %q is not an absolute path", hook.Clip(name))
	}
	return name, nil
}

// limited keeps the beginning of what is written to it.
type limited struct {
	bytes.Buffer
	most int
	over bool
	full func()
}

func (l *limited) Write(p []byte) (int, error) {
	n := len(p)
	if room := l.most - l.Len(); n > room {
		p = p[:max(0, room)]
		l.over = true
		if l.full != nil {
			l.full()
		}
	}
	_, err := l.Buffer.Write(p)
	return n, err
}
