package demo

import (
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"

	gitprogram "github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// testsCheck is the name of the check that runs the tests of the module, and testWait bounds it: the first tests of a
// machine compile the standard library.
const (
	testsCheck = "the tests of the module"
	testWait   = "5m"
)

// testName finds the tests of a file.
var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// accept is what decides that the work is done: the fix is committed and nothing is left over; and where Go is
// installed the tests pass, as they were when the run began, each of them.
func accept(from fs.FS) (*events.Accept, error) {
	a := &events.Accept{Protect: []string{"**/*_test.go", "go.mod"}, Checks: []events.Check{
		{Kind: events.CheckGit, Require: []string{events.RequireCommit, events.RequireClean}}}}
	files, err := fs.Glob(from, path.Join(moduleDir, "*_test.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("the examples have no tests in %s: %w", moduleDir, err)
	}
	if !withGo() {
		return a, nil
	}
	tests := events.Check{Kind: events.CheckCommand, Name: testsCheck, Timeout: testWait,
		Run: "GOTOOLCHAIN=local GOPROXY=off GOFLAGS= GOWORK=off go test -count=1 -v ./..."}
	for _, name := range files {
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, fmt.Errorf("tests of the module: %w", err)
		}
		for _, m := range testName.FindAllSubmatch(text, events.MaxExpect) {
			tests.Expect = append(tests.Expect, "--- PASS: "+string(m[1]))
		}
	}
	tests.Expect = tests.Expect[:min(len(tests.Expect), events.MaxExpect)]
	a.Checks = append(a.Checks, tests)
	return a, nil
}

// withGo reports whether Go is installed.
func withGo() bool {
	_, err := exec.LookPath("go")
	return err == nil
}

// verify looks at the repository itself: the commit that the run delivered is on the branch, it is the one that the
// checks passed on, and nothing is left over. It says what it found.
func verify(ctx context.Context, s run.State, repo string) (string, error) {
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
	var left []string
	for _, c := range status.Changes {
		left = append(left, c.Path)
	}
	commit, d := short(status.Head.ID), s.Result.Delivery
	switch {
	case status.Head.Branch != branch:
		return "", fmt.Errorf("%w: branch %q is checked out, want %s", ErrNotVerified, status.Head.Branch, branch)
	case d == nil || d.Commit != status.Head.ID:
		return "", fmt.Errorf("%w: commit %s is on %s, and it is not the one that the run delivered", ErrNotVerified, commit,
			branch)
	case !status.Clean():
		return "", fmt.Errorf("%w: the working tree has changes that are not committed: %s", ErrNotVerified,
			strings.Join(left, ", "))
	}
	tested := slices.ContainsFunc(s.Result.Verified, func(v events.Verified) bool {
		return v.Name == testsCheck && v.GitTree == d.Tree
	})
	switch {
	case tested:
		return fmt.Sprintf("Verified: commit %s is on %s, the working tree is clean, and the tests pass on exactly that commit.",
			commit, branch), nil
	case withGo():
		return "", fmt.Errorf("%w: no check has run the tests on commit %s", ErrNotVerified, commit)
	}
	return fmt.Sprintf("Verified: commit %s is on %s and the working tree is clean.\n"+
		"Not verified: its tests, because Go is not installed here. Install Go and run the demo again.", commit, branch), nil
}

// short is an id as people read it.
func short(id string) string { return id[:min(len(id), 10)] }
