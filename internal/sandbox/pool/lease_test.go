package pool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/run"
)

func TestLease(t *testing.T) {
	t.Parallel()
	first := func(t *testing.T) (*stand, run.State, *faraSandbox) {
		s := newStand(t, sandbox.E2B)
		st := member("r1", "ws")
		s.use(st, "one", "echo 1 > $HOME/note")
		return s, st, s.far.sandboxes[0]
	}
	t.Run("SBX-15 SBX-19 one that died in between is replaced, and the command is carried out once", func(t *testing.T) {
		t.Parallel()
		s, st, sb := first(t)
		sb.dead = true
		s.use(st, "one", "echo x >> did")
		s.use(st, "one", "echo x >> did")
		if b, err := os.ReadFile(filepath.Join(s.root, "ws/did")); err != nil || string(b) != "x\nx\n" {
			t.Errorf("got %q, %v", b, err)
		}
		s.counts(2, 1)
	})
	t.Run("SAFE-7 one that is lost in the middle of a command is not replaced for it: its outcome is unknown", func(t *testing.T) {
		t.Parallel()
		s, st, sb := first(t)
		lease := s.must(st, "one")
		sb.dead, sb.next = true, fmt.Errorf("%w: %w", sandbox.ErrNotStarted, sandbox.ErrLost)
		if _, err := lease.Exec(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("got %v", err)
		}
		s.back(lease)
		s.counts(1, 0)
		if got := s.use(st, "one", "ls $HOME"); got != "" { // the next call finds out
			t.Errorf("got %q", got)
		}
		s.counts(2, 1)
	})
	t.Run("SBX-19 a program that is not there is no sign of death", func(t *testing.T) {
		t.Parallel()
		s, st, _ := first(t)
		lease := s.must(st, "one")
		if _, err := lease.Exec(t.Context(), sandbox.Cmd{Args: []string{"no-such-program"}}); err == nil {
			t.Error("got no error")
		}
		s.back(lease)
		if got := s.use(st, "one", "cat $HOME/note"); got != "1\n" {
			t.Errorf("got %q", got)
		}
		s.counts(1, 0)
	})
	t.Run("SBX-20 where none can be opened in its place, the first error stands", func(t *testing.T) {
		t.Parallel()
		s, st, sb := first(t)
		lease := s.must(st, "one")
		sb.dead, s.far.fail = true, errors.New("no room")
		if _, err := lease.Exec(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrNotStarted) {
			t.Errorf("got %v", err)
		}
		s.back(lease)
		s.use(st, "one", "true")
		s.counts(2, 1)
	})
	t.Run("SBX-19 one that could not be opened is opened anew for the next call", func(t *testing.T) {
		t.Parallel()
		s := newStand(t, sandbox.E2B)
		s.far.fail = errors.New("no room")
		if sb, err := s.lend(t.Context(), member("r1", "ws"), "one", nil, time.Second); err == nil {
			t.Errorf("got %v", sb)
		}
		s.use(member("r1", "ws"), "one", "true")
		s.counts(1, 0)
	})
	t.Run("SBX-2 SBX-15 what a call has started ends with it, and what others started goes on", func(t *testing.T) {
		t.Parallel()
		s, st, _ := first(t)
		mine, other := s.must(st, "one"), s.must(st, "one")
		sleeps := sandbox.Cmd{Args: []string{"sleep", "600"}}
		p, err := mine.Start(t.Context(), sleeps)
		if err != nil {
			t.Fatal(err)
		}
		q, err := other.Start(t.Context(), sleeps)
		if err != nil {
			t.Fatal(err)
		}
		s.back(mine)
		if _, err := p.Wait(); err == nil {
			t.Error("it ended as if by itself")
		}
		list, err := other.Processes(t.Context())
		if err != nil || len(list) != 1 || list[0].PID != q.PID() {
			t.Errorf("got %+v, %v", list, err)
		}
		s.back(other)
		s.counts(1, 0)
	})
}
