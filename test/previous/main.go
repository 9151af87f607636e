// Command previous lets an earlier program read the logs of this one.
//
// Promises: for each frozen history it says what the program of another commit makes of it: folded whole, or held at
// the first event that it does not know, with its own words. Anything else, such as a log that it folds in part without
// a word, is a failure and exit code 1. The work tree stays as it is.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed foldlog.go.txt
var foldlog []byte

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "previous: want a commit or tag: make previous PREV=v0.1.0")
		os.Exit(2)
	}
	bad, err := previous(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "previous:", err)
		os.Exit(2)
	}
	if bad > 0 {
		fmt.Fprintf(os.Stderr, "previous: %d logs are guessed at\n", bad)
		os.Exit(1)
	}
}

// previous builds the program of a commit in a work tree of its own and gives it the histories.
func previous(commit string) (bad int, err error) {
	dir, err := os.MkdirTemp("", "inspan-previous-*")
	if err != nil {
		return 0, err
	}
	tree := filepath.Join(dir, "tree")
	if err := command("", "git", "worktree", "add", "--detach", tree, commit); err != nil {
		return 0, errors.Join(err, os.RemoveAll(dir))
	}
	defer func() {
		err = errors.Join(err, command("", "git", "worktree", "remove", "--force", tree), os.RemoveAll(dir))
	}()
	program := filepath.Join(tree, "cmd", "foldlog")
	if err := os.MkdirAll(program, 0o755); err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(program, "main.go"), foldlog, 0o644); err != nil {
		return 0, err
	}
	binary := filepath.Join(dir, "foldlog")
	if err := command(tree, "go", "build", "-o", binary, "./cmd/foldlog"); err != nil {
		return 0, err
	}
	logs, err := filepath.Glob(filepath.Join("test", "histories", "v*", "*.jsonl"))
	if err != nil || len(logs) == 0 {
		return 0, fmt.Errorf("%d histories, %w: run it in the root of the repository", len(logs), err)
	}
	for _, log := range logs {
		said, ok := judge(binary, log)
		if !ok {
			bad++
			said = "NOT CLEAR: " + said
		}
		fmt.Printf("%-40s %s\n", strings.TrimPrefix(log, "test/histories/"), said)
	}
	return bad, nil
}

// judge reports what the program said of a log, and whether that is clear: folded whole, or held for what is unknown.
func judge(binary, log string) (said string, clear bool) {
	b, err := os.ReadFile(log)
	if err != nil {
		return err.Error(), false
	}
	out, err := exec.Command(binary, log).Output()
	said = string(out)
	if err == nil {
		return said, strings.HasPrefix(said, fmt.Sprintf("folded %d ", bytes.Count(b, []byte("\n"))))
	}
	stopped, ok := errors.AsType[*exec.ExitError](err)
	return said, ok && stopped.ExitCode() == 1 && strings.HasPrefix(said, "held after ") && strings.Contains(said,
		"unknown event type")
}

func command(dir, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
