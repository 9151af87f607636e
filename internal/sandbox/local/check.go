package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
)

// Check refuses a Config that asks for what a backend with these capabilities does not enforce, for a path that does
// not exist, or for a workspace in one of the directories that the sandbox has of its own.
func Check(mode sandbox.Mode, cfg sandbox.Config, has []sandbox.Capability, own ...string) error {
	if cfg.Network && cfg.Egress != nil {
		return fmt.Errorf("%w: egress needs a closed network", fs.ErrInvalid)
	}
	if err := sandbox.Require(mode, cfg, has); err != nil {
		return err
	}
	for _, path := range slices.Concat(cfg.ReadOnly, cfg.Writable) {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("path to show inside: %w", err)
		}
	}
	for _, dir := range own {
		if at := filepath.Clean(cfg.Workspace); at == dir || strings.HasPrefix(at, dir+"/") {
			return fmt.Errorf("workspace %s: %w: %s belongs to the sandbox", at, fs.ErrInvalid, dir)
		}
	}
	return nil
}

// Unavailable makes an error a sandbox.ErrUnavailable, if it is none.
func Unavailable(err error) error {
	if errors.Is(err, sandbox.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
}

// Opener is Open of a backend.
type Opener func(context.Context, sandbox.Config) (sandbox.Sandbox, error)

// Trial is a command that ran in a sandbox of its own, to see whether a backend works.
type Trial struct {
	// Opened is false where there was no sandbox to run it in.
	Opened      bool
	Exit        sandbox.Exit
	Output, Err string
}

// Try opens a sandbox on an empty directory below base, runs a command in it and destroys it. An error of a Trial that
// is not Opened is sandbox.ErrUnavailable.
func Try(ctx context.Context, base string, cfg sandbox.Config, open Opener, args ...string) (Trial, error) {
	dir, err := os.MkdirTemp(base, "inspan-probe-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return Trial{}, fmt.Errorf("%w: probe: %w", sandbox.ErrUnavailable, err)
	}
	cfg.ID, cfg.Workspace = "probe", dir
	sb, err := open(ctx, cfg)
	if err != nil {
		return Trial{}, Unavailable(err)
	}
	var out, errs bytes.Buffer
	exit, err := sb.Exec(ctx, sandbox.Cmd{Args: args, Stdout: &out, Stderr: &errs})
	err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	return Trial{Opened: true, Exit: exit, Output: out.String(), Err: errs.String()}, err
}

// Head keeps the first Most bytes that are written to it, and passes all on. It is safe for concurrent use.
type Head struct {
	Most int
	To   io.Writer // may be nil

	mu   sync.Mutex
	tail []byte // guarded by mu
}

// Write implements io.Writer.
func (h *Head) Write(p []byte) (int, error) {
	h.mu.Lock()
	h.tail = append(h.tail, p[:min(len(p), h.Most-len(h.tail))]...)
	h.mu.Unlock()
	if h.To == nil {
		return len(p), nil
	}
	return h.To.Write(p)
}

// Text returns what was kept.
func (h *Head) Text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.tail)
}

// Clip bounds a text of others that is shown.
func Clip(text string, most int) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "?")
	if len(text) > most {
		text = text[:most] + " ..."
	}
	return text
}
