package tools_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/tool"
)

// git runs git as the repository's owner did, outside of every tool.
func (b *bench) git(argv ...string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "git", argv...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=a@b",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v\n%s", argv, err, out)
	}
	return string(out)
}

// repository is a bench with two commits, one staged and one unstaged change and a new file.
func repository(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.git("init", "-q", "-b", "main")
	b.put("a.txt", "one\n")
	b.put("sub/b.txt", "b\n")
	b.git("add", ".")
	b.git("commit", "-q", "-m", "first")
	b.put("a.txt", "two\n")
	b.git("commit", "-q", "-a", "-m", "second")
	b.put("sub/b.txt", "staged\n")
	b.git("add", ".")
	b.put("a.txt", "three\n")
	b.put("new.txt", "n\n")
	return b
}

func TestGit(t *testing.T) {
	t.Parallel()
	b := repository(t)
	t.Run("TOOL-11a git_status shows branch and changes, and writes nothing", func(t *testing.T) {
		index := filepath.Join(b.dir, ".git", "index")
		before, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.good("git_status", args{}); got != "## main\n M a.txt\nM  sub/b.txt\n?? new.txt\n" {
			t.Errorf("got %q", got)
		}
		if after, err := os.ReadFile(index); err != nil || string(after) != string(before) {
			t.Errorf("the index changed: %v", err)
		}
	})
	t.Run("TOOL-11b git_diff shows the files, the stage, a range, a path", func(t *testing.T) {
		got := b.good("git_diff", args{})
		contains(t, got, "-two\n+three\n")
		lacks(t, got, "staged")
		got = b.good("git_diff", args{"staged": true})
		contains(t, got, "-b\n+staged\n")
		lacks(t, got, "three")
		contains(t, b.good("git_diff", args{"rev": "HEAD~1..HEAD"}), "-one\n+two\n")
		lacks(t, b.good("git_diff", args{"rev": "HEAD", "path": "sub"}), "a.txt")
		if got := b.good("git_diff", args{"path": "new.txt"}); got != "(nothing)" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("TOOL-11c git_log shows the last commits", func(t *testing.T) {
		got := b.good("git_log", args{})
		contains(t, got, "Ann: second\n", "Ann: first\n")
		if got := b.good("git_log", args{"limit": 1}); strings.Count(got, "\n") != 1 || !strings.Contains(got, "second") {
			t.Errorf("got %q", got)
		}
		lacks(t, b.good("git_log", args{"path": "sub"}), "second")
		lacks(t, b.good("git_log", args{"rev": "HEAD~1"}), "second")
	})
	t.Run("SAFE-12 a revision or path is never an option", func(t *testing.T) {
		out := filepath.Join(b.dir, "out.txt")
		for _, name := range []string{"git_diff", "git_log"} {
			b.bad(name, args{"rev": "--output=out.txt"}, "cannot begin with -")
			b.bad(name, args{"rev": "no-such"}, "no-such")
			b.good(name, args{"path": "--output=out.txt"})
			b.good(name, args{"path": "*"})
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Error("out.txt was written")
		}
	})
	t.Run("WS-12 a path outside is refused", func(t *testing.T) {
		b.bad("git_diff", args{"path": "../x"}, "outside repository")
		b.bad("git_log", args{"path": "/etc/passwd"}, "outside repository")
	})
	t.Run("TOOL-11 no repository is a failed result", func(t *testing.T) {
		none := newBench(t)
		for _, name := range []string{"git_status", "git_log"} {
			none.bad(name, args{}, "not a git repository")
		}
	})
	t.Run("TOOL-11 a repository of another owner is read all the same", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skipf("only root can give a repository to another owner; the container test run is root")
		}
		other := repository(t)
		if err := os.Chown(filepath.Join(other.dir, ".git"), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(other.dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		contains(t, other.good("git_status", args{}), "## main")
	})
}

// TestHostileRepository proves that looking at a repository starts none of the programs its configuration names.
func TestHostileRepository(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(b *bench, cmd string){
		"core.pager":     func(b *bench, cmd string) { b.git("config", "core.pager", cmd); b.git("config", "pager.log", cmd) },
		"diff.external":  func(b *bench, cmd string) { b.git("config", "diff.external", cmd) },
		"core.fsmonitor": func(b *bench, cmd string) { b.git("config", "core.fsmonitor", cmd) },
		"core.hooksPath": func(b *bench, cmd string) {
			b.put("hooks/post-index-change", "#!/bin/sh\n"+cmd+"\n")
			if err := os.Chmod(filepath.Join(b.dir, "hooks/post-index-change"), 0o755); err != nil {
				b.t.Fatal(err)
			}
			b.git("config", "core.hooksPath", filepath.Join(b.dir, "hooks"))
		},
		"diff driver": func(b *bench, cmd string) {
			b.put(".gitattributes", "* diff=evil\n")
			b.git("config", "diff.evil.command", cmd)
			b.git("config", "diff.evil.textconv", cmd)
		},
		"filter": func(b *bench, cmd string) {
			b.put(".gitattributes", "* filter=evil\n")
			b.git("config", "filter.evil.clean", cmd+"; cat")
			b.git("config", "filter.evil.smudge", cmd+"; cat")
		},
		"filter process": func(b *bench, cmd string) {
			b.put(".git/info/attributes", "* filter=e=v.il\n")
			b.put(".git/more", "[filter \"e=v.il\"]\n\tprocess = \""+cmd+"\"\n\trequired = true\n")
			b.git("config", "include.path", "more")
		},
		"signature": func(b *bench, cmd string) {
			b.git("config", "log.showSignature", "true")
			b.git("config", "gpg.program", cmd)
		},
		"promised object": func(b *bench, cmd string) {
			b.git("config", "extensions.partialClone", "origin")
			b.git("config", "core.repositoryFormatVersion", "1")
			b.git("config", "remote.origin.url", "ext::sh -c "+strings.ReplaceAll(cmd, " ", "% "))
			b.git("config", "remote.origin.promisor", "true")
			b.git("config", "protocol.ext.allow", "always")
			id := strings.TrimSpace(b.git("rev-parse", "HEAD:a.txt"))
			if err := os.Remove(filepath.Join(b.dir, ".git/objects", id[:2], id[2:])); err != nil {
				b.t.Fatal(err)
			}
		},
	} {
		t.Run("SAFE-12 GUARD-12 "+name+" does not run", func(t *testing.T) {
			t.Parallel()
			b := repository(t)
			ran := filepath.Join(b.dir, "ran")
			setup(b, "touch "+ran)
			// A new time of change makes git look into the file.
			b.put("a.txt", "four!\n")
			for tl, a := range map[string]args{"git_status": {}, "git_diff": {"rev": "HEAD"}, "git_log": {}} {
				if _, err := b.try(t.Context(), tl, a); err != nil && tool.ClassOf(err) != tool.Permanent {
					t.Errorf("%s: %v", tl, err)
				}
				if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s ran the program", tl)
				}
			}
		})
	}
	t.Run("SAFE-12 the same configuration runs without the tools' care", func(t *testing.T) {
		t.Parallel()
		b := repository(t)
		ran := filepath.Join(b.dir, "ran")
		b.git("config", "diff.external", "touch "+ran)
		b.git("diff")
		if _, err := os.Stat(ran); err != nil {
			t.Errorf("this test proves nothing: %v", err)
		}
	})
}
