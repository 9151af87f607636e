package localstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/pkg/events"
)

const (
	// childFile names the file that the child process of a test writes to.
	childFile = "INSPAN_TEST_LITE_FILE"
	// childRoom is how many bytes of a file the child may write, once there is a file; empty for any.
	childRoom = "INSPAN_TEST_LITE_ROOM"
	// childMany is set where the child appends to many runs at a time.
	childMany = "INSPAN_TEST_LITE_MANY"
	// manyRuns is how many that are.
	manyRuns = 12
)

// TestMain is the child where the environment asks for one: it appends for ever and prints each position that was acknowledged.
func TestMain(m *testing.M) {
	path := os.Getenv(childFile)
	if path == "" {
		m.Run() // its code becomes that of the program
		return
	}
	s, err := localstore.Open(context.Background(), localstore.Config{Path: path, Station: "exam"})
	if err == nil {
		err = limit(s, os.Getenv(childRoom))
	}
	if err != nil {
		fmt.Println("error", err)
		return
	}
	if os.Getenv(childMany) != "" {
		many(s)
		return
	}
	last, _, err := s.Journal().Last(context.Background(), "r")
	for head := last.Seq; err == nil; {
		ack := s.Journal().Append(context.Background(), kernel.Entry{ID: "r", Kind: events.TurnFinished, Head: head, Bytes: fmt.Appendf(nil, "after %d", head)})
		if err = ack.Err; err == nil {
			head = ack.Seq
			fmt.Println(head)
		}
		if ack.Outcome == kernel.Full {
			if _, err := s.Blobs().Put(context.Background(), "output", make([]byte, 1<<20)); err == nil {
				fmt.Println("error: an object was stored where there is no room")
			}
			if last, _, err := s.Journal().Last(context.Background(), "r"); err != nil || last.Seq != head {
				fmt.Println("error: the last is", last.Seq, err)
			}
			fmt.Println("full", errors.Join(s.Close()))
			return
		}
	}
	fmt.Println("error", err)
}

// many appends to runs side by side, for ever, and prints what was acknowledged.
func many(s *localstore.Station) {
	var all sync.WaitGroup
	for n := range manyRuns {
		id := fmt.Sprint("r-", n)
		all.Go(func() {
			last, _, err := s.Journal().Last(context.Background(), id)
			for head := last.Seq; err == nil; {
				ack := s.Journal().Append(context.Background(), kernel.Entry{ID: id, Kind: events.TurnFinished, Head: head, Bytes: fmt.Appendf(nil, "after %d", head)})
				if err = ack.Err; err == nil {
					head = ack.Seq
					fmt.Println(n, head)
				}
			}
			fmt.Println("error", err)
		})
	}
	all.Wait()
}

// limit bounds what this process writes, as a full disk does: the file is as long as it becomes, and then its end
// cannot be written.
func limit(s *localstore.Station, room string) error {
	if room == "" {
		return nil
	}
	var most uint64
	if _, err := fmt.Sscan(room, &most); err != nil {
		return err
	}
	ref, err := s.Blobs().Put(context.Background(), "output", make([]byte, 4*most))
	if err := errors.Join(err, s.Remove(ref.SHA256)); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ) // so that a write fails instead
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: most})
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	t.Run("PERS-17 PERS-15 where there is no room for an event it is refused, and what was acknowledged stays", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "full.bolt")
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childFile+"="+path, childRoom+"=200000")
		out, err := child.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if end := lines[len(lines)-1]; end != "full <nil>" || strings.Contains(string(out), "error") || len(lines) < 10 {
			t.Fatalf("it ends with %q after %d lines", end, len(lines))
		}
		var acked uint64
		if _, err := fmt.Sscan(lines[len(lines)-2], &acked); err != nil {
			t.Fatal(err)
		}
		s, err := localstore.Open(t.Context(), localstore.Config{Path: path, Station: "exam"})
		if err != nil {
			t.Fatal(err)
		}
		if _, after := whole(t, s, "r"); after != acked {
			t.Errorf("the last event is %d, %d was acknowledged", after, acked)
		}
		ack := s.Journal().Append(t.Context(), kernel.Entry{ID: "r", Kind: events.TurnFinished, Head: acked, Bytes: []byte("there is room")})
		if err := errors.Join(ack.Err, s.Close()); err != nil {
			t.Errorf("it does not go on: %v", err)
		}
	})
}

// whole reads what a child wrote to a run, and returns how many events there are and the position of the last.
func whole(t *testing.T, s *localstore.Station, id string) (evs int, after uint64) {
	t.Helper()
	for more := true; more; {
		var page []kernel.Record
		var err error
		if page, more, err = s.Journal().Read(t.Context(), id, after); err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			if want := fmt.Sprintf("after %d", after); string(r.Bytes) != want {
				t.Fatalf("at %d: got %q, want %q", r.Seq, r.Bytes, want)
			}
			evs, after = evs+1, r.Seq
		}
	}
	return evs, after
}

func TestKill(t *testing.T) {
	t.Parallel()
	t.Run("PERS-15 PERS-4 what was acknowledged before kill -9 is there, whole and in order, and one process owns the file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "killed.bolt")
		acked := uint64(0)
		for round := range 5 {
			acked = killed(t, path, 20+7*round, acked)
			s, err := localstore.Open(t.Context(), localstore.Config{Path: path, Station: "exam"})
			if err != nil {
				t.Fatal(err)
			}
			evs, after := whole(t, s, "r")
			if after < acked {
				t.Fatalf("round %d: %d events up to %d, but %d was acknowledged", round, evs, after, acked)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestKillOfMany(t *testing.T) {
	t.Parallel()
	t.Run("PERS-15 PERS-17 what writers that share a sync were acknowledged before kill -9 is there, each run in order", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "many.bolt")
		acked := map[int]uint64{}
		for round := range 4 {
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), childFile+"="+path, childMany+"=1")
			out, err := child.StdoutPipe()
			if err := errors.Join(err, child.Start()); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for n := 0; lines.Scan(); n++ {
				var id int
				var seq uint64
				if _, err := fmt.Sscan(lines.Text(), &id, &seq); err != nil {
					t.Fatalf("the child prints %q", lines.Text())
				}
				acked[id] = max(acked[id], seq)
				if n == 100+37*round {
					_ = child.Process.Kill() // SIGKILL; what it still printed is read
				}
			}
			_ = errors.Join(lines.Err(), child.Wait()) // killed
			s, err := localstore.Open(t.Context(), localstore.Config{Path: path, Station: "exam"})
			if err != nil {
				t.Fatal(err)
			}
			for id := range manyRuns {
				if evs, after := whole(t, s, fmt.Sprint("r-", id)); after < acked[id] {
					t.Errorf("round %d, run %d: %d events up to %d, but %d was acknowledged", round, id, evs, after, acked[id])
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if len(acked) < 2 {
			t.Errorf("%d runs had an event", len(acked))
		}
	})
}

// killed runs a child until it has acknowledged so many events, kills it, and returns the last position it printed.
func killed(t *testing.T, path string, evs int, last uint64) uint64 {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childFile+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		var seq uint64
		if _, err := fmt.Sscan(lines.Text(), &seq); err != nil {
			t.Fatalf("the child says %q", lines.Text())
		}
		last = seq
		if n == evs {
			if _, err := localstore.Open(t.Context(), localstore.Config{Path: path, Station: "exam"}); !errors.Is(err, localstore.ErrInUse) {
				t.Errorf("a second process opens the file: got %v, want %v", err, localstore.ErrInUse)
			}
			_ = child.Process.Kill() // SIGKILL; what it still printed is read
		}
	}
	_ = errors.Join(lines.Err(), child.Wait()) // killed
	return last
}
