package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/station"
)

// running is an inspan up in a process of its own.
type running struct {
	Station, URL string
	cmd          *exec.Cmd
}

// upIn starts inspan up in a folder and waits until it is up.
func upIn(t *testing.T, dir string, args ...string) running {
	t.Helper()
	return upWith(t, dir, nil, os.Stderr, args...)
}

// upWith is upIn with more in its environment and another standard error.
func upWith(t *testing.T, dir string, env []string, errOut io.Writer, args ...string) running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := running{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), self, append([]string{"up", "--sandbox", "host", "--accept-lazy-fsync", "--json"}, args...)...)}
	r.cmd.Dir, r.cmd.Stderr = dir, errOut
	r.cmd.Env = append(append(os.Environ(), cliVar+"=1", "INSPAN_SANDBOX_REACHES_STATION=true", "XDG_CONFIG_HOME="+t.TempDir()), env...)
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.kill() })
	if err := json.NewDecoder(out).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// kill ends the process as kill -9 does.
func (r running) kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.cmd.Wait()
}

// project is a folder with the agents of these tests, and a folder deep in it.
func project(t *testing.T) (dir, deep string) {
	t.Helper()
	dir = newDesk(t).dir
	deep = filepath.Join(dir, "src", "deep")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, deep
}

func TestProject(t *testing.T) {
	t.Parallel()
	dir, deep := project(t)
	up := upIn(t, dir, "--port", "0", "--agents", "agents", "--scripts", "scripts", "--station", "lab")
	in := func(t *testing.T, code int, words []string, dir string, args ...string) said {
		t.Helper()
		s := process(t, dir, nil, args...)
		if s.code != code {
			t.Fatalf("inspan %s: exit %d, want %d\n%s%s", strings.Join(args, " "), s.code, code, s.out, s.err)
		}
		for _, w := range words {
			if !strings.Contains(s.out+s.err, w) {
				t.Errorf("inspan %s does not say %q:\n%s%s", strings.Join(args, " "), w, s.out, s.err)
			}
		}
		return s
	}
	t.Run("CLI-9 commands without a flag find the station of their project, whatever its port and name, also from a folder below", func(t *testing.T) {
		in(t, 0, []string{"The note is read."}, dir, "run", "reader", "look", "--id", "r1")
		in(t, 0, []string{"r1"}, deep, "runs")
		in(t, 0, []string{up.URL, "(station of this project)"}, deep, "config", "explain", "nats.url")
		if s := process(t, deep, []string{"INSPAN_SANDBOX=host"}, "doctor", "--no-model"); !strings.Contains(s.out, "by station lab of this project") || !strings.Contains(s.out, "1 running") {
			t.Error(s.out, s.err)
		}
	})
	t.Run("CLI-9 outside of the project the station is not found", func(t *testing.T) {
		if s := process(t, t.TempDir(), nil, "runs"); strings.Contains(s.out, "r1") {
			t.Error(s.out)
		}
	})
	t.Run("CLI-9 a port in use is told at once, with the port, who listens there and what to do", func(t *testing.T) {
		_, port, err := net.SplitHostPort(strings.TrimPrefix(up.URL, "nats://"))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		in(t, 1, []string{"port " + port + " of 127.0.0.1 is in use", "station lab of another inspan up listens", "--port"}, t.TempDir(), "up", "--port", port, "--sandbox", "host")
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		in(t, 1, []string{"is in use", "another program, which is no NATS server, listens"}, t.TempDir(), "up", "--listen", l.Addr().String(), "--sandbox", "host")
	})
	t.Run("CLI-9 flags of a station that runs already are refused, not ignored", func(t *testing.T) {
		for _, f := range []string{"--agents=agents", "--scripts=scripts", "--workspace=w", "--sandbox=host", "--accept-lazy-fsync", "--store=other", "--log=debug"} {
			in(t, 2, []string{strings.SplitN(f, "=", 2)[0], "station lab runs at", "--ephemeral"}, dir, "run", "reader", "look", f)
		}
	})
	t.Run("CLI-9 a failed run names a command that works", func(t *testing.T) {
		s := in(t, 1, []string{"the model is gone"}, dir, "run", "broken", "look")
		again(t, dir, s, "the model is gone")
		s = in(t, 1, []string{"the model is gone"}, t.TempDir(), "run", "broken", "look", "--server", up.URL, "--station", "lab")
		again(t, t.TempDir(), s, "the model is gone")
	})
	store := filepath.Join(dir, ".inspan")
	t.Run("CLI-9 the record of a station that was killed is believed by no one, and what is stored is shown without it", func(t *testing.T) {
		up.kill()
		if _, err := os.Stat(filepath.Join(store, station.RecordFile)); err != nil {
			t.Error(err)
		}
		if _, ok := station.Find(t.Context(), dir, ".inspan"); ok {
			t.Error("a dead station was found")
		}
		in(t, 0, []string{"r1", "No station runs"}, deep, "runs", "--station", "lab")
	})
	t.Run("CLI-9 a store is kept out of the repository around it, but for the project's configuration", func(t *testing.T) {
		git(t, dir, "init", "-q")
		if err := os.WriteFile(filepath.Join(store, "config.yaml"), []byte("harness: {}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := git(t, dir, "status", "--porcelain", "-uall", ".inspan"); got != "?? .inspan/config.yaml\n" {
			t.Errorf("git sees %q", got)
		}
	})
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// again runs the command that a failed run named, as a person would who copies it into a shell.
func again(t *testing.T, dir string, s said, want string) {
	t.Helper()
	_, line, ok := strings.Cut(s.err, "To see more: ")
	if !ok {
		t.Fatalf("no command is named:\n%s", s.err)
	}
	line, _, _ = strings.Cut(line, "\n")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "inspan")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ended := filepath.Join(t.TempDir(), "exit")
	cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), cliVar+"=1", exitVar+"="+ended, "XDG_CONFIG_HOME="+t.TempDir())
	err = cmd.Run()
	code, _ := os.ReadFile(ended)
	if err != nil || string(code) != "0" || !strings.Contains(out.String(), want) {
		t.Errorf("%s: %v, exit %s\n%s", line, err, code, out.String())
	}
}

func TestFailedRun(t *testing.T) {
	t.Parallel()
	dir, _ := project(t)
	spaced := filepath.Join(t.TempDir(), "a store's folder")
	for name, args := range map[string][]string{"in a temporary store": {"--ephemeral"}, "in a store that is named": {"--ephemeral", "--store", spaced},
		"in the store of the project": {"--ephemeral", "--store", ".inspan"}, "without NATS": {"--local"}} {
		t.Run("CLI-9 a run that failed in a station of its own, "+name+", names a command that works", func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			s := process(t, dir, []string{"TMPDIR=" + tmp, "INSPAN_SANDBOX=host"}, append([]string{"run", "broken", "look", "--trust"}, args...)...)
			if s.code != 1 {
				t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
			}
			again(t, dir, s, "the model is gone")
		})
	}
}

func TestIdleFlags(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"demo --server nats://127.0.0.1:1", "up --server nats://127.0.0.1:1", "version --station lab", "init --local", "guards show --wait 1s",
		"runs --local --server nats://127.0.0.1:1", "run reader look --detach --yes", "run reader look --detach --stream", "run reader look --ephemeral --server nats://127.0.0.1:1",
		"up --listen 127.0.0.1:0 --port 0", "up --local --port 0"} {
		t.Run("CLI-9 a flag that cannot apply is refused: "+line, func(t *testing.T) {
			t.Parallel()
			if s := inspan(t, strings.Fields(line)...); s.code != 2 || !strings.Contains(s.err, "leave") {
				t.Errorf("exit %d, want 2\n%s%s", s.code, s.out, s.err)
			}
		})
	}
}

func TestForeignRecord(t *testing.T) {
	t.Parallel()
	dir, _ := project(t)
	up := upIn(t, dir, "--port", "0", "--trust")
	store := filepath.Join(dir, ".inspan")
	path := filepath.Join(store, station.RecordFile)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(r map[string]any){
		"leads to another machine":     func(r map[string]any) { r["url"] = "nats://192.0.2.1:4222" },
		"names another server":         func(r map[string]any) { r["server"] = "inspan-default.other" },
		"names a process that is gone": func(r map[string]any) { r["pid"] = 1 << 30 },
		"has a password":               func(r map[string]any) { r["url"] = strings.Replace(up.URL, "nats://", "nats://a:b@", 1) },
		"can be written by others":     nil,
	} {
		t.Run("SAFE-6 a record is not believed that "+name, func(t *testing.T) {
			other := t.TempDir()
			at := filepath.Join(other, ".inspan", station.RecordFile)
			mode := os.FileMode(0o600)
			r := map[string]any{}
			if err := json.Unmarshal(good, &r); err != nil {
				t.Fatal(err)
			}
			if change == nil {
				mode = 0o666
			} else {
				change(r)
			}
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(at, mode); err != nil {
				t.Fatal(err)
			}
			if got, ok := station.Find(t.Context(), other, ".inspan"); ok {
				t.Errorf("believed: %+v", got)
			}
		})
	}
	t.Run("SAFE-6 and the one that the station wrote is", func(t *testing.T) {
		if got, ok := station.Find(t.Context(), dir, ".inspan"); !ok || got.URL != up.URL {
			t.Errorf("got %s, %v", fmt.Sprint(got), ok)
		}
	})
}
