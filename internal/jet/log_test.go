package jet_test

import (
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestLog(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-3 any hole in a log is told", func(t *testing.T) {
		t.Parallel()
		for _, l := range []jet.LogState{{}, {Messages: 3, First: 1, Last: 3}} {
			if got := l.Holes(); got != "" {
				t.Errorf("%+v: %s", l, got)
			}
		}
		for _, l := range []jet.LogState{{Messages: 2, First: 1, Last: 3, Deleted: 1}, {Messages: 2, First: 2, Last: 3}, {First: 4, Last: 3}, {Messages: 2, First: 1, Last: 3}} {
			if l.Holes() == "" {
				t.Errorf("%+v: nothing is told", l)
			}
		}
	})
	t.Run("SAFE-3 SAFE-6 the server tells of the log, and each event is read with the kind it was stored as", func(t *testing.T) {
		t.Parallel()
		_, st := one(t, jet.ApplyOptions{})
		b := runtest.New("s1", "r")
		b.Append(runtest.Created())
		stored := b.Events()[0]
		if ack := st.Journal().Append(within(t), kernel.Entry{ID: "r", Kind: events.StepFinished, Bytes: stored}); ack.Outcome != kernel.Stored {
			t.Fatalf("%s %v", ack.Outcome, ack.Err)
		}
		l, err := st.Log(within(t))
		if err != nil || l.Messages != 1 || l.Last != 1 || l.Holes() != "" {
			t.Errorf("%+v %v", l, err)
		}
		evs, _, err := st.Journal().Read(within(t), "r", 0)
		if err != nil || len(evs) != 1 || evs[0].Kind != events.StepFinished {
			t.Fatalf("%+v %v", evs, err)
		}
		if _, _, err := runlog.Read("r", evs[0]); err == nil {
			t.Error("a run.created that was stored as step.finished is believed")
		}
	})
}
