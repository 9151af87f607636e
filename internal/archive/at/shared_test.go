package at_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/archive/at"
	"github.com/inspan/inspan/internal/archive/at/s3test"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// patience bounds waits; each ends as soon as what it waits for is there.
const patience = 5 * time.Minute

// source is a station with one run whose events are written by the test.
type source struct {
	st  *mem.Station
	run *runtest.Builder
}

func newSource(t *testing.T) *source {
	t.Helper()
	st, err := mem.New("demo", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &source{st: st, run: runtest.New("demo", "r")}
	s.append(t, runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"))
	return s
}

// append writes events to the log of the run.
func (s *source) append(t *testing.T, some ...events.Payload) {
	t.Helper()
	for _, b := range s.run.Append(some...) {
		e, err := events.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := e.Kind()
		var head uint64
		if log := s.st.Log("r"); len(log) > 0 {
			head = log[len(log)-1].Seq
		}
		if ack := s.st.Journal().Append(t.Context(), kernel.Entry{ID: "r", Kind: kind, Head: head, Bytes: b}); ack.Outcome != kernel.Stored {
			t.Fatalf("%s %v", ack.Outcome, ack.Err)
		}
	}
}

// saver is what one persister has; journal is that of the station where it is nil.
func (s *source) saver(t *testing.T, where string, journal kernel.Journal) *archive.Saver {
	t.Helper()
	d, err := at.Create(where)
	if err != nil {
		t.Fatal(err)
	}
	if journal == nil {
		journal = s.st.Journal()
	}
	return &archive.Saver{Dir: d, Station: "demo", Journal: journal, Blobs: s.st.Blobs(), State: s.st.KV(topology.StateBucket),
		Config: s.st.KV(topology.ConfigBucket)}
}

// late is a journal that does something after it was read and before its reader has what it read.
type late struct {
	kernel.Journal
	meanwhile func()
}

func (l late) Read(ctx context.Context, id string, after uint64) ([]kernel.Record, bool, error) {
	evs, more, err := l.Journal.Read(ctx, id, after)
	if l.meanwhile != nil {
		l.meanwhile()
	}
	return evs, more, err
}

func TestShared(t *testing.T) {
	t.Run("EVT-9 of two persisters that save one run none takes back what the other saved", func(t *testing.T) {
		_, where := s3test.Serve(t)
		s := newSource(t)
		quick := s.saver(t, where, nil)
		if err := quick.Dir.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		did := false
		slow := s.saver(t, where, late{Journal: s.st.Journal(), meanwhile: func() {
			if !did { // what the slow one has read is old when it writes
				did = true
				s.append(t, runtest.Checkpoint(s.run.State()))
				if m, err := quick.Save(t.Context(), "r"); err != nil || m.Sequence != 5 {
					t.Errorf("the quick one: %d events, %v", m.Sequence, err)
				}
			}
		}})
		if _, err := slow.Save(t.Context(), "r"); !errors.Is(err, archive.ErrChanged) {
			t.Errorf("the slow one: got %v, want ErrChanged", err)
		}
		m, _, err := quick.Dir.Manifest(t.Context(), "demo", "r")
		if err != nil || m.Sequence != 5 {
			t.Errorf("what is saved: %d events, %v; want 5", m.Sequence, err)
		}
		if m, err := slow.Save(t.Context(), "r"); err != nil || m.Sequence != 5 {
			t.Errorf("the slow one again: %d events, %v; want 5", m.Sequence, err)
		}
		if evs, err := archive.Events(t.Context(), slow.Dir, m); err != nil || len(evs) != 5 {
			t.Errorf("events of it: %d, %v", len(evs), err)
		}
	})
	t.Run("EVT-9 a run that could not be archived is tried again, without a new event", func(t *testing.T) {
		storage, where := attempts(t)
		s := newSource(t)
		saver := s.saver(t, where, nil)
		if err := saver.Dir.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		k, err := archive.NewKeeper(saver, time.Millisecond, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { k.Run(ctx); close(ended) }()
		k.Touch("r")
		saved(t, saver.Dir, 4) // from here on it asks for nothing by itself
		s.append(t, runtest.Checkpoint(s.run.State()))
		storage.Down(true)
		storage.Asked()
		if err := k.Save(t.Context(), "r"); err != nil {
			t.Error(err)
		}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for len(storage.Asked()) == 0 && t.Context().Err() == nil { // it was tried in vain
			<-tick.C
		}
		storage.Down(false)
		saved(t, saver.Dir, 5)
		stop()
		<-ended
	})
	t.Run("EVT-9 two keepers of one bucket save all events, while the storage comes and goes", func(t *testing.T) {
		storage, where := s3test.Serve(t)
		s := newSource(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{}, 2)
		var keepers []*archive.Keeper
		if storage != nil {
			storage.Down(true)
		}
		for range 2 {
			k, err := archive.NewKeeper(s.saver(t, where, nil), time.Millisecond, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			keepers = append(keepers, k)
			go func() { k.Run(ctx); ended <- struct{}{} }()
		}
		look, err := at.Create(where)
		if err != nil {
			t.Fatal(err)
		}
		for n := uint64(5); n < 12; n++ {
			s.append(t, runtest.Checkpoint(s.run.State()))
			for _, k := range keepers {
				if err := k.Save(t.Context(), "r"); err != nil {
					t.Errorf("save: got %v; an archive that does not answer is to hold up nothing", err)
				}
			}
			if storage != nil {
				if down := n%2 == 1; down && keepers[0].Waits() <= 0 {
					t.Error("a run that is not saved does not wait")
				}
				storage.Down(false)
			}
			saved(t, look, n)
			if storage != nil {
				storage.Down(n%2 == 0)
			}
		}
		if storage != nil {
			storage.Down(false)
		}
		stop() // each saves what is left
		<-ended
		<-ended
		for _, k := range keepers {
			if waits := k.Waits(); waits != 0 {
				t.Errorf("all is saved, and something waits for %s", waits)
			}
		}
	})
}

// attempts is storage of the test itself, which fails when it is to.
func attempts(t *testing.T) (*s3test.Server, string) {
	t.Helper()
	t.Setenv("INSPAN_TEST_S3", "")
	return s3test.Serve(t)
}

// saved waits until an archive has so many events of the run.
func saved(t *testing.T, d *archive.Dir, want uint64) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		m, _, err := d.Manifest(t.Context(), "demo", "r")
		if err == nil && m.Sequence == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d events are saved, %v; want %d", m.Sequence, err, want)
		}
	}
}
