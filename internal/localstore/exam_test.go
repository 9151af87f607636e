package localstore_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/pkg/events"
)

// open opens a station in a file of its own.
func open(t *testing.T, cfg localstore.Config) *localstore.Station {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "it's 100% ours?.bolt")
	}
	cfg.Station = "exam"
	s, err := localstore.Open(t.Context(), cfg)
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

func post(t *testing.T) kerneltest.Post {
	const ackWait = 300 * time.Millisecond
	s := open(t, localstore.Config{AckWait: ackWait})
	return kerneltest.Post{Station: s.Name(), Journal: s.Journal(), Other: s.JournalFor(kerneltest.CounterAggregate),
		Inbox: s.Inbox(), Timers: s.Timers(), TimersFor: s.TimersFor, Publish: s.Publish, AckWait: ackWait}
}

func TestJournalExam(t *testing.T) {
	t.Parallel()
	kerneltest.Journal(t, func(t *testing.T) kerneltest.Journals { return open(t, localstore.Config{}).JournalFor })
}

func TestInboxExam(t *testing.T) {
	t.Parallel()
	kerneltest.Inbox(t, post)
}

func TestTimersExam(t *testing.T) {
	t.Parallel()
	kerneltest.Timers(t, post)
}

func TestBlobsExam(t *testing.T) {
	t.Parallel()
	kerneltest.Blobs(t, func(t *testing.T) (kernel.Blobs, func(*testing.T, events.Ref, []byte)) {
		s := open(t, localstore.Config{})
		return s.Blobs(), func(t *testing.T, ref events.Ref, data []byte) {
			if err := s.Damage(ref.SHA256, data); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestShelfExam(t *testing.T) {
	t.Parallel()
	kerneltest.KV(t, func(t *testing.T) kernel.KV { return open(t, localstore.Config{}).KV("harness-state") })
}

func TestRefusalsExam(t *testing.T) {
	t.Parallel()
	kerneltest.Refusals(t, func(t *testing.T) kernel.Refusals { return open(t, localstore.Config{}).Refusals() })
}

func TestLeasesExam(t *testing.T) {
	t.Parallel()
	kerneltest.Leases(t, func(t *testing.T) (kernel.Leases, time.Duration) {
		return open(t, localstore.Config{LeaseTerm: 200 * time.Millisecond}).Leases(), 200 * time.Millisecond
	})
}
