package sandboxtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
)

// unwanted is a program that every machine has and nothing else here needs.
const unwanted = "cksum"

// ways to run a program that is unwanted, as scripts that say escaped where it ran: its answer to an empty input is
// known. PROGRAM is its path, COPY a copy under another name outside of the workspace.
var rerun = map[string]string{
	"by its name":             `cksum < /dev/null`,
	"by its path":             `"$PROGRAM" < /dev/null`,
	"from a copy":             `cp "$PROGRAM" mine && ./mine < /dev/null`,
	"from what was read":      `cat "$PROGRAM" > mine; chmod +x mine; ./mine < /dev/null`,
	"from an archive":         `tar cf - -C / "${PROGRAM#/}" | tar xf -; ./"${PROGRAM#/}" < /dev/null`,
	"by a link":               `ln -s "$PROGRAM" mine && ./mine < /dev/null`,
	"by a hard link":          `ln "$PROGRAM" mine && ./mine < /dev/null`,
	"by the loader":           `for l in /lib64/ld-linux-*.so* /lib/ld-*.so*; do test -e "$l" && "$l" "$PROGRAM" < /dev/null; done`,
	"by another program":      `env "$PROGRAM" < /dev/null`,
	"by another language":     `perl -e 'open(STDIN, "<", "/dev/null"); exec($ENV{PROGRAM})'`,
	"by a descriptor":         `perl -e 'open(F, "<", $ENV{PROGRAM}) || exit; open(STDIN, "<", "/dev/null"); $^F = 99; exec("/proc/self/fd/" . fileno(F))'`,
	"by a function of a path": `PATH="$(dirname "$PROGRAM")" exec cksum < /dev/null`,
	"from a twin elsewhere":   `"$COPY" < /dev/null`,
	"from a copy of a twin":   `cp "$COPY" mine && ./mine < /dev/null`,
}

// examPrograms denies a program.
func examPrograms(t *testing.T, b sandbox.Backend) {
	if !promises(b, sandbox.IsolationPrograms) {
		cfg := sandbox.Config{ID: "programs", Workspace: t.TempDir(), Network: true, DenyPrograms: []string{unwanted}}
		if sb, err := b.Open(t.Context(), cfg); err == nil {
			t.Error("a program that cannot be denied was denied in silence")
			must(t, sb.Destroy(context.Background()))
		}
		return
	}
	found, err := exec.LookPath(unwanted)
	must(t, err)
	program, err := filepath.EvalSymlinks(found)
	must(t, err)
	if filepath.Base(program) != unwanted {
		untested(t, "denied programs: %s is one of many in %s", unwanted, program)
	}
	shown := t.TempDir()
	content, err := os.ReadFile(program)
	must(t, err)
	must(t, os.WriteFile(shown+"/twin", content, 0o755))
	env := []string{"PROGRAM=" + program, "COPY=" + shown + "/twin"}
	run := func(t *testing.T, b sandbox.Backend, script string, deny ...string) string {
		t.Helper()
		sb, err := b.Open(t.Context(), sandbox.Config{ID: "programs", Workspace: t.TempDir(), Network: true, Env: env, ReadOnly: []string{shown}, DenyPrograms: deny})
		must(t, err)
		defer func() { must(t, sb.Destroy(context.Background())) }()
		var out safe
		_, err = sb.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
		must(t, err)
		return out.String()
	}
	const answer = "4294967295 0"
	for name, script := range rerun {
		t.Run("GUARD-12 "+name, func(t *testing.T) {
			t.Parallel()
			if got := run(t, host.New(""), script); !strings.Contains(got, answer) {
				t.Logf("NOT TESTED: the way leads nowhere without a sandbox too: %q", got)
				return
			}
			if got := run(t, b, script, unwanted); strings.Contains(got, answer) {
				t.Errorf("it ran: %q", got)
			}
		})
	}
	t.Run("GUARD-12 a path and a pattern deny too", func(t *testing.T) {
		t.Parallel()
		for _, deny := range []string{program, "cksu*"} {
			if got := run(t, b, "cksum < /dev/null", deny); strings.Contains(got, answer) {
				t.Errorf("%s: it ran: %q", deny, got)
			}
		}
	})
	t.Run("GUARD-12 everything else is as ever", func(t *testing.T) {
		t.Parallel()
		script := `set -e; ls "$(dirname "$PROGRAM")" | grep -q .; echo b > f; sort f; mkdir d e; mv f d/f; mv d/f e/g; mv e "$HOME/e"; mv "$HOME/e/g" .; ln g h; cat h; perl -e 'print "perl\n"'; cp "$(command -v sort)" mine; ./mine g`
		if got := run(t, b, script, unwanted, "no-such-program"); got != "b\nb\nperl\nb\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("GUARD-12 a tool's own program runs", func(t *testing.T) {
		t.Parallel()
		sb, err := b.Open(t.Context(), sandbox.Config{ID: "programs", Workspace: t.TempDir(), Network: true, DenyPrograms: []string{unwanted}})
		must(t, err)
		defer func() { must(t, sb.Destroy(context.Background())) }()
		var out safe
		_, err = sb.Exec(within(t), sandbox.Cmd{Args: []string{unwanted}, AnyProgram: true, Stdout: &out})
		if err != nil || !strings.Contains(out.String(), answer) {
			t.Errorf("got %q, %v", out.String(), err)
		}
	})
	t.Run("GUARD-12 what is no name is refused", func(t *testing.T) {
		t.Parallel()
		for _, deny := range []string{"a/b", "", "["} {
			if sb, err := b.Open(t.Context(), sandbox.Config{ID: "programs", Workspace: t.TempDir(), Network: true, DenyPrograms: []string{deny}}); err == nil {
				t.Errorf("%q: no error", deny)
				must(t, sb.Destroy(context.Background()))
			}
		}
	})
}
