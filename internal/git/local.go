package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/pattern"
)

// Local is the repository of a person on this machine. It is only read: nothing below its working tree and nothing in
// its git directory is written, and none of its hooks, filters and monitors runs. What the person's git must be asked,
// because it knows how branches are stored and whom the person trusts, is asked with commands that start no program.
// Merge and Take alone change it, in the person's name.
type Local struct {
	g *Git
	// Root is the top of the working tree.
	Root string
	// gitDir is the part of the repository that belongs to this working tree, common what all its working trees share.
	gitDir, common string
	// folder is true for a directory that is in no repository.
	folder bool
}

// ErrBare: a repository without a working tree.
var ErrBare = errors.New("a repository without a working tree")

// Local finds the repository whose working tree holds a directory. ErrNotRepository where there is none, ErrBare where
// it has no working tree, ErrHostile where it belongs to somebody else or its configuration names another working tree.
func (g *Git) Local(ctx context.Context, dir string) (*Local, error) {
	at, err := realDir(dir)
	if err != nil {
		return nil, err
	}
	for root := at; ; root = filepath.Dir(root) {
		if bare(root) {
			return nil, fmt.Errorf("%s: %w (go to a working tree of it, or clone it)", root, ErrBare)
		}
		if _, err := os.Lstat(filepath.Join(root, ".git")); err == nil {
			return g.localAt(ctx, root)
		}
		if filepath.Dir(root) == root {
			return nil, fmt.Errorf("%s: %w (no folder above it has a .git)", at, ErrNotRepository)
		}
	}
}

// bare reports whether a directory looks like a git directory itself.
func bare(dir string) bool {
	for _, name := range []string{"objects", "refs"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return false
		}
	}
	info, err := os.Lstat(filepath.Join(dir, "HEAD"))
	return err == nil && info.Mode().IsRegular()
}

func (g *Git) localAt(ctx context.Context, root string) (*Local, error) {
	l := &Local{g: g, Root: root}
	out, err := l.ask(ctx, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir")
	if e, ok := errors.AsType[*Error](err); ok && strings.Contains(e.Detail, "dubious ownership") {
		return nil, fmt.Errorf("%s belongs to somebody else: %w (git config --global --add safe.directory %s, if you trust it)", root, ErrHostile, root)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", root, ErrNotRepository, err)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != 3 {
		return nil, fmt.Errorf("%s: %w (its path has a line break: move it)", root, ErrName)
	}
	for i := range lines {
		if lines[i], err = filepath.EvalSymlinks(lines[i]); err != nil {
			return nil, err
		}
	}
	if lines[0] != root {
		return nil, fmt.Errorf("%s: its configuration names %s as the working tree: %w (unset core.worktree)", root,
			lines[0], ErrHostile)
	}
	l.gitDir, l.common = lines[1], lines[2]
	return l, nil
}

// Objects is the directory of its objects. whole is true where others cannot use it alone, because it uses objects of
// other repositories itself or its path cannot be written into a list of such directories.
func (l *Local) Objects() (dir string, whole bool) {
	dir = filepath.Join(l.common, "objects")
	_, err := os.Lstat(filepath.Join(dir, "info", "alternates"))
	return dir, err == nil || strings.ContainsAny(dir, "\n\r\"\\:") || strings.HasPrefix(dir, "#")
}

// ask runs the person's git in the person's environment, for what it knows; nothing that it is configured to start is
// started.
func (l *Local) ask(ctx context.Context, args ...string) (string, error) {
	return l.run(ctx, nil, args...)
}

// run is ask with some exit codes that are answers.
func (l *Local) run(ctx context.Context, fine []int, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.g.cfg.Limits.Time)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.g.program, args...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stderr = l.Root, &said
	cmd.Stdout = &capped{to: &out, left: l.g.cfg.Limits.Output, over: cancel, failed: func(error) { cancel() }}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "GIT_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_MERGE_AUTOEDIT=no", "GIT_EDITOR=true", "GIT_PAGER=cat",
		"GIT_CONFIG_COUNT=6", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0=/dev/null",
		"GIT_CONFIG_KEY_1=core.fsmonitor", "GIT_CONFIG_VALUE_1=false",
		"GIT_CONFIG_KEY_2=submodule.recurse", "GIT_CONFIG_VALUE_2=false", "GIT_CONFIG_KEY_3=gc.auto", "GIT_CONFIG_VALUE_3=0",
		"GIT_CONFIG_KEY_4=maintenance.auto", "GIT_CONFIG_VALUE_4=false",
		"GIT_CONFIG_KEY_5=fetch.fsckObjects", "GIT_CONFIG_VALUE_5=true")
	if l.folder {
		cmd.Env = append(cmd.Env, "GIT_DIR="+l.gitDir, "GIT_WORK_TREE="+l.Root)
	}
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("git %s in %s: %w", args[0], l.Root, context.Cause(ctx))
	}
	exit, ended := errors.AsType[*exec.ExitError](err)
	if err == nil || ended && slices.Contains(fine, exit.ExitCode()) {
		return out.String(), nil
	}
	if !ended {
		return "", fmt.Errorf("git %s in %s: %w", args[0], l.Root, err)
	}
	e := &Error{Op: args[0], Exit: exit.ExitCode(), Detail: tidy(said.String())}
	e.Kind, e.Hint = meaning(said.String())
	return out.String(), e
}

// Branch is the branch that is checked out, empty for none, and its commit, empty before the first one.
func (l *Local) Branch(ctx context.Context) (name, id string, err error) {
	ref, err := l.run(ctx, []int{1}, "symbolic-ref", "--quiet", "HEAD")
	if err != nil {
		return "", "", err
	}
	id, err = l.run(ctx, []int{1}, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	name = strings.TrimPrefix(strings.TrimSpace(ref), "refs/heads/")
	return name, strings.TrimSpace(id), err
}

// Underway says what is not finished in the working tree, such as a merge; empty for nothing.
func (l *Local) Underway() string {
	for _, f := range [][2]string{{"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"MERGE_HEAD", "merge"},
		{"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"}} {
		if _, err := os.Lstat(filepath.Join(l.gitDir, f[0])); err == nil {
			return f[1]
		}
	}
	return ""
}

// dataSettings are the settings of a person that say how files are to be read, with the values that are passed on. None
// names a program.
var dataSettings = map[string]pattern.Pattern{
	"core.autocrlf": pattern.New(`^(?i:true|false|input)$`),
	"core.eol":      pattern.New(`^(?i:lf|crlf|native)$`),
	"core.filemode": pattern.New(`^(?i:true|false)$`), "core.ignorecase": pattern.New(`^(?i:true|false)$`),
	"core.symlinks": pattern.New(`^(?i:true|false)$`), "core.excludesfile": pattern.New(`^/[^\n]*$`),
}

// settings are those of the person that say how files are read, as git's environment takes them.
func (l *Local) settings(ctx context.Context) ([]string, error) {
	set := map[string]string{}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		set["core.excludesfile"] = filepath.Join(dir, "git", "ignore")
	} else if home, err := os.UserHomeDir(); err == nil {
		set["core.excludesfile"] = filepath.Join(home, ".config", "git", "ignore")
	}
	for _, ask := range [][]string{
		{"--bool-or-str", "--get-regexp", `^core\.(autocrlf|eol|filemode|ignorecase|symlinks)$`},
		{"--path", "--get-regexp", `^core\.excludesfile$`},
	} {
		out, err := l.run(ctx, []int{1}, append([]string{"config", "--null"}, ask...)...)
		if err != nil {
			return nil, fmt.Errorf("settings of %s: %w", l.Root, err)
		}
		last := map[string]string{} // of a key that is set in many places the last one counts, also where it is no good
		for entry := range strings.SplitSeq(out, "\x00") {
			key, value, _ := strings.Cut(entry, "\n")
			last[key] = value
		}
		for key, value := range last {
			if good, known := dataSettings[key]; known && good.MatchString(value) {
				set[key] = value
			}
		}
	}
	if info, err := os.Stat(set["core.excludesfile"]); err != nil || !info.Mode().IsRegular() {
		delete(set, "core.excludesfile")
	}
	env := []string{fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(set))}
	n := 0
	for key, value := range set {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
		n++
	}
	return env, nil
}

// copyFile copies a regular file with its time of change, which git compares with those of the files that an index
// lists.
func copyFile(from, to string, limit int64) error {
	b, err := readNoFollow(from, limit)
	if err != nil {
		return err
	}
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// maxIndex bounds the index of a person's repository, in bytes.
const maxIndex = 512 << 20

// index copies the index of the working tree into a directory; there is none before the first "git add".
func (l *Local) index(dir string) (there bool, err error) { return copyIndex(l.gitDir, dir) }

// copyIndex copies the index of a git directory into a directory; there is none before the first "git add".
func copyIndex(gitDir, dir string) (there bool, err error) {
	err = copyFile(filepath.Join(gitDir, "index"), filepath.Join(dir, "index"), maxIndex)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	entries, err := os.ReadDir(gitDir)
	for _, e := range entries {
		if err == nil && strings.HasPrefix(e.Name(), "sharedindex.") {
			err = copyFile(filepath.Join(gitDir, e.Name()), filepath.Join(dir, e.Name()), maxIndex)
		}
	}
	return true, err
}
