package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// machine is a toolrunner on a root of its own that can be taken for lost: its lease has lapsed and its messages go to
// others, while what it was doing goes on, as after a pause.
type machine struct {
	w    *world
	root string
	*hosted
	graves *graves
	mu     sync.Mutex
	// Guarded by mu.
	gone     bool
	instance string
	inHand   map[kernel.Message]bool
}

// graves are the instances that are taken for dead, shared by all machines.
type graves struct {
	kernel.Leases
	mu   sync.Mutex
	dead []string
}

func (g *graves) Alive(ctx context.Context, instance string) (bool, error) {
	g.mu.Lock()
	dead := slices.Contains(g.dead, instance)
	g.mu.Unlock()
	if dead {
		return false, nil
	}
	return g.Leases.Alive(ctx, instance)
}

// on starts a toolrunner on a machine of its own.
func (g *graves) on(w *world, mode, name string, tools ...tool.Tool) *machine {
	m := &machine{w: w, root: filepath.Join(w.dir, name), graves: g, inHand: map[kernel.Message]bool{}}
	own := *w
	own.tools = append(slices.Clone(w.tools), tools...)
	own.ports.Leases = named{g, m}
	own.ports.Inbox = inbox{w.ports.Inbox, m}
	own.ports.SubscribeRepublished = func(take func(string, kernel.Record)) (func(), error) {
		return w.ports.SubscribeRepublished(func(runID string, r kernel.Record) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if !m.gone {
				take(runID, r)
			}
		})
	}
	own.tune = func(c *service.Config) {
		if w.tune != nil {
			w.tune(c)
		}
		c.Workspace, c.WorkspaceMode = m.root, mode
	}
	m.hosted = own.start(events.Toolrunner)
	return m
}

// named learns how the instance is called.
type named struct {
	*graves
	m *machine
}

func (n named) Renew(ctx context.Context, instance string) error {
	n.m.mu.Lock()
	n.m.instance = instance
	n.m.mu.Unlock()
	return n.graves.Renew(ctx, instance)
}

// lose takes the machine for lost.
func (m *machine) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	m.graves.mu.Lock()
	m.graves.dead = append(m.graves.dead, m.instance)
	m.graves.mu.Unlock()
	for msg := range m.inHand {
		_ = msg.Nak(0)
	}
}

type inbox struct {
	kernel.Inbox
	m *machine
}

func (i inbox) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context, kernel.Message)) error {
	return i.Inbox.Listen(ctx, role, workers, func(ctx context.Context, msg kernel.Message) {
		i.m.mu.Lock()
		gone := i.m.gone
		i.m.inHand[msg] = true
		i.m.mu.Unlock()
		if gone {
			_ = msg.Nak(20 * time.Millisecond)
			return
		}
		receive(ctx, mailing{msg, i.m})
		i.m.mu.Lock()
		delete(i.m.inHand, msg)
		i.m.mu.Unlock()
	})
}

// mailing says nothing of a message any more once the machine is lost.
type mailing struct {
	kernel.Message
	m *machine
}

func (h mailing) lost() bool {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	return h.m.gone
}

func (h mailing) Ack(ctx context.Context) error {
	if h.lost() {
		return nil
	}
	return h.Message.Ack(ctx)
}

func (h mailing) Nak(d time.Duration) error {
	if h.lost() {
		return nil
	}
	return h.Message.Nak(d)
}

func (h mailing) Working() error {
	if h.lost() {
		return nil
	}
	return h.Message.Working()
}

// stall writes a file, and waits in the middle where it is told to; then it writes another one.
type stall struct {
	effect  tool.Effect
	begun   chan string // of the workspaces it began in; has room for all
	wakes   chan struct{}
	stalled atomic.Bool
	woken   chan error // what it came to after it woke up
}

func newStall(effect tool.Effect) *stall {
	return &stall{effect: effect, begun: make(chan string, 16), wakes: make(chan struct{}), woken: make(chan error, 1)}
}

func (s *stall) Spec() tool.Spec {
	return tool.Spec{Name: "stall", Description: "writes", Input: json.RawMessage(`{"type":"object"}`), Effect: s.effect, Timeout: 55 * time.Second}
}

func (s *stall) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	err := c.Env.Sandbox.WriteFile("half.txt", []byte("half"))
	s.begun <- c.Env.Sandbox.Workspace()
	if !s.stalled.Swap(true) {
		<-s.wakes
		if err == nil {
			err = c.Env.Sandbox.WriteFile("late.txt", []byte("late"))
		}
		s.woken <- err
	}
	return tool.Result{Output: "stalled"}, err
}

func (w *world) tree(name string) workspace.Record {
	w.t.Helper()
	s, err := w.workspaces().Known(w.ctx(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Workspace
}

// workspaces is the log of workspaces, as who reads it without a cache.
func (w *world) workspaces() *treelog.Log {
	w.t.Helper()
	log, err := treelog.New(treelog.Config{Station: "test", By: events.Toolrunner, Journal: w.ports.TreeLog, Rows: w.ports.Trees,
		Entropy: rand.Reader})
	if err != nil {
		w.t.Fatal(err)
	}
	return log
}

// treeUntil waits for a record.
func (w *world) treeUntil(name, what string, want func(workspace.Record) bool) workspace.Record {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx := w.ctx()
	for {
		rec := w.tree(name)
		if want(rec) {
			return rec
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("the tree %s is not %s: %+v", name, what, rec)
		}
	}
}

const mover = `
turns:
  - when: {turn: 1}
    calls: [{name: bash, input: {command: "mkdir -p src && printf one > src/a.txt && printf x > gone.txt && ln -s a.txt src/link"}}]
  - when: {turn: 2}
    calls: [{name: bash, input: {command: "rm gone.txt && printf two >> src/a.txt"}}]
  - when: {turn: 3}
    calls: [{name: stall, input: {}}]
  - when: {turn: 4}
    calls: [{name: bash, input: {command: "cat src/link; ls; printf three > b.txt"}}]
  - when: {turn: 5}
    calls: [{name: read, input: {path: b.txt}}]
  - when: {turn: 6}
    text: "done"
`

func TestWorkspaceFollows(t *testing.T) {
	t.Parallel()
	for name, effect := range map[string]tool.Effect{"once": tool.Once, "idempotent": tool.Idempotent, "idempotent, and a hook holds its result back": tool.Idempotent} {
		t.Run("WS-3 SAFE-7 SAFE-8 a run whose machine is lost goes on at another with all files: "+name, func(t *testing.T) {
			t.Parallel()
			var hooks []events.Hook
			if strings.Contains(name, "hook") {
				hooks = []events.Hook{{ID: "h", On: events.OnPostTool, Tool: "stall", Subject: "nobody"}}
			}
			stall := newStall(effect)
			w := newWorld(t, stall)
			wake := sync.OnceFunc(func() { close(stall.wakes) })
			w.agent(events.Agent{Name: "mover", Tools: []string{"bash", "read", "stall"}, Hooks: hooks}, mover)
			w.start(events.Planner, events.Gatekeeper, events.Executor)
			g := &graves{Leases: w.ports.Leases}
			first := g.on(w, "follow", "one")
			t.Cleanup(wake) // before the machines are stopped
			w.task(events.Task{ID: "moves", Agent: "mover", Task: "go"})
			var at string
			select {
			case at = <-stall.begun:
			case <-w.ctx().Done():
				t.Fatal("the call never began\n" + w.story("moves"))
			}
			before := w.tree("run/moves")
			second := g.on(w, "follow", "two")
			t.Cleanup(wake)
			first.lose()
			s := w.ended("moves")
			if s.Status != events.Completed {
				t.Fatalf("%+v\n%s", s.Result, w.story("moves"))
			}
			after := w.treeUntil("run/moves", "given back", func(r workspace.Record) bool { return r.Owner == "" })
			if before.Owner != first.instance || after.Fence <= before.Fence || after.Snapshot == before.Snapshot {
				t.Errorf("before %+v, after %+v", before, after)
			}
			looked := s.ToolCallHistory.At(3).Result
			if !strings.Contains(looked, "onetwo") || strings.Contains(looked, "gone.txt") || !strings.Contains(s.ToolCallHistory.At(4).Result, "three") {
				t.Errorf("the other machine saw %q", looked)
			}
			third := s.ToolCallHistory.At(2)
			told := looked
			if effect == tool.Idempotent && hooks == nil { // what a hook holds back tells no one
				told = third.Result
			}
			if !strings.Contains(told, "machine that held this workspace was lost") || !strings.Contains(told, before.Covers) {
				t.Errorf("the agent is not told that the workspace moved: %q", told)
			}
			if unknown := third.Code == events.OutcomeUnknown; unknown != (effect == tool.Once) || effect == tool.Once && strings.Contains(looked, "half.txt") {
				t.Errorf("the call that was under way: %+v", third)
			}
			wake() // the machine that was taken for lost wakes up
			if err := <-stall.woken; err != nil {
				t.Errorf("it could not even write into its own directory: %v", err)
			}
			first.stop()
			if _, err := os.Stat(at); err == nil {
				t.Errorf("its directory is still there: %s", at)
			}
			if now := w.tree("run/moves"); now.Snapshot != after.Snapshot || now.Fence != after.Fence {
				t.Errorf("it changed the tree: %+v, was %+v", now, after)
			}
			if n := w.state("moves").Sequence; n != s.Sequence {
				t.Errorf("it said %d events after the end", n-s.Sequence)
			}
			second.stop()
		})
	}
}

// settled is mover without the call that stalls.
const settled = `
turns:
  - when: {turn: 1}
    calls: [{name: bash, input: {command: "mkdir -p src && printf one > src/a.txt"}}, {name: bash, input: {command: "printf x > x.txt"}}]
  - when: {turn: 2}
    calls: [{name: bash, input: {command: "printf two >> src/a.txt"}}, {name: read, input: {path: src/a.txt}}]
  - when: {turn: 3}
    calls: [{name: bash, input: {command: "cat src/a.txt x.txt"}}]
  - when: {turn: 4}
    text: "{{result.1}}"
`

func TestWorkspaceModes(t *testing.T) {
	t.Parallel()
	t.Run("WS-3 SAFE-7 a call costs as many events where workspaces follow as where they stay", func(t *testing.T) {
		t.Parallel()
		counts := map[string]map[string]int{}
		for _, mode := range []string{"local", "shared", "follow"} {
			w := newWorld(t)
			w.agent(events.Agent{Name: "settled", Tools: []string{"bash", "read"}}, settled)
			w.start(events.Planner, events.Gatekeeper, events.Executor)
			g := &graves{Leases: w.ports.Leases}
			m := g.on(w, mode, "one")
			w.task(events.Task{ID: "stays", Agent: "settled", Task: "go", Session: "s"})
			s := w.ended("stays")
			if s.Status != events.Completed || !strings.Contains(s.Result.Output, "onetwox") {
				t.Fatalf("%s: %+v", mode, s.Result)
			}
			counts[mode] = w.count("stays")
			_, err := os.Stat(filepath.Join(m.root, "session", "s", "src", "a.txt"))
			if there := err == nil; there != (mode != "follow") {
				t.Errorf("%s: the file is in its usual place: %v", mode, there)
			}
			if rec := w.tree("session/s"); (rec.Fence > 0) != (mode != "local") || (rec.Snapshot != "") != (mode == "follow") {
				t.Errorf("%s: %+v", mode, rec)
			}
		}
		if !maps.Equal(counts["local"], counts["shared"]) || !maps.Equal(counts["local"], counts["follow"]) {
			t.Errorf("%v", counts)
		}
	})
	for _, mode := range []string{"shared", "follow"} {
		t.Run("WS-13 SESS-6 two machines never work in one workspace, and runs of a session go on where the other stopped: "+mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.agent(events.Agent{Name: "settled", Tools: []string{"bash", "read"}}, settled)
			w.start(events.Planner, events.Gatekeeper, events.Executor)
			g := &graves{Leases: w.ports.Leases}
			names := [2]string{"one", "two"}
			if mode == "shared" {
				names[1] = "one"
			}
			first := g.on(w, mode, names[0])
			second := g.on(w, mode, names[1])
			for _, id := range []string{"r1", "r2", "r3"} {
				w.task(events.Task{ID: id, Agent: "settled", Task: "go", Session: "s"})
				if s := w.ended(id); s.Status != events.Completed || !strings.Contains(s.Result.Output, "onetwox") {
					t.Fatalf("%+v\n%s", s.Result, w.story(id))
				}
				runners := map[string]bool{}
				for _, f := range w.events(id) {
					d, err := events.Decode(f.Bytes)
					if err != nil {
						t.Fatal(err)
					}
					payload, err := d.Payload()
					if err != nil {
						t.Fatal(err)
					}
					if p, ok := payload.(*events.CallStartedData); ok {
						runners[p.Runner] = true
					}
				}
				if len(runners) != 1 {
					t.Errorf("%s was worked on by %v at a time", id, runners)
				}
			}
			w.treeUntil("session/s", "given back", func(r workspace.Record) bool { return r.Owner == "" })
			w.agent(events.Agent{Name: "looker", Tools: []string{"bash"}}, calling("bash", `{command: "cat src/a.txt"}`))
			first.stop() // in good order: no one waits for its lease
			w.task(events.Task{ID: "r4", Agent: "looker", Task: "go", Session: "s"})
			if s := w.ended("r4"); s.Status != events.Completed || !strings.Contains(s.Result.Output, "onetwo") {
				t.Errorf("%+v\n%s", s.Result, w.story("r4"))
			}
			second.stop()
			if rec := w.tree("session/s"); rec.Owner != "" {
				t.Errorf("not given back: %+v", rec)
			}
		})
	}
}
