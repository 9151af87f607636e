package git_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/git"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	url, _ := bare(t)
	g := newGit(t, func(c *git.Config) { c.Protocols = []string{"https", "ssh", "http", "git"} })
	ws := filepath.Join(t.TempDir(), "ws")
	for address, want := range map[string]error{
		"--upload-pack=touch " + mark:           git.ErrName,
		"-u" + mark:                             git.ErrName,
		"ext::sh -c 'touch " + mark + "'":       git.ErrName,
		"ext::touch " + mark:                    git.ErrName,
		"fd::17":                                git.ErrName,
		"ssh://-oProxyCommand=touch%20x/y":      git.ErrName,
		"-oProxyCommand=touch:x":                git.ErrName,
		"a@-oProxyCommand=touch:x":              git.ErrName,
		"ssh://-x@host/y":                       git.ErrName,
		"ssh://host/-y":                         git.ErrName,
		"host:-y":                               git.ErrName,
		"https://user:canary@example.com/x":     git.ErrName,
		"https://canary@example.com/x":          git.ErrName,
		"https://example.com/x?canary=1":        git.ErrName,
		"https://example.com/\"x\n[core]":       git.ErrName,
		"https://exa mple.com/":                 git.ErrName,
		"https:///x":                            git.ErrName,
		"":                                      git.ErrName,
		"../other":                              git.ErrName,
		url:                                     git.ErrProtocol,
		"/etc":                                  git.ErrProtocol,
		"ftp://example.com/x":                   git.ErrProtocol,
		"https://example.com/" + long(3000):     git.ErrName,
		"http://[::1%25eth0]/x":                 git.ErrName,
		"http://example.com:80:80/x":            git.ErrName,
		"ssh://host/$(touch " + mark + ")":      git.ErrName,
		"host:`touch " + mark + "`":             git.ErrName,
		"ext://sh -c touch":                     git.ErrName,
		"transport::https://example.com/x":      git.ErrProtocol,
		"file://localhost/etc":                  git.ErrName,
		"https://example.com/x#" + "canary":     git.ErrName,
		"https://example.com\\@evil.example/x/": git.ErrName,
	} {
		_, err := g.Clone(t.Context(), git.Source{URL: address}, ws)
		if !errors.Is(err, want) && !(err != nil && errors.Is(want, git.ErrProtocol) && errors.Is(err, git.ErrName)) {
			t.Errorf("%q: got %v, want %v", address, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: the error repeats what may be a secret: %v", address, err)
		}
	}
	absent(t, mark)
	absent(t, ws)
}

func long(n int) string { return strings.Repeat("x", n) }

func TestNames(t *testing.T) {
	t.Parallel()
	url, _ := bare(t)
	g := newGit(t)
	r := clone(t, g, url)
	for _, name := range []string{"", "-", "-u", "--upload-pack=x", "--all", "a..b", "HEAD", "head", "FETCH_HEAD", "@", "a@{1}", "a b", "a:b", "a~1", "a^", "a^{/x}", "a?", "a*", "[a", "a\\b", "x.lock", "x.LOCK/y",
		"/a", "a/", "a//b", ".a", "a/.b", "a.", "a/-b", "a\nb", "a\x00b", "a\x7f", "\xff", "a\u202eb", "'a'", `"a"`, long(201), ":/x", "+a:b"} {
		for what, err := range map[string]error{
			"CheckName":    git.CheckName(name),
			"CreateBranch": r.CreateBranch(t.Context(), name, "main"),
			"Fetch":        second(r.Fetch(t.Context(), git.Source{URL: url, Ref: "x/" + name})),
			"Push":         second(r.Push(t.Context(), git.Push{URL: url, Branch: name, To: "x"})),
			"AddWorktree":  second(r.AddWorktree(t.Context(), filepath.Join(t.TempDir(), "w"), name, "main")),
		} {
			if what == "Fetch" && !errors.Is(err, git.ErrName) && errors.Is(err, git.ErrNotFound) {
				continue // with something before it, it is a name
			}
			if !errors.Is(err, git.ErrName) {
				t.Errorf("%s(%q): %v", what, name, err)
			}
		}
		if name != "HEAD" {
			if err := r.Checkout(t.Context(), name); !errors.Is(err, git.ErrName) {
				t.Errorf("Checkout(%q): %v", name, err)
			}
		}
	}
	t.Run("GIT-14 every agent and task has a safe branch", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			agent, task := rapid.String().Draw(rt, "agent"), rapid.String().Draw(rt, "task")
			name := git.BranchName(agent, task)
			if err := git.CheckName(name); err != nil || !strings.HasPrefix(name, "agent/") || strings.Count(name, "/") != 2 {
				rt.Fatalf("%q: %v", name, err)
			}
			if again := git.BranchName(agent, task); again != name {
				rt.Fatalf("got %q and %q", name, again)
			}
			if twice := git.BranchName(name[len("agent/"):strings.LastIndex(name, "/")], name[strings.LastIndex(name, "/")+1:]); twice != name {
				rt.Fatalf("%q is not its own: %q", name, twice)
			}
		})
	})
	t.Run("SAFE-12 every name that is accepted is one for git", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a.@{}/~:\-]{1,12}`), rapid.StringMatching(`[a-z./]{1,9}(\.lock)?`)).Draw(rt, "name")
			if git.CheckName(name) != nil {
				return
			}
			if out, err := exec.Command("git", "check-ref-format", "refs/heads/"+name).CombinedOutput(); err != nil {
				rt.Fatalf("%q: %v %s", name, err, out)
			}
		})
	})
}

func second[T any](_ T, err error) error { return err }

// TestSurroundings cannot run beside others: it sets the environment of this process.
func TestSurroundings(t *testing.T) {
	url, _ := bare(t)
	home := t.TempDir()
	mark := filepath.Join(t.TempDir(), "mark")
	program := filepath.Join(home, "program")
	put(t, program, "#!/bin/sh\ntouch "+mark+"\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(home, ".gitconfig"), "[core]\n fsmonitor = "+program+"\n hooksPath = "+home+"\n[filter \"x\"]\n clean = "+program+"\n")
	put(t, filepath.Join(home, "git/attributes"), "* filter=x\n")
	for k, v := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": home, "GIT_CONFIG_GLOBAL": filepath.Join(home, ".gitconfig"), "GIT_CONFIG_SYSTEM": filepath.Join(home, ".gitconfig"),
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": program, "GIT_DIR": home, "GIT_WORK_TREE": home, "GIT_INDEX_FILE": filepath.Join(home, "i"),
		"GIT_SSH_COMMAND": program, "GIT_ASKPASS": program, "GIT_EXTERNAL_DIFF": program, "GIT_PROXY_COMMAND": program, "GIT_TRACE": filepath.Join(home, "trace"), "GIT_EXEC_PATH": home,
		"GIT_TEMPLATE_DIR": home, "GIT_OBJECT_DIRECTORY": home, "LD_PRELOAD_OF_TEST": program} {
		t.Setenv(k, v)
	}
	t.Run("no setting of the machine, the user or the service is used", func(t *testing.T) {
		g := newGit(t)
		ws := filepath.Join(t.TempDir(), "ws")
		if n := exercise(t, g, func() string {
			clone := must[*git.Repo](t)(g.Clone(t.Context(), git.Source{URL: url}, ws))
			return clone.Dir()
		}(), url); n < 12 {
			t.Errorf("only %d of the operations worked", n)
		}
		absent(t, mark)
		absent(t, filepath.Join(home, "trace"))
		absent(t, filepath.Join(home, "i"))
	})
}
