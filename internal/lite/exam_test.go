package lite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/lite"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/reactor/reactortest"
	"github.com/inspan/inspan/pkg/events"
)

// open opens a station in a file of its own.
func open(t *testing.T, cfg lite.Config) *lite.Station {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "it's 100% ours?.db")
	}
	cfg.Station = "exam"
	s, err := lite.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func post(t *testing.T) reactortest.Post {
	const ackWait = 300 * time.Millisecond
	s := open(t, lite.Config{AckWait: ackWait})
	return reactortest.Post{Station: s.Name(), Journal: s.Journal(), Inbox: s.Inbox(), Timers: s.Timers(), Publish: s.Publish, AckWait: ackWait}
}

func TestJournalExam(t *testing.T) {
	t.Parallel()
	reactortest.Journal(t, func(t *testing.T) reactor.Journal { return open(t, lite.Config{}).Journal() })
}

func TestInboxExam(t *testing.T) {
	t.Parallel()
	reactortest.Inbox(t, post)
}

func TestTimersExam(t *testing.T) {
	t.Parallel()
	reactortest.Timers(t, post)
}

func TestBlobsExam(t *testing.T) {
	t.Parallel()
	reactortest.Blobs(t, func(t *testing.T) (reactor.Blobs, func(*testing.T, events.Ref, []byte)) {
		s := open(t, lite.Config{})
		return s.Blobs(), func(t *testing.T, ref events.Ref, data []byte) {
			if err := s.Damage(ref.SHA256, data); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestShelfExam(t *testing.T) {
	t.Parallel()
	reactortest.Shelf(t, func(t *testing.T) reactor.Shelf { return open(t, lite.Config{}).Shelf("harness-state") })
}

func TestLeasesExam(t *testing.T) {
	t.Parallel()
	reactortest.Leases(t, func(t *testing.T) (reactor.Leases, time.Duration) {
		return open(t, lite.Config{LeaseTerm: 200 * time.Millisecond}).Leases(), 200 * time.Millisecond
	})
}
