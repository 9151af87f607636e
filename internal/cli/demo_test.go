package cli_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// process runs this program in a process and a folder of its own, without a terminal and without input.
func process(t *testing.T, dir string, env []string, args ...string) said {
	t.Helper()
	return processWith(t, dir, env, nil, args...)
}

// processWith is process with an input.
func processWith(t *testing.T, dir string, env []string, in io.Reader, args ...string) said {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ended := filepath.Join(t.TempDir(), "exit")
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, in, &out, &errOut
	cmd.Env = append(append(os.Environ(), cliVar+"=1", exitVar+"="+ended, "XDG_CONFIG_HOME="+t.TempDir()), env...)
	if err := cmd.Run(); err != nil {
		t.Fatal(err, errOut.String())
	}
	text, err := os.ReadFile(ended)
	if err != nil {
		t.Fatal(err)
	}
	code, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return said{code: code, out: out.String(), err: errOut.String()}
}

// buildCache sets the Go build cache of whoever runs the tests for sandboxes that can write it: with one of its own the
// demo would compile the standard library, in its run and in the check of its commit.
func buildCache(t *testing.T) string {
	t.Helper()
	at, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return "INSPAN_SANDBOX_ENV=GOCACHE=" + strings.TrimSpace(string(at))
}

func TestDemoAnywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := process(t, dir, []string{buildCache(t)}, "demo", "--sandbox", "host")
	t.Run("GATE-2 inspan demo in an empty folder and without a terminal approves by itself, says so, verifies its commit and ends with 0", func(t *testing.T) {
		if s.code != 0 {
			t.Errorf("exit %d", s.code)
		}
		for _, want := range []string{"the demo approves its gate by itself", "the tests pass on exactly that commit"} {
			if strings.Count(s.out, want) != 1 {
				t.Errorf("%q is not said once", want)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("it left %v in the folder, %v", left, err)
		}
		if t.Failed() {
			t.Log(s.out, s.err)
		}
	})
}
