package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/serve"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// servedVar names the NATS address and the folder of this test binary as a tool server.
const servedVar = "INSPAN_TEST_SERVE"

// poke is a tool that notes each call in a file, and then waits as long as the file hang is there.
type poke struct {
	dir, name string
	effect    tool.Effect
}

func (p poke) Spec() tool.Spec {
	return tool.Spec{Name: p.name, Description: "Poke.", Effect: p.effect, Timeout: time.Hour, Input: json.RawMessage(`{"type":"object","additionalProperties":false}`)}
}

func (p poke) file(ext string) string { return filepath.Join(p.dir, p.name+ext) }

func (p poke) note(ext, line string) error {
	f, err := os.OpenFile(p.file(ext), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, line)
	return err
}

func (p poke) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	if err := p.note(".calls", c.Key); err != nil {
		return tool.Result{}, err
	}
	for {
		if _, err := os.Stat(p.file(".hang")); err != nil {
			return tool.Result{Output: fmt.Sprint("poked by ", os.Getpid())}, nil
		}
		select {
		case <-ctx.Done():
			return tool.Result{}, p.note(".ended", ctx.Err().Error())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p poke) Verify(context.Context, tool.Call) (bool, tool.Result, error) {
	_, err := os.Stat(p.file(".calls"))
	return err == nil, tool.Result{Output: "it was poked"}, nil
}

// pokes are the tools of a folder, one for each effect class and one that hooks of tests stop.
func pokes(dir string) []tool.Tool {
	return []tool.Tool{poke{dir, "poke_read", tool.Read}, poke{dir, "poke_idempotent", tool.Idempotent}, poke{dir, "poke_reconcilable", tool.Reconcilable}, poke{dir, "poke_once", tool.Once}}
}

// servedMain is this test binary as a tool server.
func servedMain() bool {
	url, dir, ok := strings.Cut(os.Getenv(servedVar), "|")
	if !ok {
		return false
	}
	if err := serve.Serve(context.Background(), serve.Config{URL: url, Station: "test", Server: "pokes"}, pokes(dir)...); err != nil {
		panic(err)
	}
	return true
}

// servedWorld is a station, a folder, and what starts tool servers as processes of their own.
type servedWorld struct {
	*world
	url, pokes string
}

func newServedWorld(t *testing.T) *servedWorld {
	t.Helper()
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port = -1 })
	w := &servedWorld{world: worldOn(t, jettest.Connect(t, s, jet.Config{})), url: s.URL(), pokes: t.TempDir()}
	for _, x := range pokes(w.pokes) {
		name := x.Spec().Name
		w.agent(w.poker(name), calling(name, "{}"))
	}
	return w
}

// poker is an agent with one served tool.
func (w *servedWorld) poker(name string) events.Agent {
	for _, x := range pokes(w.pokes) {
		if x.Spec().Name == name {
			spec, err := wire.Describe("pokes", x.Spec())
			if err != nil {
				w.t.Fatal(err)
			}
			most := 50
			return events.Agent{Name: name, Tools: []string{name}, Served: []events.ServedTool{events.ServedTool(spec)}, Retry: events.Retry{MaxRetries: &most, BaseBackoffMS: 20}}
		}
	}
	w.t.Fatalf("there is no tool %s", name)
	return events.Agent{}
}

// server starts a process that serves the tools.
func (w *servedWorld) server() *os.Process {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), servedVar+"="+w.url+"|"+w.pokes)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()
	})
	return cmd.Process
}

// lines waits until a file of a tool has so many lines, and returns them.
func (w *servedWorld) lines(name string, n int) (all []string) {
	w.t.Helper()
	w.until(fmt.Sprintf("had %d lines in %s", n, name), func() bool {
		b, _ := os.ReadFile(filepath.Join(w.pokes, name)) // it is not there at first
		all = strings.Fields(string(b))
		return len(all) >= n
	})
	return all
}

func (w *servedWorld) hang(name string, on bool) {
	w.t.Helper()
	path := filepath.Join(w.pokes, name+".hang")
	err := os.Remove(path)
	if on {
		err = os.WriteFile(path, nil, 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestServedTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls  int
		says   string
		events map[string]int
	}{
		"poke_read":         {2, "poked by", map[string]int{"call.finished": 1}},
		"poke_idempotent":   {2, "poked by", map[string]int{"call.started": 2, "call.finished": 1}},
		"poke_reconcilable": {1, "it was poked", map[string]int{"call.started": 1, "call.finished": 1}},
		"poke_once":         {1, "check the current state before you repeat it", map[string]int{"call.started": 1, "call.failed": 1, "call.finished": 0}},
	} {
		t.Run("SAFE-7 TOOL-22 a tool server that is killed in the middle: "+name, func(t *testing.T) {
			t.Parallel()
			w := newServedWorld(t)
			w.start()
			w.hang(name, true)
			w.task(events.Task{ID: "killed", Agent: name, Task: "go"}) // no server yet: the call is tried again until one is there
			first := w.server()
			w.lines(name+".calls", 1)
			if err := first.Kill(); err != nil {
				t.Fatal(err)
			}
			if _, err := first.Wait(); err != nil {
				t.Fatal(err)
			}
			w.hang(name, false)
			w.server()
			s := w.ended("killed")
			if s.Status != events.Completed || !strings.Contains(s.Result.Output, c.says) {
				t.Errorf("%s %+v", s.Status, s.Result)
			}
			keys := w.lines(name+".calls", c.calls)
			if len(keys) != c.calls || keys[0] != keys[len(keys)-1] {
				t.Errorf("called with the keys %q, want %d times the same", keys, c.calls)
			}
			n := w.count("killed")
			for kind, want := range c.events {
				// Attempts that found no server are started and deferred; those that a server began are what is counted
				// here.
				if kind == "call.started" {
					n[kind] -= n["call.deferred"] - (c.calls - 1)
				}
				if n[kind] != want {
					t.Errorf("%d events %s, want %d\n%s", n[kind], kind, want, w.story("killed"))
				}
			}
			if rec := s.ToolCallHistory.At(0); (rec.Code == events.OutcomeUnknown) != (name == "poke_once") {
				t.Errorf("%+v", rec)
			}
		})
	}
	t.Run("SAFE-8 the late result of a tool server that was paused changes nothing", func(t *testing.T) {
		t.Parallel()
		w := newServedWorld(t)
		w.start()
		first := w.server()
		const name = "poke_idempotent"
		w.hang(name, true)
		w.task(events.Task{ID: "paused", Agent: name, Task: "go"})
		w.lines(name+".calls", 1)
		if err := first.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		// It goes on until the signal has arrived, and would answer once it need not hang.
		if _, err := syscall.Wait4(first.Pid, nil, syscall.WUNTRACED, nil); err != nil {
			t.Fatal(err)
		}
		w.hang(name, false)
		second := w.server()
		s := w.ended("paused")
		if want := fmt.Sprint("Result: poked by ", second.Pid); s.Status != events.Completed || s.Result.Output != want {
			t.Errorf("%s %+v, want %s", s.Status, s.Result, want)
		}
		before := len(w.events("paused"))
		if err := first.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		// The process that goes on has answered what it had by the time it answers something new.
		if err := second.Kill(); err != nil {
			t.Fatal(err)
		}
		w.task(events.Task{ID: "again", Agent: name, Task: "go"})
		if s := w.ended("again"); s.Status != events.Completed || s.Result.Output != fmt.Sprint("Result: poked by ", first.Pid) {
			t.Errorf("%s %+v", s.Status, s.Result)
		}
		if after := len(w.events("paused")); after != before {
			t.Errorf("%d events came after the end", after-before)
		}
	})
	t.Run("CTRL-3 stopping a run cancels its call in the tool server", func(t *testing.T) {
		t.Parallel()
		w := newServedWorld(t)
		w.start()
		w.server()
		w.hang("poke_once", true)
		w.task(events.Task{ID: "stopped", Agent: "poke_once", Task: "go"})
		w.lines("poke_once.calls", 1)
		w.publish(events.ControlSubject("test", "stopped"), `{"action":"stop"}`)
		w.lines("poke_once.ended", 1)
		if s := w.ended("stopped"); s.Status != events.Failed {
			t.Errorf("%s", s.Status)
		}
	})
	t.Run("GUARD-1 GATE-4 the gatekeeper guards a served tool as every other", func(t *testing.T) {
		t.Parallel()
		w := newServedWorld(t)
		denied, asked, wrong, changed := w.poker("poke_read"), w.poker("poke_read"), w.poker("poke_read"), w.poker("poke_read")
		denied.Name, denied.Guards = "denied", []events.Rule{{ID: "no", Tool: "poke_*", Action: "deny", Reason: "not here"}}
		asked.Name, asked.Guards = "asked", []events.Rule{{ID: "careful", Tool: "poke_read", Action: "ask", Reason: "it hurts"}}
		wrong.Name, wrong.Tools = "wrong", []string{"read"}
		changed.Name = "changed"
		spec := wire.Spec(changed.Served[0])
		other, err := wire.Describe("pokes", tool.Spec{Name: spec.Name, Description: "Another one.", Effect: tool.Read, Input: spec.Input})
		if err != nil {
			t.Fatal(err)
		}
		changed.Served = []events.ServedTool{events.ServedTool(other)}
		for _, a := range []events.Agent{denied, asked, wrong, changed} {
			w.agent(a, calling("poke_read", "{}"))
		}
		w.start()
		w.server()
		for _, agent := range []string{"denied", "wrong"} {
			w.task(events.Task{ID: agent, Agent: agent, Task: "go"})
			w.ended(agent)
			if n := w.count(agent); n["call.refused"] != 1 || n["call.allowed"] != 0 {
				t.Errorf("%s: %v", agent, n)
			}
		}
		w.task(events.Task{ID: "asked", Agent: "asked", Task: "go"})
		w.await("asked", "waiting", func(s run.State) bool { return len(s.Waiting()) > 0 })
		if _, err := os.Stat(filepath.Join(w.pokes, "poke_read.calls")); err == nil {
			t.Error("it was called before a person had approved")
		}
		w.publish(w.opened("asked").AnswerSubject, `{"decision":"approve"}`)
		if s := w.ended("asked"); !strings.Contains(s.Result.Output, "poked by") {
			t.Errorf("%+v", s.Result)
		}
		w.task(events.Task{ID: "changed", Agent: "changed", Task: "go"})
		if s := w.ended("changed"); !strings.Contains(s.Result.Output, "another specification than was pinned") || s.ToolCallHistory.At(0).Code != string(tool.Denied) {
			t.Errorf("%+v", s.Result)
		}
		if n := len(w.lines("poke_read.calls", 1)); n != 1 {
			t.Errorf("it was called %d times, want once", n)
		}
	})
}
