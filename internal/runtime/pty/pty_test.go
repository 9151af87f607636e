package pty_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/runtime/pty"
	"github.com/inspan/inspan/internal/runtime/runtimetest"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/pkg/events"
)

func TestMain(m *testing.M) {
	if !runtimetest.Main() {
		m.Run()
	}
}

// stage is a program with a screen, and who it works for.
type stage struct {
	t       *testing.T
	runtime events.Runtime
	sandbox sandbox.Sandbox
	dir     string

	mu       sync.Mutex
	sessions []string
	live     string
	asked    []runtime.Tool
	permit   runtime.Permission
	waits    func(ctx context.Context) error // at a gate; nil does not wait
	said     func()
}

// Session implements runtime.Host.
func (s *stage) Session(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, id)
	return nil
}

// Update implements runtime.Host.
func (s *stage) Update(u runtime.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live += u.Text
	if s.said != nil {
		s.said()
	}
}

// Permit implements runtime.Host.
func (s *stage) Permit(ctx context.Context, t runtime.Tool) (runtime.Permission, error) {
	if s.waits != nil {
		if err := s.waits(ctx); err != nil {
			return runtime.Permission{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, t)
	return s.permit, nil
}

func newStage(t *testing.T, how string) *stage {
	t.Helper()
	s := &stage{t: t, runtime: runtimetest.Screen(t.TempDir(), how), dir: t.TempDir()}
	sb, err := host.New("").Open(t.Context(), sandbox.Config{ID: "screen", Workspace: s.dir, Network: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) })
	s.sandbox = sb
	return s
}

const session = "11111111-2222-4333-8444-555555555555"

func (s *stage) open(resume string) (runtime.Conversation, error) {
	s.t.Helper()
	c, err := pty.Driver{}.Start(s.t.Context(), runtime.Spec{Runtime: s.runtime, Sandbox: s.sandbox, Host: s, Resume: resume,
		Most: 8 << 20, Session: session})
	if err == nil {
		s.t.Cleanup(c.Close)
	}
	return c, err
}

func (s *stage) start(resume string) runtime.Conversation {
	s.t.Helper()
	c, err := s.open(resume)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *stage) prompt(lines ...string) (runtime.Reply, error) {
	s.t.Helper()
	return s.start("").Prompt(s.t.Context(), strings.Join(lines, "\n"))
}

// alone reports whether no process of the sandbox is left.
func (s *stage) alone() {
	s.t.Helper()
	if left, err := s.sandbox.Processes(s.t.Context()); err != nil || len(left) > 0 {
		s.t.Errorf("processes are left: %+v, %v", left, err)
	}
}

func TestTurn(t *testing.T) {
	t.Parallel()
	t.Run("ID-8 ID-6a CONT-3 CONT-10 a prompt is pasted, and the turn ends where the program shows its mark", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "")
		r, err := s.prompt("do this:", "!say hello", "!args", "!size")
		if err != nil || r.Failed || !strings.Contains(r.Text, "hello") || !strings.Contains(r.Text, "--session-id") ||
			!strings.Contains(r.Text, "size 50 160 <nil> xterm-256color") {
			t.Errorf("got %+v, %v", r, err)
		}
		if len(s.sessions) != 1 || s.sessions[0] != session {
			t.Errorf("sessions %q", s.sessions)
		}
	})
	t.Run("ID-8 without a mark the turn ends where the program shows no more that it works", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "")
		s.runtime.Terminal.End = ""
		if r, err := s.prompt("!say one", "!bash sleep 1; echo two"); err != nil || !strings.Contains(r.Text, "two") {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("CONT-3 CONT-8 a prompt of many lines and 10 KB arrives as it is, also where it has control sequences", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "")
		long := "!length " + strings.Repeat("0123456789", 1000)
		r, err := s.prompt("line \x1b[201~\x03\x04", long, "", "!say last")
		if err != nil || !strings.Contains(r.Text, "length 10000") || !strings.Contains(r.Text, "last") {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	for _, how := range []string{runtimetest.ScreenSlow, runtimetest.ScreenEnter, runtimetest.ScreenTrust} {
		t.Run("CONT-3 CONT-10 a program with the fault "+how+" is given its prompt once", func(t *testing.T) {
			t.Parallel()
			s := newStage(t, how)
			r, err := s.prompt("!bash echo ran >> ran; cat ran", "!tell")
			if err != nil || strings.Count(r.Text, "ran") != 1 || !strings.Contains(r.Text, "prompt 1") {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
	t.Run("ID-8 what the program asks its terminal is answered", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "")
		if r, err := s.prompt("!where"); err != nil || !strings.Contains(r.Text, "cursor [") {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("PLUS-12c CONT-4 a session goes on after the program has died, and one that is lost does not begin anew", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "")
		_, err := s.prompt("!say one", "!die")
		if !errors.Is(err, runtime.ErrEnded) || !strings.Contains(err.Error(), "signal SIGKILL") || strings.Contains(err.Error(), "\x1b") {
			t.Fatalf("got %v", err)
		}
		r, err := s.start(s.sessions[0]).Prompt(t.Context(), "!tell")
		if err != nil || !strings.Contains(r.Text, "prompt 2") {
			t.Errorf("got %+v, %v", r, err)
		}
		if _, err := s.open("22222222-2222-4333-8444-555555555555"); !errors.Is(err, runtime.ErrEnded) ||
			!strings.Contains(err.Error(), "No conversation found") {
			t.Errorf("got %v", err)
		}
	})
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	t.Run("GATE-9 PLUS-12b a question on the screen is put to the gatekeeper, and its answer is typed", func(t *testing.T) {
		t.Parallel()
		for key, allowed := range map[string]bool{"y": true, "n": false} {
			s := newStage(t, "")
			s.permit.Allowed = allowed
			r, err := s.prompt("!question May I go on?", "!say end")
			if err != nil || r.Failed || !strings.Contains(r.Text, "answered "+key) {
				t.Errorf("got %+v, %v", r, err)
			}
			if len(s.asked) != 1 || s.asked[0].Name != events.ToolOther || !strings.Contains(string(s.asked[0].Input), "May I go on?") {
				t.Errorf("asked %+v", s.asked)
			}
		}
	})
	t.Run("PLUS-12c CONT-4 a program that dies while its question waits for a person is lost at once", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "")
		s.waits = func(ctx context.Context) error {
			list, err := s.sandbox.Processes(ctx)
			if err != nil || len(list) == 0 {
				t.Errorf("got %v, %v", list, err)
			}
			for _, p := range list {
				_ = s.sandbox.Kill(ctx, p.PID) // one of them ends with another
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(2 * time.Minute):
				return errors.New("it waits for the person")
			}
		}
		if _, err := s.prompt("!question May I go on?"); !errors.Is(err, runtime.ErrEnded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SAFE-1 a question that no one answers ends the turn with its text", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "")
		r, err := s.prompt("!question Delete everything?")
		if err != nil || !r.Failed || !strings.Contains(r.Reason, "Delete everything?") {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}

func TestHostile(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{runtimetest.ScreenNever: "does not show that it is ready; its screen: \"The fake program",
		runtimetest.ScreenUnpasted: "takes no pasted text", runtimetest.ScreenDead: "status 7"} {
		t.Run("CONT-10 ID-6a a program with the fault "+how+" is given up with the reason", func(t *testing.T) {
			t.Parallel()
			s := newStage(t, how)
			s.runtime.Terminal.ReadyMS = 3000
			if _, err := s.open(""); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
			s.alone()
		})
	}
	t.Run("SAFE-1 CONT-5 no sequence of the program reaches who reads it", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "")
		r, err := s.prompt("!escape", "!bash sleep 1.2", "!say x", "!bash sleep 1.2", "!say end")
		unfit := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if err != nil || !strings.Contains(r.Text, "red") || strings.Contains(r.Text, "ZXZpbA") || strings.ContainsFunc(r.Text, unfit) {
			t.Errorf("got %q, %v", r.Text, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !strings.Contains(s.live, "red") || strings.ContainsFunc(s.live, unfit) {
			t.Errorf("live: %q", s.live)
		}
	})
	t.Run("SAFE-1 a program that prints without end is ended", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "")
		c := s.start("")
		if _, err := c.Prompt(t.Context(), "!endless"); !errors.Is(err, runtime.ErrFlood) {
			t.Errorf("got %v", err)
		}
		c.Close()
		s.alone()
	})
	t.Run("SAFE-1 CONT-18 what a program leaves behind when it ends, ends too", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "")
		c := s.start("")
		if _, err := c.Prompt(t.Context(), "!fork"); !errors.Is(err, runtime.ErrEnded) {
			t.Errorf("got %v", err)
		}
		c.Close()
		s.alone()
	})
	t.Run("CONT-6 CONT-14 a program is signalled, and where it ignores that, killed", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "")
		c := s.start("")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		go func() { // the program says that it is deaf
			for ctx.Err() == nil {
				s.mu.Lock()
				deaf := strings.Contains(s.live, "deaf\n")
				s.mu.Unlock()
				if deaf {
					cancel()
				}
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		}()
		if _, err := c.Prompt(ctx, "!bash sleep 1.2\n!deaf"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		c.Close()
		if b, err := os.ReadFile(filepath.Join(s.dir, runtimetest.Signalled)); err != nil || string(b) != syscall.SIGTERM.String() {
			t.Errorf("it was not signalled before it was killed: %q, %v", b, err)
		}
		s.alone()
	})
}
