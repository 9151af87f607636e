package pool

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/reap"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// stand is a pool over a backend that is slow to open.
type stand struct {
	t      *testing.T
	pool   *Pool
	opener *Opener
	ledger *runlog.Ledger
	far    *faraway
	root   string
}

func newStand(t *testing.T, mode sandbox.Mode) *stand {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: st.JournalOf(events.Planner), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{t: t, far: newFaraway(mode), root: filepath.Join(t.TempDir(), "work")}
	sandboxes, err := NewOpener(Config{Root: s.root, Default: mode, Keep: time.Minute, Backends: map[sandbox.Mode]sandbox.Backend{mode: s.far}})
	if err != nil {
		t.Fatal(err)
	}
	s.opener, s.ledger = sandboxes, ledger
	s.pool = New(func(ctx context.Context, id string) bool {
		st, err := ledger.Fresh(ctx, id)
		return err == nil && st.Status.Ended()
	})
	t.Cleanup(s.pool.Close)
	return s
}

// said appends events to a run.
func (s *stand) said(runID string, all ...events.Payload) {
	s.t.Helper()
	if _, err := s.ledger.Write(s.t.Context(), runID, func(run.State, time.Time) ([]events.Payload, error) { return all, nil }); err != nil {
		s.t.Fatal(err)
	}
}

// member is a run with a step for each of two agents.
func member(id, workspace string) run.State {
	return run.State{HarnessID: id, Status: events.Running, Created: &events.RunCreatedData{Workspace: workspace},
		Agents: map[string]events.Agent{"a": {Name: "a"}, "b": {Name: "b"}},
		Plan: &run.Plan{Steps: []*run.Step{{ID: "one", AssignedAgent: "a", Status: events.StepIsRunning}, {ID: "two", AssignedAgent: "b", Status: events.StepIsRunning},
			{ID: "three", AssignedAgent: "a", Status: events.StepIsRunning}}}}
}

// inSession is a run of a session.
func inSession(id string) run.State {
	s := member(id, "session/s")
	s.Created.Session, s.Created.SessionFence = "s", 1
	return s
}

// lend opens the sandbox of a call; nil where it has one of its own.
func (s *stand) lend(ctx context.Context, st run.State, step string, out *Egress, need time.Duration) (sandbox.Sandbox, error) {
	at := workdir.Dir{Workspace: st.Created.Workspace, Path: st.Created.Workspace}
	open := s.pool.Acquirer(ctx, s.opener, st, step, s.opener.RequestFor(st, step, at, out), need)
	if open == nil {
		return nil, nil
	}
	return open()
}

func (s *stand) must(st run.State, step string) sandbox.Sandbox {
	s.t.Helper()
	sb, err := s.lend(s.t.Context(), st, step, nil, time.Second)
	if err != nil || sb == nil {
		s.t.Fatalf("no sandbox: %v, %v", sb, err)
	}
	return sb
}

func (s *stand) back(sb sandbox.Sandbox) {
	s.t.Helper()
	if err := sb.Destroy(s.t.Context()); err != nil {
		s.t.Error(err)
	}
}

// use lends a sandbox, runs a text in it, and gives it back.
func (s *stand) use(st run.State, step, text string) string {
	s.t.Helper()
	sb := s.must(st, step)
	defer s.back(sb)
	return s.sh(sb, text)
}

func (s *stand) sh(sb sandbox.Sandbox, text string) string {
	s.t.Helper()
	var out strings.Builder
	if exit, err := sb.Exec(s.t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", text}, Stdout: &out}); err != nil || exit.Code != 0 {
		s.t.Errorf("%s: %+v, %v", text, exit, err)
	}
	return out.String()
}

// counts waits for the ends that are under way.
func (s *stand) counts(opened, destroyed int) {
	s.t.Helper()
	s.pool.ending.Wait()
	if o, d := s.far.count(); o != opened || d != destroyed {
		s.t.Errorf("%d were opened and %d destroyed, want %d and %d", o, d, opened, destroyed)
	}
}

func TestPool(t *testing.T) {
	t.Parallel()
	t.Run("SBX-15 SBX-19 calls of a step have one sandbox, with its HOME, which goes with the step", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Docker)
		st := member("r1", "ws")
		s.use(st, "one", "echo mine > $HOME/note")
		if got := s.use(st, "one", "cat $HOME/note"); got != "mine\n" {
			t.Errorf("got %q", got)
		}
		s.counts(1, 0)
		s.pool.EndSteps("r1", func(step string) bool { return step == "two" })
		s.pool.EndSteps("r2", func(string) bool { return true })
		s.counts(1, 0)
		s.pool.EndSteps("r1", func(step string) bool { return step == "one" })
		s.counts(1, 1)
		if s.pool.Has("r1") || s.pool.Size() != 0 {
			t.Error("something is left of it")
		}
	})
	t.Run("SBX-18 SBX-19 other steps, agents and runs have others", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Docker)
		for _, c := range []struct{ run, step string }{{"r1", "one"}, {"r1", "two"}, {"r1", "three"}, {"r2", "one"}} {
			if got := s.use(member(c.run, "ws"), c.step, "cat $HOME/note 2>/dev/null || echo none; echo mine > $HOME/note"); got != "none\n" {
				t.Errorf("%+v: got %q", c, got)
			}
		}
		st := inSession("r3")
		s.use(st, "one", "echo mine > $HOME/note")
		if got := s.use(st, "two", "cat $HOME/note 2>/dev/null || echo none"); got != "none\n" {
			t.Errorf("the other agent of a session: got %q", got)
		}
		st.Agents["a"] = events.Agent{Name: "a", Sandbox: events.Sandbox{Denied: []string{"x"}}}
		if got := s.use(st, "one", "cat $HOME/note 2>/dev/null || echo none"); got != "none\n" {
			t.Errorf("the same agent with other settings: got %q", got)
		}
	})
	t.Run("SBX-13 SAFE-8 what has a way out of its own, or starts in no time, or is kept by no one, is opened for each call", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Docker)
		for name, c := range map[string]struct {
			mode sandbox.Mode
			st   run.State
			out  *Egress
			keep time.Duration
			kept bool
		}{
			"a list of hosts":         {sandbox.Docker, member("r", "ws"), &Egress{narrow: true}, time.Minute, false},
			"a list, in a session":    {sandbox.Docker, inSession("r"), &Egress{narrow: true}, time.Minute, false},
			"an open network":         {sandbox.Docker, member("r", "ws"), &Egress{}, time.Minute, true},
			"fast":                    {sandbox.Bwrap, member("r", "ws"), nil, time.Minute, false},
			"fast, in a session":      {sandbox.Bwrap, inSession("r"), nil, time.Minute, true},
			"nothing is to be kept":   {sandbox.Docker, inSession("r"), nil, 0, false},
			"a step that no plan has": {sandbox.Docker, run.State{HarnessID: "r", Created: &events.RunCreatedData{Workspace: "ws"}}, nil, time.Minute, false},
		} {
			sandboxes, err := NewOpener(Config{Root: s.root, Default: c.mode, Keep: c.keep, Backends: map[sandbox.Mode]sandbox.Backend{c.mode: s.far}})
			if err != nil {
				t.Fatal(err)
			}
			at := workdir.Dir{Workspace: "ws", Path: "ws"}
			if got := s.pool.Acquirer(t.Context(), sandboxes, c.st, "one", sandboxes.RequestFor(c.st, "one", at, c.out), time.Second) != nil; got != c.kept {
				t.Errorf("%s: kept %v", name, got)
			}
		}
	})
	t.Run("SBX-14 a closed path that comes to be, or is another, and a workspace that is another, need another sandbox", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Docker)
		st := member("r1", "ws")
		st.Agents["a"] = events.Agent{Name: "a", Sandbox: events.Sandbox{Denied: []string{".env"}}}
		at := filepath.Join(s.root, "ws", ".env")
		do := func(what string, err error, opened int) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s.use(st, "one", "true")
			}
			if n, _ := s.far.count(); n != opened {
				t.Errorf("%s: %d were opened, want %d", what, n, opened)
			}
		}
		do("it is not there", nil, 1)
		do("it is there", os.WriteFile(at, []byte("a"), 0o600), 2)
		do("it says something else", os.WriteFile(at, []byte("b"), 0o600), 2)
		do("another is in its place", errors.Join(os.WriteFile(at+".new", nil, 0o600), os.Rename(at+".new", at)), 3)
		do("a link is in its place", errors.Join(os.Remove(at), os.Symlink("other", at)), 4)
		do("the link leads to something", os.WriteFile(filepath.Join(s.root, "ws/other"), nil, 0o600), 5)
		do("the workspace is another", os.Rename(filepath.Join(s.root, "ws"), filepath.Join(s.root, "old")), 6)
		s.pool.ending.Wait()
		if _, destroyed := s.far.count(); destroyed != 5 {
			t.Errorf("%d were destroyed, want 5", destroyed)
		}
	})
	t.Run("SBX-12 SBX-15 each call has as long as its limit and that of the sandbox allow", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Docker)
		st := member("r1", "ws")
		st.Agents["a"] = events.Agent{Name: "a", Sandbox: events.Sandbox{TimeoutMS: 3_600_000}}
		take := func(need time.Duration) sandbox.Sandbox {
			t.Helper()
			sb, err := s.lend(t.Context(), st, "one", nil, need)
			if err != nil {
				t.Fatal(err)
			}
			return sb
		}
		s.back(take(time.Hour))
		s.back(take(30 * time.Minute))
		s.counts(1, 0)
		s.back(take(2 * time.Hour)) // it has a little less than an hour
		s.counts(2, 1)
		first := take(time.Minute)
		second := take(time.Hour) // another call is in it
		s.counts(2, 1)
		s.back(first)
		s.back(second)
		s.pool.Expire(24*time.Hour, time.Now().Add(50*time.Minute))
		s.counts(2, 1)
		s.pool.Expire(24*time.Hour, time.Now().Add(time.Hour))
		s.counts(2, 2)
	})
	t.Run("SAFE-14 so many that no one uses are kept, and none for longer than is said", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Docker)
		for i := range maxUnused + 1 {
			s.use(member(fmt.Sprint("r", i), "ws"), "one", "true")
		}
		s.counts(maxUnused+1, 1)
		if s.pool.Has("r0") || !s.pool.Has("r1") {
			t.Error("it was not the one that rested longest")
		}
		used := s.must(member("r1", "ws"), "one")
		s.pool.Expire(time.Hour, time.Now().Add(50*time.Minute))
		s.counts(maxUnused+1, 1)
		s.pool.Expire(time.Hour, time.Now().Add(61*time.Minute))
		s.counts(maxUnused+1, maxUnused)
		if s.sh(used, "echo on") != "on\n" {
			t.Error("one that was used has gone")
		}
		s.back(used)
		s.counts(maxUnused+1, maxUnused)
	})
	t.Run("SBX-17 what is kept belongs to the living, and the reaper leaves it alone", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Docker)
		base := t.TempDir()
		s.far.Backend = host.New(base)
		s.use(member("r1", "ws"), "one", "echo mine > $HOME/note")
		// Processes and groups that other programs of the machine left behind are removed too, and are none of this
		// sandbox.
		if found, err := reap.Reap(t.Context(), base); err != nil || found.Directories > 0 {
			t.Errorf("it removed %+v, %v", found, err)
		}
		if got := s.use(member("r1", "ws"), "one", "cat $HOME/note"); got != "mine\n" {
			t.Errorf("got %q", got)
		}
		s.pool.Clear()
		s.counts(1, 1)
		if left, err := os.ReadDir(base); err != nil || len(left) != 0 {
			t.Errorf("%v is left, %v", left, err)
		}
	})
	t.Run("SAFE-13 SBX-15 the end destroys all, also what is used, when it is given back", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Docker)
		s.use(member("r1", "ws"), "one", "true")
		used := s.must(member("r2", "ws"), "one")
		s.pool.Close()
		s.counts(2, 1)
		s.back(used)
		s.back(used) // twice is once
		s.counts(2, 2)
		if sb, err := s.lend(t.Context(), member("r3", "ws"), "one", nil, time.Second); sb != nil || err != nil {
			t.Errorf("after the end: %v, %v", sb, err)
		}
	})
}

func TestPoolSession(t *testing.T) {
	t.Parallel()
	ended := []events.Payload{runtest.Created(), runtest.Started(), &events.RunFailedData{Result: events.Result{Event: "run_complete", From: events.Running, Status: events.Failed, FinishReason: events.FinishStopped}}}
	t.Run("SBX-19 SESS-8 SESS-12 the sandbox of a session goes on to its next run when the one before has ended", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Host)
		s.use(inSession("r1"), "one", "echo mine > $HOME/note")
		s.said("r1", ended...)
		s.pool.EndSteps("r1", func(string) bool { return true })
		if got := s.use(inSession("r2"), "one", "cat $HOME/note"); got != "mine\n" {
			t.Errorf("got %q", got)
		}
		s.counts(1, 0)
	})
	t.Run("SESS-4 SAFE-8 runs of a session at the same time have sandboxes of their own", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Host)
		s.said("r1", runtest.Created(), runtest.Started())
		s.use(inSession("r1"), "one", "echo mine > $HOME/note")
		if got := s.use(inSession("r2"), "one", "cat $HOME/note 2>/dev/null || echo none"); got != "none\n" {
			t.Errorf("got %q", got)
		}
		if got := s.use(inSession("r1"), "one", "cat $HOME/note"); got != "mine\n" {
			t.Errorf("the first: got %q", got)
		}
	})
	t.Run("SAFE-8 SBX-19 what a run that has ended still does, its session's next run has no part in", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Host)
		late := s.must(inSession("r1"), "one")
		s.said("r1", ended...)
		if got := s.use(inSession("r2"), "one", "cat $HOME/note 2>/dev/null || echo none"); got != "none\n" {
			t.Errorf("got %q", got)
		}
		s.back(late)
		s.counts(2, 1)
	})
	t.Run("SESS-1 with a session that is deleted its sandbox goes", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.Host)
		s.use(inSession("r1"), "one", "true")
		s.pool.DropWorkspace("session/other")
		s.counts(1, 0)
		s.pool.DropWorkspace("session/s")
		s.counts(1, 1)
	})
}

// TestPoolModel compares a pool with what is allowed: each sandbox ends once, never while it is used, and none is left
// at the end.
func TestPoolModel(t *testing.T) {
	t.Parallel()
	t.Run("SBX-15 SAFE-14 a sandbox ends once, and not before its last user has left", rapid.MakeCheck(func(rt *rapid.T) {
		var s Pool
		now := time.Unix(0, 0)
		users := map[*idle]int{}
		var out []*pooled
		sb := func(k *pooled) *idle {
			b, err := k.open()
			if err != nil {
				rt.Fatal(err)
			}
			return b.(*idle)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"take": func(rt *rapid.T) {
				runID := rapid.SampledFrom([]string{"r1", "r2"}).Draw(rt, "run")
				key := rapid.SampledFrom([]string{"x", runID}).Draw(rt, "key")
				w := wanted{key: key, run: runID, step: key, need: time.Hour, wall: rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(rt, "wall"),
					opened: fingerprint{settings: rapid.SampledFrom([]string{"p", "q"}).Draw(rt, "plan")}, open: func() (sandbox.Sandbox, error) { return &idle{}, nil }}
				k, rested := s.take(w, now)
				b := sb(k)
				if _, known := users[b]; known == (rested < 0) {
					rt.Fatalf("known %v, rested %v", known, rested)
				}
				if k.opened.settings != w.opened.settings {
					rt.Fatal("it was opened with something else")
				}
				users[b]++
				out = append(out, k)
			},
			"give": func(rt *rapid.T) {
				if len(out) == 0 {
					return
				}
				i := rapid.IntRange(0, len(out)-1).Draw(rt, "which")
				users[sb(out[i])]--
				s.give(out[i], now)
				out = append(out[:i], out[i+1:]...)
			},
			"later":   func(*rapid.T) { now = now.Add(20 * time.Second) },
			"expire":  func(*rapid.T) { s.Expire(time.Minute, now) },
			"end":     func(*rapid.T) { s.EndSteps("r1", func(string) bool { return true }) },
			"discard": func(*rapid.T) { s.Clear() },
			"": func(rt *rapid.T) {
				s.ending.Wait()
				for b, n := range users {
					if b.ended > 1 || b.ended > 0 && n > 0 {
						rt.Fatalf("it ended %d times, with %d users", b.ended, n)
					}
				}
			},
		})
		for _, k := range out {
			s.give(k, now)
		}
		s.Close()
		for b := range users {
			if b.ended != 1 {
				rt.Fatalf("it ended %d times", b.ended)
			}
		}
	}))
}

// idle is a sandbox of which only the end is noted.
type idle struct {
	sandbox.Sandbox
	mu    sync.Mutex
	ended int
}

func (i *idle) Destroy(context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended++
	return nil
}
