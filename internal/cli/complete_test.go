package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestComplete: the shell completes what the station has, and is silent where there is none.
func TestComplete(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	plan := text(t, filepath.Join(t.TempDir(), "plan.json"), `{"steps":[{"id":"look-around","description":"x"},{"id":"wait","description":"y","needs":["look-around"],"critical":true}]}`)
	d.want(3, words{"approve"}, "run", "reader", "x", "--id", "run-gated", "--plan", plan, "--session", "desk")
	for s := d.do("runs"); !strings.Contains(s.out, "run-gated"); s = d.do("runs") {
		pause(t)
	}
	complete := func(t *testing.T, args ...string) string {
		t.Helper()
		s := inspan(t, append([]string{"__complete", "--server", d.station.URL()}, args...)...)
		if s.code != 0 {
			t.Errorf("completion of %q: exit %d %s", args, s.code, s.err)
		}
		return s.out
	}
	for _, tc := range []struct {
		name, want string
		args       words
	}{
		{"runs", "run-gated\t", words{"why", ""}}, {"the newest run", "last\t", words{"cost", "la"}}, {"many runs", "run-gated\t", words{"rebuild", "x", "run-"}},
		{"the run of a gate", "\nrun-gated\t", words{"approve", ""}}, {"a gate and its run", "run-gated/g-", words{"reject", "run-gated/"}},
		{"sessions", "desk\t1 run", words{"session", "info", "d"}}, {"a session of a flag", "desk\t", words{"run", "reader", "--session", ""}}, {"agents of a flag", "reader\t", words{"runs", "--agent", ""}},
		{"checkpoints", "step-look-around\tafter event", words{"fork", "last", "--at", ""}}, {"checkpoints of inspect", "step-look-around", words{"inspect", "run-gated", "--at", "step"}},
		{"models", "scripted/reader\tof agent reader", words{"run", "reader", "--model", "scr"}},
		{"levels", "3\n", words{"autonomy", "run-gated", ""}}, {"settings", "harness.max_steps\t", words{"config", "explain", "harness.max"}}, {"sandboxes", "landlock\n", words{"run", "--sandbox", ""}},
		{"log levels", "debug\n", words{"runs", "--log", ""}}, {"collaboration", "parallel\n", words{"run", "--collaboration", ""}},
	} {
		t.Run("CLI-9 "+tc.name, func(t *testing.T) {
			if out := complete(t, tc.args...); !strings.Contains("\n"+out, tc.want) {
				t.Errorf("%q has no %q:\n%s", tc.args, tc.want, out)
			}
		})
	}
	t.Run("CLI-9 a task is no file, and a file is one", func(t *testing.T) {
		if out := complete(t, "run", "reader", ""); !strings.HasPrefix(out, ":4\n") {
			t.Errorf("%q", out)
		}
		if out := complete(t, "artifacts", "put", "run-gated", ""); !strings.HasPrefix(out, ":0\n") {
			t.Errorf("%q", out)
		}
	})
	t.Run("CLI-9 bash, zsh and fish get a script that says how to install it", func(t *testing.T) {
		for _, shell := range []string{"bash", "zsh", "fish"} {
			d := inspan(t, "completion", shell)
			if d.code != 0 || !strings.Contains(d.out, "__complete") {
				t.Errorf("%s: exit %d", shell, d.code)
			}
			if h := inspan(t, "completion", shell, "--help"); !strings.Contains(h.out, "inspan completion "+shell) {
				t.Errorf("%s: %s", shell, h.out)
			}
		}
	})
}

func TestCompleteWithoutStation(t *testing.T) {
	t.Parallel()
	silent := func(t *testing.T, server string) {
		t.Helper()
		began := time.Now()
		s := inspan(t, "__complete", "--server", server, "why", "")
		if s.code != 0 || s.out != ":36\n" {
			t.Errorf("exit %d, %q %s", s.code, s.out, s.err)
		}
		if strings.Contains(s.err, "inspan:") {
			t.Error(s.err)
		}
		if took := time.Since(began); took > time.Minute { // without its limit it would wait for ever
			t.Errorf("took %s", took)
		}
	}
	t.Run("CLI-9 nothing is completed and nothing printed where no server listens", func(t *testing.T) { silent(t, "nats://127.0.0.1:1") })
	t.Run("CLI-9 a server that never answers does not hold up the shell", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}()
		silent(t, "nats://"+l.Addr().String())
	})
	t.Run("CLI-9 a broken configuration file does not either", func(t *testing.T) {
		dir := t.TempDir()
		text(t, filepath.Join(dir, "bad.yaml"), "nats: [")
		s := process(t, dir, []string{"INSPAN_CONFIG=" + filepath.Join(dir, "bad.yaml"), "PATH=" + os.Getenv("PATH")}, "__complete", "why", "")
		if s.code != 0 || s.out != ":36\n" {
			t.Errorf("exit %d, %q %s", s.code, s.out, s.err)
		}
	})
}
