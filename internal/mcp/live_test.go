package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/mcp/live"
	"github.com/inspan/inspan/internal/mcp/mcptest"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// house has homes for the servers of runs, which work in one workspace.
type house struct {
	*bench
	servers *live.Servers
	opener  *pool.Opener
	root    string
	// readOnly is shown to sandboxes; a server is started again where that changes.
	readOnly []string
	mu       sync.Mutex
	calls    map[string][]string
	entered  int
}

func newHouse(t *testing.T, b *bench, l live.Limits) *house {
	t.Helper()
	h := &house{bench: b, root: t.TempDir(), calls: map[string][]string{}}
	h.servers = live.New(l, nil)
	t.Cleanup(h.servers.Close)
	h.opener = h.opening()
	return h
}

func (h *house) opening() *pool.Opener {
	backend, err := backends.Local("").Pick(h.t.Context(), sandbox.Auto)
	if err != nil {
		h.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	o, err := pool.NewOpener(pool.Config{Root: h.root, Default: backend.Mode(), ReadOnly: append(h.readOnly, filepath.Dir(self)),
		Backends: map[sandbox.Mode]sandbox.Backend{backend.Mode(): backend}, Reaches: true})
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

var usual = live.Limits{Idle: time.Hour, Most: 8, Bytes: 1 << 20}

// at is the sandbox of a call with a home.
type at struct {
	sandbox.Sandbox
	home *live.Home
}

func (a at) Home() *live.Home { return a.home }

// do makes a call of a run, of which owner has the servers, and records that it came to an end.
func (h *house) do(ctx context.Context, owner, runID, call, name, input string) (tool.Result, error) {
	h.t.Helper()
	x, ok := h.tools.Get("mcp__test__" + name)
	if !ok {
		h.t.Fatalf("no tool %s", name)
	}
	home := &live.Home{Servers: h.servers, Owner: owner, OfRun: owner == runID, Run: runID, Call: call, Workspace: "w", Sandboxes: true,
		Enter: func() error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.entered++
			return nil
		},
		Plan: func(out *pool.Egress) (*pool.Plan, error) {
			return h.opener.Plan(pool.Request{Run: runID, Dir: workdir.Dir{Workspace: "w", Path: "w"}, Egress: out})
		},
		Egress: func(func(context.Context) (bool, error)) *pool.Egress { return nil },
		Holds:  func(context.Context) (bool, error) { return true, nil },
		Earlier: func(string) []string {
			h.mu.Lock()
			defer h.mu.Unlock()
			return append([]string(nil), h.calls[runID]...)
		}}
	r, err := x.Run(ctx, tool.Call{Run: runID, ID: call, Key: call, Input: json.RawMessage(input), Env: tool.Env{
		Sandbox: at{h.sandbox, home}, Progress: func(string, []byte) {}, MaxOutput: 16 << 10}})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[runID] = append(h.calls[runID], call)
	return r, err
}

// count makes a call that shows how many were made before.
func (h *house) count(owner, runID, call, want string) {
	h.t.Helper()
	r, err := h.do(within(h.t), owner, runID, call, "count", `{}`)
	if err != nil || r.Output != want {
		h.t.Errorf("call %s of %s: %q, %v; want %q", call, runID, r.Output, err, want)
	}
}

func (h *house) file(name string) string {
	data, err := os.ReadFile(filepath.Join(h.root, "w", name))
	if err != nil {
		return ""
	}
	return string(data)
}

// soon waits until something is so.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for ctx := within(t); !is(); {
		select {
		case <-ctx.Done():
			t.Fatal("never: " + what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

const again = "[server test was started again: what it kept in memory is lost]\n"

func TestLive(t *testing.T) {
	t.Parallel()
	server := program(t, mcptest.Good)
	server.Effects = []events.MCPEffect{{Tool: "hang", Effect: "read"}}
	b := pinned(t, server, nil)
	open := func(t *testing.T, l live.Limits) *house {
		t.Parallel()
		mine := *b
		mine.t = t
		return newHouse(t, &mine, l)
	}
	t.Run("ECO-3 a server keeps what it knows between the calls of a run and of a session, and serves no other", func(t *testing.T) {
		h := open(t, usual)
		h.count("r1", "r1", "c1", "call 1")
		h.count("r1", "r1", "c2", "call 2")
		h.count("r2", "r2", "c1", "call 1")
		h.count("s", "r3", "c1", "call 1")
		h.count("s", "r4", "c1", "call 2")
		h.count("r1", "r1", "c3", "call 3")
		if h.entered != 6 {
			t.Errorf("the workspace was entered %d times", h.entered)
		}
		h.servers.EndRun(within(t), "r1", false)
		h.servers.EndRun(within(t), "r4", false)
		h.count("s", "r4", "c2", "call 3")
		h.count("r1", "r1", "c4", again+"call 1")
		h.servers.DropWorkspace("w")
		h.count("s", "r4", "c3", again+"call 1")
	})
	t.Run("ECO-3 a server that died, was unused for too long or is one too many is started again, and the agent reads that", func(t *testing.T) {
		h := open(t, live.Limits{Idle: time.Hour, Most: 1, Bytes: 1 << 20})
		h.count("r1", "r1", "c1", "call 1")
		if _, err := h.do(within(t), "r1", "r1", "c2", "die", `{}`); tool.ClassOf(err) != tool.Unknown {
			t.Errorf("a server that dies in a call: %v", err)
		}
		if _, err := h.do(within(t), "r1", "r1", "c3", "refuse", `{}`); tool.ClassOf(err) != tool.Permanent {
			t.Errorf("a refusal: %v", err)
		}
		h.count("r1", "r1", "c4", again+"call 1") // the first result after it
		h.count("r1", "r1", "c5", "call 2")
		h.servers.Expire(time.Now().Add(30 * time.Minute))
		h.count("r1", "r1", "c6", "call 3")
		h.servers.Expire(time.Now().Add(2 * time.Hour))
		h.count("r1", "r1", "c7", again+"call 1")
		h.count("r2", "r2", "c1", "call 1")
		h.count("r1", "r1", "c8", again+"call 1")
	})
	t.Run("ECO-3 a server gives way when its sandbox or its definition is another, or a call was made elsewhere", func(t *testing.T) {
		h := open(t, usual)
		h.count("r1", "r1", "c1", "call 1")
		h.readOnly = []string{t.TempDir()}
		h.opener = h.opening()
		h.count("r1", "r1", "c2", again+"call 1")
		h.count("r1", "r1", "c3", "call 2")
		h.calls["r1"] = append(h.calls["r1"], "elsewhere")
		h.count("r1", "r1", "c4", again+"call 1")
		other := program(t, mcptest.Good)
		other.Env["MORE"] = "x"
		h.become(other)
		h.count("r1", "r1", "c5", again+"call 1")
	})
	t.Run("TOOL-22 a call that is given up leaves its server where it has no effect, and else ends it", func(t *testing.T) {
		h := open(t, usual)
		h.count("r1", "r1", "c1", "call 1")
		give := func(call, name, began string) {
			t.Helper()
			ctx, cancel := context.WithCancel(within(t))
			go func() {
				for h.file(began) == "" && ctx.Err() == nil {
					<-time.After(5 * time.Millisecond)
				}
				cancel()
			}()
			if _, err := h.do(ctx, "r1", "r1", call, name, `{}`); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		}
		give("c2", "hang", "began")
		if h.file("cancelled") == "" {
			t.Error("the server was not informed")
		}
		h.count("r1", "r1", "c3", "call 2")
		give("c4", "deaf", "deaf")
		if err := os.WriteFile(filepath.Join(h.root, "w", "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		h.count("r1", "r1", "c5", again+"call 1")
		if h.file("heard") != "" {
			t.Error("the call went on after it had ended")
		}
	})
	t.Run("ECO-3 parallel calls share a server, and each gets its own answer", func(t *testing.T) {
		h := open(t, usual)
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				name := fmt.Sprint("n", i)
				r, err := h.do(within(t), "r1", "r1", name, "meet", `{"name":"`+name+`"}`)
				if err != nil || r.Output != "met as "+name {
					t.Errorf("%s: %q %v", name, r.Output, err)
				}
			})
		}
		all.Wait()
	})
	t.Run("SAFE-12 a server that floods between calls is ended within bounds", func(t *testing.T) {
		h := open(t, live.Limits{Idle: time.Hour, Most: 8, Bytes: 64 << 10})
		if r, err := h.do(within(t), "r1", "r1", "c1", "chatter", `{}`); err != nil || r.Output != "and another thing" {
			t.Fatalf("%q %v", r.Output, err)
		}
		soon(t, "the server is ended", func() bool {
			h.servers.Expire(time.Now())
			return len(h.servers.Runs()) == 0
		})
		h.count("r1", "r1", "c2", again+"call 1")
	})
	t.Run("ECO-3 nothing lives on where nothing is to be kept, and nothing is left at the end", func(t *testing.T) {
		h := open(t, live.Limits{})
		h.count("r1", "r1", "c1", "call 1")
		h.count("r1", "r1", "c2", "call 1")
		h = newHouse(t, h.bench, usual)
		h.count("r1", "r1", "c1", "call 1")
		h.servers.Close()
		if _, err := h.do(within(t), "r1", "r1", "c2", "count", `{}`); tool.ClassOf(err) != tool.Transient {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestLiveOverHTTP(t *testing.T) {
	t.Parallel()
	t.Run("ECO-3 a session over HTTP goes on between calls, and a lost one is made again", func(t *testing.T) {
		t.Parallel()
		s, secrets, _ := remote(t, nil)
		b := pinned(t, s, secrets)
		h := newHouse(t, b, usual)
		h.count("r1", "r1", "c1", "call 1")
		h.count("r1", "r1", "c2", "call 2")
		if _, err := h.do(within(t), "r1", "r1", "c3", "spam", `{}`); tool.ClassOf(err) != tool.Unknown || !strings.Contains(err.Error(), "more than") {
			t.Errorf("a flood: %v", err)
		}
		h.count("r1", "r1", "c4", again+"call 3") // this server counts for all
	})
}
