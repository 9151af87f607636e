package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/landlock"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// shellOnly is an agent with a shell.
func shellOnly(mode sandbox.Mode) events.Agent {
	return events.Agent{Name: "runner", Model: "heard/x", Tools: []string{"bash"}, Sandbox: events.Sandbox{Mode: string(mode)}}
}

// keeping are boxes of one backend that keep theirs for a minute.
func keeping(w *world, backend sandbox.Backend) *pool.Opener {
	w.t.Helper()
	all, err := pool.NewOpener(pool.Config{Root: filepath.Join(w.dir, "work"), Default: backend.Mode(), Keep: time.Minute,
		Backends: map[sandbox.Mode]sandbox.Backend{backend.Mode(): backend}})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// TestSessionSandbox is about SBX-19.
func TestSessionSandbox(t *testing.T) {
	t.Parallel()
	for _, backend := range []sandbox.Backend{host.New(""), landlock.New([]string{"/proc/self/exe", launch.Word}, ""), bwrap.New("", "")} {
		t.Run("SBX-19 SESS-12 a second input finds the files of HOME and TMPDIR and what was exported, and the end of the toolrunner leaves nothing: "+string(backend.Mode()), func(t *testing.T) {
			t.Parallel()
			sandboxtest.Need(t, backend)
			w := newWorld(t)
			w.ports.Sandboxes = keeping(w, backend)
			m := inTurns(t, one(shell("echo home > ~/note; echo tmp > $TMPDIR/note; export GREETING='hello you'; echo $HOME"))...)
			w.ports.Models = m
			w.agent(shellOnly(backend.Mode()), "")
			hosted := w.start()
			input := func(id, session string) string {
				w.task(events.Task{ID: id, Agent: "runner", Task: "go", Session: session})
				s := w.ended(id)
				if s.Status != events.Completed || s.ToolCallHistory.Len() != 1 {
					t.Fatalf("%+v\n%s", s.Result, w.story(id))
				}
				w.sessionOf(session, "free", free)
				return results(s)[0]
			}
			home := strings.TrimSpace(input("in-1", "s"))
			m.mu.Lock()
			m.planned = inTurns(t, one(shell(`cat ~/note $TMPDIR/note; echo "$GREETING"`))...).planned
			m.mu.Unlock()
			if got := input("in-2", "s"); !strings.HasPrefix(got, "home\ntmp\nhello you\n") {
				t.Errorf("got %q", got)
			}
			if got := input("in-3", "other"); strings.HasPrefix(got, "home") || strings.Contains(got, "hello") {
				t.Errorf("another session: got %q", got)
			}
			if hosted.stop(); backend.Mode() == sandbox.Bwrap {
				return // its HOME has another name outside
			}
			if _, err := os.Stat(home); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", home, err)
			}
		})
	}
	t.Run("SBX-19 a run without a session leaves nothing in HOME for the next call", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.SandboxKeep = time.Minute }
		w.ports.Models = inTurns(t, one(shell("echo home > ~/note; export A=1"), shell("cat ~/note || echo none $A"))...)
		w.agent(shellOnly(sandbox.Host), "")
		w.start()
		w.task(events.Task{ID: "alone", Agent: "runner", Task: "go"})
		if got := results(w.ended("alone"))[1]; !strings.HasPrefix(got, "none\n") {
			t.Errorf("got %q", got)
		}
	})
}

// tardy is a backend over the host that passes for one that is slow to start, and counts.
type tardy struct {
	sandbox.Backend
	mu sync.Mutex
	// opened and living are guarded by mu.
	opened, living int
}

func (*tardy) Mode() sandbox.Mode { return sandbox.Docker }

func (d *tardy) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	cfg.Network = true
	sb, err := d.Backend.Open(ctx, cfg)
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.opened++
		d.living++
		sb = &tardySandbox{sb, d, sync.Once{}}
	}
	return sb, err
}

type tardySandbox struct {
	sandbox.Sandbox
	of   *tardy
	once sync.Once
}

func (*tardySandbox) Mode() sandbox.Mode { return sandbox.Docker }

func (b *tardySandbox) Destroy(ctx context.Context) error {
	err := b.Sandbox.Destroy(ctx)
	b.once.Do(func() {
		b.of.mu.Lock()
		defer b.of.mu.Unlock()
		b.of.living--
	})
	return err
}

// until waits for so many living ones, and returns how many were opened.
func (d *tardy) until(w *world, living int) int {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx := w.ctx()
	for {
		d.mu.Lock()
		opened, now := d.opened, d.living
		d.mu.Unlock()
		if now == living {
			return opened
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("%d sandboxes live, want %d", now, living)
		}
	}
}

func TestKeptSandbox(t *testing.T) {
	t.Parallel()
	t.Run("SBX-9 SBX-15 calls and commands in the background of a step share one sandbox that is slow to start, and it goes with the step", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		d := &tardy{Backend: host.New("")}
		w.ports.Sandboxes = keeping(w, d)
		sleeps := forever()
		w.ports.Models = inTurns(t, one(shell("echo 1 > ~/note"), beyond("cat ~/note; "+sleeps), output("bg-c2-1"), shell("cat ~/note"), shell("no-such-program"), shell("cat ~/note"))...)
		w.agent(backgrounder(), "")
		w.start()
		w.task(events.Task{ID: "one", Agent: "runner", Task: "go"})
		s := w.ended("one")
		for i, want := range []string{"", "Started", "1\n", "1\n", "not found", "1\n"} {
			if got := results(s)[i]; !strings.Contains(got, want) {
				t.Errorf("call %d: %q, want %q in it", i+1, got, want)
			}
		}
		if n := d.until(w, 0); n != 1 {
			t.Errorf("%d were opened", n)
		}
		w.livingUntil(sleeps, 0)
	})
	t.Run("SBX-15 SAFE-7 the sandbox of a step goes when its run is stopped, when its toolrunner ends, and when that is taken for lost", func(t *testing.T) {
		t.Parallel()
		for _, end := range []string{"stop", "drain", "lost"} {
			w := newWorld(t)
			d := &tardy{Backend: host.New("")}
			w.ports.Sandboxes = keeping(w, d)
			thinks := make(chan struct{})
			m := inTurns(t, one(shell("true"))...)
			plan := m.planned
			m.planned = func(req llm.Request) llm.Answer {
				if req.Meta.Turn == 2 {
					<-thinks
				}
				return plan(req)
			}
			w.ports.Models = m
			w.agent(shellOnly(sandbox.Docker), "")
			w.start(events.Planner, events.Gatekeeper, events.Executor)
			g := &graves{Leases: w.ports.Leases}
			first := g.on(w, "local", "work")
			w.task(events.Task{ID: "kept", Agent: "runner", Task: "go"})
			w.await("kept", "told", func(s run.State) bool { return s.ToolCallHistory.Len() == 1 })
			d.until(w, 1)
			switch end {
			case "stop":
				w.publish("station.test.run.kept.control", `{"action":"stop"}`)
				w.ended("kept")
			case "drain":
				first.stop()
			case "lost":
				first.lose()
			}
			d.until(w, 0)
			close(thinks)
		}
	})
}

// listener is a server of the background that says its port to a file; dialler reads what it answers.
const (
	listener = `use IO::Socket::INET; $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>"127.0.0.1",LocalPort=>0) or die; open F,">","port.new"; print F $s->sockport; close F; rename "port.new","port"; while($c=$s->accept){print $c "hello\n"; close $c}`
	dialler  = `use IO::Socket::INET; until(-e "port"){select undef,undef,undef,0.05} open F,"<","port"; $s=IO::Socket::INET->new(PeerAddr=>"127.0.0.1",PeerPort=><F>) or print("refused\n"),exit; print <$s>`
)

func TestBackgroundServer(t *testing.T) {
	t.Parallel()
	for _, backend := range []sandbox.Backend{host.New(""), bwrap.New("", "")} {
		for _, session := range []string{"", "s"} {
			t.Run("SBX-2 SBX-13 TOOL-10 a server in the background is reached by the next call of its agent, and by no other: "+string(backend.Mode())+" "+session, func(t *testing.T) {
				t.Parallel()
				sandboxtest.Need(t, backend)
				w := newWorld(t)
				w.tune = func(c *service.Config) { c.SandboxKeep = time.Minute }
				w.ports.Models = inTurns(t, one(shell("cat > server.pl <<'E'\n"+listener+"\nE\ncat > client.pl <<'E'\n"+dialler+"\nE\n"), beyond("perl server.pl"), shell("perl client.pl"))...)
				a := backgrounder()
				a.Sandbox.Mode = string(backend.Mode())
				w.agent(a, "")
				w.start()
				w.task(events.Task{ID: "serves", Agent: "runner", Task: "go", Session: session})
				s := w.ended("serves")
				if got := results(s); len(got) != 3 || got[2] != "hello\n" {
					t.Errorf("got %q\n%s", got, w.story("serves"))
				}
			})
		}
	}
}

// inSteps is a model that asks for calls, one after the other, in each step, and then says done.
func inSteps(t testing.TB, calls map[string][]ask) *received {
	asked := map[string]int{}
	return &received{planned: func(req llm.Request) llm.Answer {
		list, n := calls[req.Meta.Step], asked[req.Meta.Step]
		if n >= len(list) {
			return llm.Answer{Text: "done"}
		}
		asked[req.Meta.Step]++
		input, err := json.Marshal(list[n].args)
		if err != nil {
			t.Error(err)
		}
		return llm.Answer{Calls: []llm.Call{{ID: fmt.Sprint(req.Meta.Step, n), Name: list[n].tool, Input: input}}}
	}}
}

func TestBackgroundArtifacts(t *testing.T) {
	t.Parallel()
	t.Run("ART-3 ART-13 what a command in the background makes is kept with the call that reads it, or that ends it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		make := func(name, after string) ask {
			return beyond("until [ -e go ]; do sleep 0.02; done; sleep 1; echo late > " + name + "; echo written; " + after)
		}
		calls := one(make("ended.md", "true"), make("runs.md", "sleep 600"), shell("touch go"), output("bg-c1-1"), output("bg-c2-1"),
			beyond("echo killed > killed.md; echo written; sleep 600"), kill("bg-c6-1"))
		m := inTurns(t, calls...)
		answer := m.planned
		m.planned = func(req llm.Request) llm.Answer {
			if req.Meta.Turn == len(calls) { // to kill it before it has written would show nothing
				w.until("was killed.md written", func() bool {
					text, err := os.ReadFile(filepath.Join(w.dir, "work", "run", "late", "killed.md"))
					return err == nil && string(text) == "killed\n"
				})
			}
			return answer(req)
		}
		w.ports.Models = m
		w.agent(backgrounder(), "")
		w.start()
		w.task(events.Task{ID: "late", Agent: "runner", Task: "go"})
		s := w.ended("late")
		// A file that is looked at while it is written is an artifact as it is then, and another when it is done.
		last := map[string]int64{}
		for _, a := range run.Slice(s.Artifacts) {
			last[a.Path] = a.Size
		}
		if want := map[string]int64{"ended.md": 5, "killed.md": 7, "runs.md": 5}; !maps.Equal(last, want) {
			t.Errorf("got %v, want %v\n%s", last, want, w.story("late"))
		}
	})
	t.Run("ART-9 ART-13 a later step reads what an earlier one made, in a sandbox of its own", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		d := &tardy{Backend: host.New("")}
		w.ports.Sandboxes = keeping(w, d)
		w.ports.Models = inSteps(t, map[string][]ask{"a": {shell("echo one > ~/note; echo made > first.md"), shell("cat ~/note")}, "b": {shell("cat first.md; ls ~"), shell("echo two > second.md")}})
		w.agent(shellOnly(sandbox.Docker), "")
		w.start()
		w.task(events.Task{ID: "steps", Agent: "runner", Task: "go", Plan: &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "a"}, {ID: "b", Description: "b", Needs: []string{"a"}}}}})
		s := w.ended("steps")
		if got := results(s); len(got) != 4 || got[1] != "one\n" || got[2] != "made\n" || s.Artifacts.Len() != 2 {
			t.Errorf("got %q, %d artifacts\n%s", got, s.Artifacts.Len(), w.story("steps"))
		}
		if n := d.until(w, 0); n != 2 {
			t.Errorf("%d sandboxes were opened, want one for each step", n)
		}
	})
}
