package runtimetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/pkg/events"
)

// maxPrinted is what the program may print in the exam, in bytes.
const maxPrinted = 8 << 20

// stage is a program that is driven, and who it works for.
type stage struct {
	t       *testing.T
	driver  runtime.Driver
	runtime events.Runtime
	sandbox sandbox.Sandbox
	dir     string

	mu       sync.Mutex
	sessions []string
	text     string
	thoughts int
	ended    []runtime.Tool
	asked    []runtime.Tool
	// said is called with each text that comes; nil does nothing.
	said func(text string)
	// permit answers; nil allows.
	permit func(ctx context.Context, t runtime.Tool) (runtime.Permission, error)
}

var _ runtime.Host = (*stage)(nil)

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
	switch {
	case u.Kind == runtime.Text:
		s.text += u.Text
		if s.said != nil {
			s.said(u.Text)
		}
	case u.Kind == runtime.Thought:
		s.thoughts += len(u.Text)
	case u.Kind == runtime.ToolCall && u.Tool.Ended:
		s.ended = append(s.ended, u.Tool)
	}
}

// Permit implements runtime.Host.
func (s *stage) Permit(ctx context.Context, t runtime.Tool) (runtime.Permission, error) {
	s.mu.Lock()
	s.asked = append(s.asked, t)
	permit := s.permit
	s.mu.Unlock()
	if permit == nil {
		return runtime.Permission{Allowed: true}, nil
	}
	return permit(ctx, t)
}

func newStage(t *testing.T, driver runtime.Driver, name string) *stage {
	t.Helper()
	s := &stage{t: t, driver: driver, runtime: Runtime(name, t.TempDir()), dir: t.TempDir()}
	sb, err := host.New("").Open(t.Context(), sandbox.Config{ID: "exam", Workspace: s.dir, Network: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) })
	s.sandbox = sb
	return s
}

// Spec is a program that is to be started on an empty workspace, and allowed all that it asks for.
func Spec(t *testing.T, r events.Runtime) runtime.Spec {
	t.Helper()
	s := newStage(t, nil, r.Driver)
	return runtime.Spec{Runtime: r, Sandbox: s.sandbox, Host: s, Most: maxPrinted}
}

func (s *stage) start(resume string) runtime.Conversation {
	s.t.Helper()
	c, err := s.driver.Start(s.t.Context(), runtime.Spec{Runtime: s.runtime, Sandbox: s.sandbox, Host: s, Resume: resume,
		Most: maxPrinted, Session: "11111111-2222-4333-8444-555555555555"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func (s *stage) prompt(lines ...string) (runtime.Reply, error) {
	s.t.Helper()
	return s.start("").Prompt(s.t.Context(), strings.Join(lines, "\n"))
}

// alone reports whether no process of the sandbox is left.
func (s *stage) alone() {
	s.t.Helper()
	if left, err := s.sandbox.Processes(s.t.Context()); err == nil && len(left) > 0 {
		s.t.Errorf("processes are left: %+v", left)
	}
}

// Exam is what each driver passes with the program of this package.
func Exam(t *testing.T, driver runtime.Driver, name string) {
	t.Run("ECO-6a ID-8 a prompt is worked on, and what is said comes as it is said", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, driver, name)
		r, err := s.prompt("do this:", "!think hm", "!say hello,", "!say  world")
		if err != nil || r.Failed || !strings.Contains(r.Text, "hello,") || !strings.Contains(s.text, "world") ||
			s.thoughts != 2 {
			t.Errorf("got %+v, %v; it came as %q", r, err, s.text)
		}
		if len(s.sessions) != 1 || s.sessions[0] == "" {
			t.Errorf("sessions %q", s.sessions)
		}
	})
	if name != events.DriverCodex { // which asks no one
		asks(t, driver, name)
	}
	if name == events.DriverACP {
		late(t, driver, name)
	}
	t.Run("PLUS-12c CONT-4 a session goes on after the program has died", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, driver, name)
		_, err := s.prompt("!say one", "!die")
		if !errors.Is(err, runtime.ErrEnded) || !strings.Contains(err.Error(), "signal ") ||
			strings.Contains(err.Error(), "\x1b") ||
			!strings.Contains(err.Error(), "this is <U+001B>[31mwhy") {
			t.Fatalf("got %v", err)
		}
		r, err := s.start(s.sessions[0]).Prompt(t.Context(), "!tell")
		if err != nil || strings.TrimSpace(r.Text) != "prompt 2" {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("PLUS-12c a session that is not there is not begun anew in silence", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, driver, name)
		c, err := driver.Start(t.Context(), runtime.Spec{Runtime: s.runtime, Sandbox: s.sandbox, Host: s, Resume: "gone"})
		if err == nil {
			t.Cleanup(c.Close)
			_, err = c.Prompt(t.Context(), "!say hello")
		}
		if err == nil {
			t.Error("got no error")
		}
	})
	t.Run("ECO-6a a prompt that is cancelled ends, and so does the program", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, driver, name)
		c := s.start("")
		ctx, cancel := context.WithCancel(t.Context())
		s.said = func(string) { cancel() }
		if r, err := c.Prompt(ctx, "!say now\n!hang"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %+v, %v", r, err)
		}
		c.Close()
		s.alone()
	})
	t.Run("ECO-6a CONT-6 CONT-14 a program is signalled, and where it ignores that, killed", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, driver, name)
		c := s.start("")
		ctx, cancel := context.WithCancel(t.Context())
		s.said = func(string) { cancel() }
		if r, err := c.Prompt(ctx, "!deaf"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %+v, %v", r, err)
		}
		c.Close()
		if b, err := os.ReadFile(filepath.Join(s.dir, Signalled)); err != nil || string(b) != syscall.SIGTERM.String() {
			t.Errorf("it was not signalled before it was killed: %q, %v", b, err)
		}
		s.alone()
	})
	hostile(t, driver, name)
}

// asks is about a program that asks before it acts.
func asks(t *testing.T, driver runtime.Driver, name string) {
	t.Run("PLUS-12a what the program asks for is done where it is allowed, and what became of it is told",
		func(t *testing.T) {
			t.Parallel()
			s := newStage(t, driver, name)
			r, err := s.prompt("!bash echo made > made; echo out")
			if _, there := os.Stat(filepath.Join(s.dir, "made")); err != nil || there != nil ||
				strings.Contains(r.Text, "refused") {
				t.Fatalf("got %+v, %v, %v", r, err, there)
			}
			if len(s.asked) != 1 || s.asked[0].Name != "bash" || !strings.Contains(string(s.asked[0].Input), "echo made") {
				t.Errorf("asked for %+v", s.asked)
			}
			if len(s.ended) != 1 || s.ended[0].ID != s.asked[0].ID || s.ended[0].Output != "out\n" || s.ended[0].Failed {
				t.Errorf("ended %+v", s.ended)
			}
		})
	t.Run("PLUS-12a SAFE-1 what is refused, or cannot be decided, is not done", func(t *testing.T) {
		t.Parallel()
		for _, answer := range []error{nil, errors.New("the log is away")} {
			s := newStage(t, driver, name)
			s.permit = func(context.Context, runtime.Tool) (runtime.Permission, error) {
				return runtime.Permission{Allowed: answer != nil, Reason: "no"}, answer
			}
			r, err := s.prompt("!bash echo made > made", "!say and on")
			if _, there := os.Stat(filepath.Join(s.dir, "made")); err != nil || there == nil ||
				!strings.Contains(r.Text, "refused.") ||
				!strings.Contains(r.Text, "and on") {
				t.Errorf("%v: got %+v, %v, %v", answer, r, err, there)
			}
		}
	})
}

// late is about a program that tells what a question is about after it has asked.
func late(t *testing.T, driver runtime.Driver, name string) {
	t.Run("PLUS-12a GUARD-9 a question without arguments is judged by what the program tells of the call", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, driver, name)
		if r, err := s.prompt("!late secret.txt"); err != nil || r.Failed {
			t.Fatalf("got %+v, %v", r, err)
		}
		if len(s.asked) != 1 || s.asked[0].Name != "read" || !slices.Equal(s.asked[0].Paths, []string{"secret.txt"}) ||
			!strings.Contains(string(s.asked[0].Input), "secret.txt") {
			t.Errorf("asked for %+v", s.asked)
		}
	})
}

// hostile is what a program must not bring about.
func hostile(t *testing.T, driver runtime.Driver, name string) {
	for verb, want := range map[string]error{"!garbage": runtime.ErrProtocol, "!cut": runtime.ErrEnded,
		"!line":  runtime.ErrFlood,
		"!flood": runtime.ErrFlood} {
		t.Run("ECO-6a SAFE-1 a program that prints "+verb[1:]+" is given up", func(t *testing.T) {
			t.Parallel()
			s := newStage(t, driver, name)
			c := s.start("")
			r, err := c.Prompt(t.Context(), verb)
			if !errors.Is(err, want) || len(r.Text) > runtime.MaxText {
				t.Errorf("got %d bytes, %v", len(r.Text), err)
			}
			if verb == "!cut" && !strings.Contains(err.Error(), "in the middle of a line") {
				t.Errorf("got %v", err)
			}
			c.Close()
			s.alone()
		})
	}
	t.Run("ECO-6a a program of another version of the protocol is refused", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, driver, name)
		s.runtime = Strange(s.runtime)
		c, err := driver.Start(t.Context(), runtime.Spec{Runtime: s.runtime, Sandbox: s.sandbox, Host: s})
		if err == nil {
			t.Cleanup(c.Close)
			_, err = c.Prompt(t.Context(), "!say hello")
		}
		if !errors.Is(err, runtime.ErrProtocol) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("ID-6a a program that is not there is told of", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, driver, name)
		s.runtime.Command = []string{"inspan-no-such-program"}
		c, err := driver.Start(t.Context(), runtime.Spec{Runtime: s.runtime, Sandbox: s.sandbox, Host: s})
		if err == nil {
			t.Cleanup(c.Close)
			_, err = c.Prompt(t.Context(), "!say hello")
		}
		if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, sandbox.ErrNotStarted) {
			t.Errorf("got %v", err)
		}
	})
}
