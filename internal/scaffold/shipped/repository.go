package shipped

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Commit is one of the history of a repository.
type Commit struct {
	Subject string
	Files   []File
}

// File is a file with its whole text.
type File struct{ Path, Text string }

// history reads a repository in the format txtar: "-- path --" begins a file, and "-- commit: subject --" a commit.
func history(text string) []Commit {
	var all []Commit
	var body *string
	for line := range strings.Lines(text) {
		head, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- ")
		if head, closed := strings.CutSuffix(head, " --"); ok && closed {
			if subject, is := strings.CutPrefix(head, "commit: "); is || len(all) == 0 {
				all, body = append(all, Commit{Subject: strings.TrimSpace(subject)}), nil
				if is {
					continue
				}
			}
			last := &all[len(all)-1]
			last.Files = append(last.Files, File{Path: head})
			body = &last.Files[len(last.Files)-1].Text
			continue
		}
		if body != nil {
			*body += line
		}
	}
	return all
}

// Make makes the repository of the trial in an empty folder.
func (t Trial) Make(ctx context.Context, dir string) error {
	if _, err := exec.LookPath("git"); err != nil {
		return fmt.Errorf("a trial works in a git repository: install git: %w", err)
	}
	if err := git(ctx, dir, "init", "-q", "-b", "main"); err != nil {
		return err
	}
	for _, c := range t.Commits {
		for _, f := range c.Files {
			at := filepath.Join(dir, filepath.FromSlash(f.Path))
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return fmt.Errorf("repository of the trial: %w", err)
			}
			if err := os.WriteFile(at, []byte(f.Text), 0o644); err != nil {
				return fmt.Errorf("repository of the trial: %w", err)
			}
		}
		if err := git(ctx, dir, "add", "-A"); err != nil {
			return err
		}
		if err := git(ctx, dir, "commit", "-q", "-m", c.Subject); err != nil {
			return err
		}
	}
	return nil
}

func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "commit.gpgsign=false", "-c",
		"user.name=Inspan trial", "-c", "user.email=trial@inspan.dev"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Seeded shows that the check of the trial finds the defect in a repository that Make has made. It returns the name of
// the check and what it said, and an error where the check passes.
func (t Trial) Seeded(ctx context.Context, dir string) (check, why string, err error) {
	for _, c := range t.Accept.Checks {
		if c.Kind != events.CheckCommand {
			continue
		}
		cmd := exec.CommandContext(ctx, "sh", "-c", c.Run)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			return c.Name, "", fmt.Errorf("check %q: %w", c.Name, err)
		}
		if err == nil {
			return c.Name, "", fmt.Errorf("check %q passes before anything was done: %s", c.Name, out)
		}
		return c.Name, strings.TrimSpace(string(out)), nil
	}
	return "", "", errors.New("the trial has no command that decides")
}
