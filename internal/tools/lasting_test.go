package tools_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
)

// lasting is a sandbox that the next call finds again.
type lasting struct{ sandbox.Sandbox }

func (lasting) Lasts() bool { return true }

func TestLasting(t *testing.T) {
	t.Parallel()
	t.Run("SBX-19 what a shell exports is there for the next one, however it ends, and its folder as before", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.env.Sandbox = lasting{b.env.Sandbox}
		for _, c := range []struct{ text, want string }{
			{`export GREETING=$'two\nlines "quoted" $HOME' HOME=/nowhere; LOCAL=1; mkdir d; cd d; pwd | grep -o '/d$'`, "/d\n"},
			{`printf '%s|%s|%s' "$GREETING" "$LOCAL" "$HOME"; pwd | grep -o '/d$'`, "two\nlines \"quoted\" $HOME||/nowhere/d\n"},
			{`export GREETING=new; set -eu; false`, "[exit status 1]"},
			{`echo $GREETING; set -C; export PATH=/bin:/usr/bin GREETING=newer; exit 3`, "new\n[exit status 3]"},
			{`echo $GREETING $PATH; unset GREETING`, "newer /bin:/usr/bin\n"},
			{`echo "${GREETING-gone} $-$#" | tr -d u`, "gone hBc0\n"},
		} {
			if r := b.shell(c.text); r.Output != c.want {
				t.Errorf("%s: got %q, want %q", c.text, r.Output, c.want)
			}
		}
	})
	t.Run("SBX-17 SBX-19 what marks the processes of one command is never that of another", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.env.Sandbox = lasting{b.env.Sandbox}
		first, second := b.shell(`echo $INSPAN_SANDBOX_ID`).Output, b.shell(`echo $INSPAN_SANDBOX_ID; bash -c 'echo $INSPAN_SANDBOX_ID'`).Output
		one, two, _ := strings.Cut(strings.TrimSpace(second), "\n")
		if strings.TrimSpace(first) == one || one != two || one == "" {
			t.Errorf("got %q and then %q", first, second)
		}
	})
	t.Run("SAFE-11 SBX-19 what the shell was given is not written down, only what it exported", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		backend, err := backends.Local("").Pick(t.Context(), sandbox.Host)
		if err != nil {
			t.Fatal(err)
		}
		sb, err := backend.Open(t.Context(), sandbox.Config{ID: "s", Workspace: b.dir, Network: true, Env: []string{"TOKEN=sk-canary-1", "MODE=given"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sb.Destroy(context.Background()) })
		b.env.Sandbox = lasting{sb}
		b.shell(`export MODE=changed MINE=1; true`)
		if r := b.shell(`cat $HOME/.inspan-exported; echo $TOKEN $MODE`); r.Output != "declare -x MINE=\"1\"\ndeclare -x MODE=\"changed\"\nsk-canary-1 changed\n" {
			t.Errorf("got %q", r.Output)
		}
		if r := b.shell(`cat $HOME/.inspan-exported`); r.Output != "declare -x MINE=\"1\"\ndeclare -x MODE=\"changed\"\n" {
			t.Errorf("after a call that exports nothing: got %q", r.Output)
		}
	})
	t.Run("SBX-19 in a sandbox of one call nothing is written down", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		if r := b.shell(`export A=1; ls -A $HOME`); r.Output != "[exit status 0]" {
			t.Errorf("got %q", r.Output)
		}
		if r := b.shell(`echo ${A-none}; ls -A $HOME`); r.Output != "none\n" {
			t.Errorf("got %q", r.Output)
		}
	})
	t.Run("SBX-19 a file that is no text of exports does not end the shell", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("bash"); err != nil {
			t.Fatal(err)
		}
		b := newBench(t)
		b.env.Sandbox = lasting{b.env.Sandbox}
		home := strings.TrimSpace(b.shell(`echo $HOME`).Output)
		if err := os.WriteFile(home+"/.inspan-exported", []byte("declare -x A=\"1\ndeclare ((("), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := b.shell(`echo on`); r.Output != "on\n" {
			t.Errorf("got %q", r.Output)
		}
	})
}
