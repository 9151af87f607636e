package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// hostiles runs a station whose agent makes calls one after the other, and returns what came of each.
func hostiles(w *world, sb events.Sandbox, all ...ask) []run.CallRecord {
	w.t.Helper()
	w.ports.Models = inTurns(w.t, one(all...)...)
	a := backgrounder()
	a.Tools = append(a.Tools, "read", "write", "edit", "apply_patch", "grep", "glob")
	a.Sandbox = sb
	w.agent(a, "")
	w.start()
	w.task(events.Task{ID: "hostile", Agent: "runner", Task: "go"})
	s := w.ended("hostile")
	if s.Status != events.Completed || s.ToolCallHistory.Len() != len(all) {
		w.t.Fatalf("%d calls, %+v\n%s", s.ToolCallHistory.Len(), s.Result, w.story("hostile"))
	}
	for _, f := range w.events("hostile") {
		if !json.Valid(f.Bytes) || !utf8.Valid(f.Bytes) || len(f.Bytes) > events.MaxEvent {
			w.t.Errorf("an event of %d bytes is no JSON in UTF-8: %.300q", len(f.Bytes), f.Bytes)
		}
	}
	return run.Slice(s.ToolCallHistory)
}

// heaviest samples the heap of this process until stop, and returns its most bytes. The collector runs as often as it does
// in a station, whatever the tests set.
func heaviest() (stop func() uint64) {
	var most atomic.Uint64
	percent := debug.SetGCPercent(100)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most.Store(max(most.Load(), m.HeapAlloc))
			}
		}
	}()
	return func() uint64 {
		close(end)
		<-ended
		debug.SetGCPercent(percent)
		return most.Load()
	}
}

// TestFlood is not parallel: it measures the memory of the process.
func TestFlood(t *testing.T) { //nolint:paralleltest // see above
	t.Run("SAFE-14 TOOL-16 a command that prints far more than may be kept in memory is kept in bounds, says what was left out, and the run goes on", func(t *testing.T) {
		w := newWorld(t)
		v := w.told("hostile", "c1-1")
		stop := heaviest()
		got := hostiles(w, events.Sandbox{},
			ask{"bash", map[string]any{"command": "echo the beginning; head -c 400000000 /dev/zero | tr '\\0' x; echo; echo the end", "timeout_ms": 300_000}}, shell("echo on"))
		if most := stop(); most > 250<<20 {
			t.Errorf("%d MB of memory were in use", most>>20)
		}
		r := got[0].Result
		if got[0].Outcome != run.OutcomeFinished || !strings.Contains(r, "the beginning") || !strings.Contains(r, "the end") || !strings.Contains(r, "truncated: ") || len(r) > events.MaxInlineOutput {
			t.Errorf("%d bytes: %.200q", len(r), r)
		}
		if got[0].ResultRef == nil || got[0].ResultRef.Size > 11<<20 || got[1].Result != "on\n" {
			t.Errorf("%+v, then %q", got[0].ResultRef, got[1].Result)
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if !strings.Contains(v.text, "<missed>") || !strings.HasSuffix(v.text, "the end\n[end ]") || len(v.text) > 50<<20 {
			t.Errorf("a watcher was told %d bytes, at last %.100q", len(v.text), v.text[max(0, len(v.text)-100):])
		}
	})
}

func TestHostileCommands(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-6 TOOL-22 SBX-15 commands that do not want to end are ended, and nothing of them is left", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		sleeps := forever()
		short := func(text string) ask {
			return ask{"bash", map[string]any{"command": text, "timeout_ms": 500}}
		}
		deaf := "trap '' TERM INT HUP QUIT\n" + sleeps + " &\nwait\nwait\n" + sleeps + "\n"
		got := hostiles(w, events.Sandbox{}, ask{"write", map[string]any{"path": "deaf.sh", "content": deaf}},
			short("sleep 600 & "+sleeps), short("bash deaf.sh"),
			shell("(setsid sh -c 'setsid "+sleeps+" & exec "+sleeps+"' >/dev/null 2>&1 &); echo left"), short("while :; do (setsid "+sleeps+" &); sleep 0.05; done"),
			shell("echo on"))
		for i, want := range []string{"wrote", "longer than 500ms", "longer than 500ms", "left\n", "longer than 500ms", "on\n"} {
			r := got[i]
			if !strings.Contains(r.Result, want) || strings.HasPrefix(want, "longer") && (r.Code != "timeout" || r.Hint == "") {
				t.Errorf("call %d: %+v", i+1, r)
			}
		}
		if n := living(sleeps); n != 0 {
			t.Errorf("%d processes are left", n)
		}
	})
	t.Run("SAFE-12 TOOL-16 what is no text, names that are none and files that are none make clear answers and sound events", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		path := func(tool, path string) ask { return ask{tool, map[string]any{"path": path}} }
		got := hostiles(w, events.Sandbox{},
			shell(`printf 'a\377\376\000\033[2Jb\342\200\256c\355\240\200\n'; head -c 100000 /dev/urandom; exit 7`),
			shell(`mkfifo pipe; mkdir dir; head -c 5000 /dev/urandom > noise; printf 'x\0y' > nul; printf 'text \377\n' > latin; printf '(a+)+$\n' > "$(printf 'na\nme\377')"; true`),
			path("read", "pipe"), path("read", "dir"), path("read", "nul"), path("read", "noise"), path("read", "latin"), path("read", "../../../etc/passwd"), path("read", "/etc/passwd"),
			path("read", strings.Repeat("n", 4096)), path("read", "a\x00b"), path("read", "-n"), path("read", "na\nme"),
			ask{"glob", map[string]any{"pattern": "**"}}, ask{"grep", map[string]any{"pattern": "^(a+)+$|(.*)*x{900}"}}, ask{"edit", map[string]any{"path": "pipe", "old_string": "a", "new_string": "b"}},
			shell("ls ..; echo on"))
		for i, want := range map[int]string{2: "not a regular file", 3: "is a folder", 4: "binary file", 6: "text", 7: "leaves the workspace", 8: "leaves the workspace",
			9: "file name too long", 10: "NUL", 11: "no such file", 12: "no such file", 13: "na<U+000A>me", 15: "not a regular file", 16: "on\n"} {
			if !strings.Contains(got[i].Result, want) {
				t.Errorf("call %d: %+v", i+1, got[i])
			}
		}
	})
	t.Run("SBX-12 SAFE-14 a command that fills its disk limit is ended with the reason, and the run goes on", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		got := hostiles(w, events.Sandbox{DiskBytes: 8 << 20}, shell("while :; do head -c 1000000 /dev/zero >> big; sleep 0.01; done"), shell("rm big; echo on"))
		if r := got[0]; r.Outcome != run.OutcomeFailed || !strings.Contains(r.Result, "disk limit") || got[1].Result != "on\n" {
			t.Errorf("%+v, then %q", r, got[1].Result)
		}
	})
	t.Run("SAFE-12 SAFE-14 on a disk that is full each tool says so, and with room the run goes on", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		full := filepath.Join(w.dir, "work", "run", "hostile")
		if err := os.MkdirAll(full, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("none", full, "tmpfs", 0, "size=1m"); err != nil {
			t.Logf("NOT TESTED: a full disk: mount a small one: %v", err)
			return
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(full, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		got := hostiles(w, events.Sandbox{}, ask{"write", map[string]any{"path": "a.txt", "content": "old\n"}}, shell("cat /dev/zero > big"),
			ask{"write", map[string]any{"path": "a.txt", "content": strings.Repeat("new\n", 10_000)}}, ask{"edit", map[string]any{"path": "a.txt", "old_string": "old", "new_string": strings.Repeat("new ", 10_000)}},
			shell("ls -A; cat a.txt"), shell("rm big"), ask{"write", map[string]any{"path": "a.txt", "content": "new\n"}}, shell("cat a.txt"))
		for i, want := range map[int]string{1: "No space left", 2: "no space left", 3: "no space left", 4: "a.txt\nbig\nold\n", 7: "new\n"} {
			if !strings.Contains(got[i].Result, want) {
				t.Errorf("call %d: %+v", i+1, got[i])
			}
		}
	})
}
