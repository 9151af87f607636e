package persister_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/persister"
)

// counted counts the reads of a journal.
type counted struct {
	kernel.Journal
	reads atomic.Int64
}

func (c *counted) Read(ctx context.Context, runID string, after uint64) ([]kernel.Record, bool, error) {
	c.reads.Add(1)
	return c.Journal.Read(ctx, runID, after)
}

// finished is a whole run of some steps, in each of which the model says a text of so many bytes.
func finished(count, size int) *runtest.Builder { return steps("r", count, size) }

// steps is finished for a run of a name.
func steps(id string, count, size int) *runtest.Builder {
	created := runtest.Created()
	created.Options.EternalEngine = false // a checkpoint would be an event of its own
	b := runtest.New("test", id)
	var plan []events.PlanStep
	for i := range count {
		plan = append(plan, runtest.Step(fmt.Sprintf("s%d", i)))
	}
	b.Append(created, runtest.Started(), runtest.Plan(plan...))
	for i, st := range plan {
		b.Append(runtest.Ready(st.ID), runtest.Allowed(st.ID), runtest.Turn(i+1, st.ID, strings.Repeat("t", size)), runtest.StepDone(st.ID, "done"))
	}
	b.Append(&events.PlanCompletedData{Event: "plan_completed"})
	for _, p := range runtest.Answer(b.State(), events.Planner) {
		if d, ok := p.(*events.RunCompletedData); ok {
			b.Append(d)
		}
	}
	return b
}

// receivedAll gives one persister a whole run, each event as change has it, and returns the archive and how often the
// log was read.
func receivedAll(t *testing.T, b *runtest.Builder, change func(n int, h *runlog.ReceivedEvent) bool) (lines []byte, reads int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	st, err := mem.New("test", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, st, b, b.Events())
	role, ledger, journal := persisterOf(t, st)
	for n, rec := range st.Log("r") {
		s, err := ledger.Receive(ctx, "r", rec)
		if err != nil {
			t.Fatal(err)
		}
		h := runlog.ReceivedEvent{Run: "r", Kind: rec.Kind, Sequence: uint64(n) + 1, Seq: rec.Seq, State: s, Deliveries: 2, Stored: rec.Bytes}
		if !change(n, &h) {
			continue
		}
		if err := role.Event(ctx, h); err != nil {
			t.Fatal(err)
		}
	}
	return archived(t, st), journal.reads.Load()
}

func TestLateEvents(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-16 events of a run that ended long ago do not make its archive again", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			st, err := mem.New("test", mem.Config{})
			if err != nil {
				t.Fatal(err)
			}
			b := finished(1, 4)
			put(t, st, b, b.Events())
			role, ledger, journal := persisterOf(t, st)
			log := st.Log("r")
			receive := func(n int) {
				s, err := ledger.Receive(t.Context(), "r", log[n])
				if err != nil {
					t.Fatal(err)
				}
				if err := role.Event(t.Context(), runlog.ReceivedEvent{Run: "r", Kind: log[n].Kind, Sequence: uint64(n) + 1, Seq: log[n].Seq,
					State: s, Deliveries: 2, Stored: log[n].Bytes}); err != nil {
					t.Fatal(err)
				}
			}
			receive(len(log) - 1)
			before, want := journal.reads.Load(), archived(t, st)
			<-time.After(time.Hour) // of the bubble
			receive(len(log) - 2)
			if after := journal.reads.Load(); after != before || before == 0 {
				t.Errorf("the log was read %d times, %d before the late event", after, before)
			}
			if got := archived(t, st); !bytes.Equal(got, want) {
				t.Errorf("archive\n%s\nwant\n%s", got, want)
			}
		})
	})
}

// persisterOf is a persister of a station, whose reads are counted.
func persisterOf(t *testing.T, st *mem.Station) (*persister.Role, *runlog.Ledger, *counted) {
	t.Helper()
	kv, journal := st.KV(topology.StateBucket), &counted{Journal: st.Journal()}
	ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: "test", By: events.Persister, Journal: st.Journal(), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	role, err := persister.New(persister.Config{Ledger: ledger, Journal: journal, KV: kv, Blobs: st.Blobs(),
		Snapshots: &snapshot.Store{KV: kv, Blobs: st.Blobs()}, Log: zerolog.Nop(), Settle: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	return role, ledger, journal
}

// archived returns the archive that the row of the run names.
func archived(t *testing.T, st *mem.Station) []byte {
	t.Helper()
	row, err := st.KV(topology.StateBucket).Get(t.Context(), persister.InfoKey("r"))
	if err != nil {
		t.Fatal(err)
	}
	var info run.Info
	if err := json.Unmarshal(row, &info); err != nil || info.Archive == nil {
		t.Fatalf("no archive: %v %s", err, row)
	}
	lines, err := st.Blobs().Get(t.Context(), *info.Archive)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestArchiveOfWhatWasReceived(t *testing.T) {
	t.Parallel()
	for length, b := range map[string]*runtest.Builder{"a short run": finished(1, 4), "a run of much text": finished(12, 25_000)} {
		t.Run(length, func(t *testing.T) {
			t.Parallel()
			archiveReceived(t, b)
		})
	}
}

func archiveReceived(t *testing.T, b *runtest.Builder) {
	want := append(bytes.Join(b.Events(), []byte("\n")), '\n')
	for name, c := range map[string]struct {
		change func(n int, h *runlog.ReceivedEvent) bool
		reads  bool
	}{
		"all of it":      {change: func(int, *runlog.ReceivedEvent) bool { return true }},
		"one event less": {change: func(n int, _ *runlog.ReceivedEvent) bool { return n != 4 }, reads: true},
		"one that is not the log's": {change: func(n int, h *runlog.ReceivedEvent) bool {
			if n == 4 {
				h.Stored = bytes.Replace(h.Stored, []byte(`"id":"`), []byte(`"id":"x`), 1)
			}
			return true
		}, reads: true},
		"another end": {change: func(n int, h *runlog.ReceivedEvent) bool {
			if n == len(b.Events())-1 {
				h.Stored = bytes.Replace(h.Stored, []byte(`"id":"`), []byte(`"id":"x`), 1)
			}
			return true
		}, reads: true},
	} {
		t.Run("PERS-15 the archive is the log, event by event, where the persister received "+name, func(t *testing.T) {
			t.Parallel()
			got, reads := receivedAll(t, b, c.change)
			if !bytes.Equal(got, want) {
				t.Errorf("archive\n%s\nwant\n%s", got, want)
			}
			if (reads > 0) != c.reads {
				t.Errorf("the log was read %d times", reads)
			}
		})
	}
}

func TestArchiveOfWhatWasRepublished(t *testing.T) {
	t.Parallel()
	b := finished(1, 4)
	want := append(bytes.Join(b.Events(), []byte("\n")), '\n')
	for name, c := range map[string]struct {
		missed int
		reads  bool
	}{"all of it": {missed: -1}, "one event less": {missed: 4, reads: true}} {
		t.Run("PERS-15 the archive is the log where the persister was delivered the end alone, and overheard "+name, func(t *testing.T) {
			t.Parallel()
			st, err := mem.New("test", mem.Config{})
			if err != nil {
				t.Fatal(err)
			}
			put(t, st, b, b.Events())
			role, ledger, journal := persisterOf(t, st)
			log := st.Log("r")
			for n, rec := range log {
				if n != c.missed {
					role.Republished("r", rec)
				}
			}
			last := len(log) - 1
			s, err := ledger.Receive(t.Context(), "r", log[last])
			if err != nil {
				t.Fatal(err)
			}
			if err := role.Event(t.Context(), runlog.ReceivedEvent{Run: "r", Kind: log[last].Kind, Sequence: uint64(last) + 1, Seq: log[last].Seq,
				State: s, Deliveries: 1, Stored: log[last].Bytes}); err != nil {
				t.Fatal(err)
			}
			if got := archived(t, st); !bytes.Equal(got, want) {
				t.Errorf("archive\n%s\nwant\n%s", got, want)
			}
			if reads := journal.reads.Load(); (reads > 0) != c.reads {
				t.Errorf("the log was read %d times", reads)
			}
		})
	}
}
