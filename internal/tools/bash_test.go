package tools_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/tool"
)

func TestBash(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10d TOOL-16 bash returns standard output, standard error and exit status", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		r := b.run("bash", args{"command": "printf out; printf err >&2; exit 3"})
		if r.Output != "out\n[stderr]\nerr\n[exit status 3]" || !r.Failed || r.ExitCode == nil || *r.ExitCode != 3 {
			t.Errorf("%+v", r)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.seen["stdout"] != "out" || b.seen["stderr"] != "err" {
			t.Errorf("watchers saw %v", b.seen)
		}
	})
	t.Run("TOOL-16 bash that says nothing still says how it ended", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		r := b.run("bash", args{"command": "true"})
		if r.Output != "[exit status 0]" || r.Failed || *r.ExitCode != 0 {
			t.Errorf("%+v", r)
		}
		r = b.run("bash", args{"command": "kill -KILL $$"})
		if !r.Failed || !strings.Contains(r.Output, "signal") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("TOOL-17 bash runs in the workspace, without the service's environment", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		want, err := filepath.EvalSymlinks(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.good("bash", args{"command": "pwd"}); got != want+"\n" {
			t.Errorf("pwd = %q, want %q", got, want)
		}
		// The test's own environment stands for the service's.
		for _, kv := range os.Environ() {
			name, _, _ := strings.Cut(kv, "=")
			switch name {
			case "PATH", "HOME", "LANG", "TMPDIR", "PWD", "SHLVL", "_", "OLDPWD", "TERM", "LC_ALL", "TZ", "USER", "LOGNAME", "SHELL":
				continue
			}
			lacks(t, "\n"+b.good("bash", args{"command": "env"}), "\n"+name+"=")
		}
	})
	t.Run("TOOL-6 a bash past its time is ended with all it started", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		fifo := filepath.Join(b.dir, "alive")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		ended := make(chan error, 1) // one result
		go func() {
			// Both shells hold the pipe open for writing as long as they live.
			_, err := b.try(ctx, "bash", args{"command": "exec 3>alive; echo up >&3; (setsid sleep 600 &) ; sleep 600"})
			ended <- err
		}()
		pipe, err := os.Open(fifo)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = pipe.Close() }() // it is only read
		r := bufio.NewReader(pipe)
		if line, err := r.ReadString('\n'); err != nil || line != "up\n" {
			t.Fatalf("read %q, %v", line, err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
		// The pipe ends only when the last process that holds it is gone.
		if err := pipe.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(r); err != nil || len(rest) != 0 {
			t.Errorf("a child lives on: %q, %v", rest, err)
		}
	})
	t.Run("TOOL-6 a deadline is a timeout", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := b.try(ctx, "bash", args{"command": "sleep 600"}); tool.ClassOf(err) != tool.Timeout {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("TOOL-6 bash asks for its own time, within bounds", func(t *testing.T) {
		t.Parallel()
		timed, ok := newBench(t).tool("bash").(tool.Timed)
		if !ok {
			t.Fatal("bash is not tool.Timed")
		}
		for input, want := range map[string]time.Duration{`{"command":"x"}`: tools.BashTimeout, `{"command":"x","timeout_ms":1500}`: 1500 * time.Millisecond,
			`{"command":"x","timeout_ms":600000}`: tools.MaxBashTimeout, `{"command":"x","timeout_ms":600001}`: tools.MaxBashTimeout,
			`{"command":"x","timeout_ms":9223372036854775807}`: tools.MaxBashTimeout, `{"timeout_ms":-1}`: tools.BashTimeout, `junk`: tool.DefaultTimeout} {
			if got := timed.TimeoutFor(json.RawMessage(input)); got != want {
				t.Errorf("TimeoutFor(%s) = %s, want %s", input, got, want)
			}
		}
	})
	t.Run("TOOL-16 a flood keeps its beginning and its end", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.env.Progress = func(string, []byte) {}
		b.env.MaxOutput = 1000
		r := b.run("bash", args{"command": "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last"})
		contains(t, r.Output, "first\n", "\nlast\n", "truncated")
		contains(t, string(r.Full), "the output exceeds the limit of what is stored")
		if n := len(r.Full); n < 10<<20 || n > 10<<20+1000 {
			t.Errorf("kept %d bytes", n)
		}
	})
	t.Run("SAFE-12 a command with a NUL is refused as the model's mistake", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		if _, err := b.try(t.Context(), "bash", args{"command": "echo a\x00b"}); tool.ClassOf(err) != tool.Invalid || err == nil {
			t.Errorf("err = %v, want class invalid", err)
		}
	})
}

func (b *bench) tool(name string) tool.Tool {
	b.t.Helper()
	tl, ok := b.tools.Get(name)
	if !ok {
		b.t.Fatalf("no tool %s", name)
	}
	return tl
}
