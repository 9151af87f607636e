package localstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/pkg/events"
)

// childFile names the file that the child process of TestKill writes to.
const childFile = "INSPAN_TEST_LITE_FILE"

// TestMain is the child where it is told to be one: it appends for ever and prints each position that was acknowledged.
func TestMain(m *testing.M) {
	path := os.Getenv(childFile)
	if path == "" {
		m.Run() // its code becomes that of the program
		return
	}
	s, err := localstore.Open(context.Background(), localstore.Config{Path: path, Station: "exam"})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	last, _, err := s.Journal().Last(context.Background(), "r")
	for head := last.Seq; err == nil; {
		ack := s.Journal().Append(context.Background(), kernel.Entry{ID: "r", Kind: events.TurnFinished, Head: head, Bytes: fmt.Appendf(nil, "after %d", head)})
		if err = ack.Err; err == nil {
			head = ack.Seq
			fmt.Println(head)
		}
	}
	fmt.Println("error", err)
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
			evs, after := 0, uint64(0)
			for more := true; more; {
				var page []kernel.Record
				if page, more, err = s.Journal().Read(t.Context(), "r", after); err != nil {
					t.Fatal(err)
				}
				for _, r := range page {
					if want := fmt.Sprintf("after %d", after); string(r.Bytes) != want {
						t.Fatalf("at %d: got %q, want %q", r.Seq, r.Bytes, want)
					}
					evs, after = evs+1, r.Seq
				}
			}
			if after < acked {
				t.Fatalf("round %d: %d events up to %d, but %d was acknowledged", round, evs, after, acked)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// killed runs a child until it has acknowledged so many events, kills it, and returns the last position it told.
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
			if _, err := localstore.Open(t.Context(), localstore.Config{Path: path, Station: "exam"}); err == nil {
				t.Error("a second process opened the file")
			}
			_ = child.Process.Kill() // SIGKILL; what it still printed is read
		}
	}
	_ = errors.Join(lines.Err(), child.Wait()) // killed
	return last
}
