package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	gitprogram "github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/pkg/events"
)

// testWait bounds the tests of the commit; the first ones of a machine compile the standard library.
const testWait = 5 * time.Minute

// verify looks at the repository itself: the fix is committed on the branch, nothing is left over, and the tests, as
// the demo brought them, pass on exactly that commit, in a clone and a sandbox of their own. It says what it found.
func verify(ctx context.Context, o Options, repo, base string) (string, error) {
	program, err := gitprogram.New(gitprogram.Config{Ignore: gitwork.Own()})
	if err != nil {
		return "", fmt.Errorf("%w: git cannot look: %w", ErrNotVerified, err)
	}
	r, err := program.Open(ctx, repo)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotVerified, err)
	}
	status, err := r.Status(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotVerified, err)
	}
	if status.Head, err = r.Head(ctx); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotVerified, err)
	}
	if err := committed(ctx, r, status, base); err != nil {
		return "", err
	}
	commit := short(status.Head.ID)
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Sprintf("Verified: commit %s is on %s and the working tree is clean.\nNot verified: its tests, because Go is not installed here. Install Go and run the demo again.",
			commit, branch), nil
	}
	if err := tested(ctx, o, program, r, status.Head.ID); err != nil {
		return "", err
	}
	return fmt.Sprintf("Verified: commit %s is on %s, the working tree is clean, and the tests pass on exactly that commit.", commit, branch), nil
}

// committed refuses a repository without the fix on its branch.
func committed(ctx context.Context, r *gitprogram.Repo, s gitprogram.Status, base string) error {
	if s.Head.Branch != branch {
		return fmt.Errorf("%w: branch %q is checked out, want %s", ErrNotVerified, s.Head.Branch, branch)
	}
	if s.Head.ID == base {
		return fmt.Errorf("%w: there is no commit on %s after %s, with which the demo began", ErrNotVerified, branch,
			short(base))
	}
	follows, err := r.IsAncestor(ctx, base, s.Head.ID)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotVerified, err)
	}
	if !follows {
		return fmt.Errorf("%w: commit %s does not follow %s, with which the demo began", ErrNotVerified, short(s.Head.ID),
			short(base))
	}
	if !s.Clean() {
		var left []string
		for _, c := range s.Changes {
			left = append(left, c.Path)
		}
		return fmt.Errorf("%w: the working tree has changes that are not committed: %s", ErrNotVerified,
			strings.Join(left, ", "))
	}
	return nil
}

// tested runs the module's tests on a commit.
func tested(ctx context.Context, o Options, program *gitprogram.Git, r *gitprogram.Repo, commit string) error {
	ctx, cancel := context.WithTimeout(ctx, testWait)
	defer cancel()
	cfg := o.Base
	cfg.Workspace, cfg.Sandbox = filepath.Join(o.Store, "verify"), o.Sandbox
	cfg.SandboxReaches = true // the demo's station does not listen, and its run has ended
	tree := filepath.Join(cfg.Workspace, session)
	if err := checkOut(ctx, program, r, commit, tree); err != nil {
		return fmt.Errorf("%w: check out %s: %w", ErrNotVerified, short(commit), err)
	}
	if err := ownTests(o.Examples, tree); err != nil {
		return err
	}
	sandboxes, _, err := all.Sandboxes(ctx, cfg)
	if err != nil {
		return err
	}
	sb, err := sandboxes.OpenAs(ctx, "verify", session, events.Sandbox{})
	if err != nil {
		return fmt.Errorf("%w: sandbox of the tests: %w", ErrNotVerified, err)
	}
	defer func() { _ = sb.Destroy(context.WithoutCancel(ctx)) }() // its folder goes with the demo's
	var said bytes.Buffer
	exit, err := sb.Exec(ctx, sandbox.Cmd{Args: []string{"go", "test", "-count=1", "./..."}, Stdout: &said, Stderr: &said,
		Env: []string{"GOTOOLCHAIN=local", "GOPROXY=off", "GOFLAGS=", "GOWORK=off"}})
	if err != nil {
		return fmt.Errorf("%w: the tests of %s could not be run: %w", ErrNotVerified, short(commit), err)
	}
	if exit.Code != 0 {
		return fmt.Errorf("%w: the tests fail on commit %s:\n%s", ErrNotVerified, short(commit),
			strings.TrimSpace(said.String()))
	}
	return nil
}

// checkOut makes a clone of the repository at a commit of the branch, with a history of its own.
func checkOut(ctx context.Context, program *gitprogram.Git, from *gitprogram.Repo, commit, dir string) error {
	var history bytes.Buffer
	ref, err := from.Share(ctx, &history, branch, false)
	if err != nil {
		return err
	}
	if ref.ID != commit {
		return fmt.Errorf("the branch moved to %s meanwhile", short(ref.ID))
	}
	clone, err := program.Init(ctx, dir, branch)
	if err != nil {
		return err
	}
	return errors.Join(clone.Take(ctx, &history, ref), clone.Checkout(ctx, commit))
}

// ownTests puts the test files as they were at first: an agent that weakened them has not repaired the module.
func ownTests(from fs.FS, dir string) error {
	tests, err := fs.Glob(from, path.Join(moduleDir, "*_test.go"))
	if err != nil || len(tests) == 0 {
		return fmt.Errorf("the examples have no tests in %s: %w", moduleDir, err)
	}
	for _, name := range tests {
		text, err := fs.ReadFile(from, name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, path.Base(name)), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("tests of the module: %w", err)
		}
	}
	return nil
}

// short is an id as people read it.
func short(id string) string { return id[:min(len(id), 10)] }
