// Package runlogtest appends to the log of one run of a station in memory, and reads it, for tests of what works on
// runs.
package runlogtest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Log is the log of a run for one test.
type Log struct {
	*testing.T
	Station *mem.Station
	Run     string
}

// New returns the log of a run of a station of its own.
func New(t *testing.T, runID string) Log {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return Log{T: t, Station: st, Run: runID}
}

// Ledger is that of a service.
func (l Log) Ledger(by events.Service) *runlog.Ledger {
	l.Helper()
	return l.Over(by, l.Station.JournalOf(by))
}

// Over is the ledger of a service over another journal.
func (l Log) Over(by events.Service, j kernel.Journal) *runlog.Ledger {
	l.Helper()
	made, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: by, Journal: j, Entropy: rand.Reader})
	if err != nil {
		l.Fatal(err)
	}
	return made
}

// Say appends events of a service to the run.
func (l Log) Say(by events.Service, all ...events.Payload) {
	l.Helper()
	w, err := l.Ledger(by).Write(l.Context(), l.Run, func(run.State, time.Time) ([]events.Payload, error) {
		return all, nil
	})
	if err != nil || len(w.Events) != len(all) {
		l.Fatalf("%d of %d were stored: %v", len(w.Events), len(all), err)
	}
}

// State is that of the run as the log has it.
func (l Log) State() run.State {
	l.Helper()
	s, err := l.Ledger(events.Toolrunner).Fresh(l.Context(), l.Run)
	if err != nil {
		l.Fatal(err)
	}
	return s
}
