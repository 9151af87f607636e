package toolrunner

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox/jobs"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/workspace/provision"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestLeave(t *testing.T) {
	t.Parallel()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: st.JournalOf(events.Planner), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	say := func(all ...events.Payload) {
		t.Helper()
		if _, err := ledger.Write(t.Context(), "r1", func(run.State, time.Time) ([]events.Payload, error) { return all, nil }); err != nil {
			t.Fatal(err)
		}
	}
	dir, lists := t.TempDir(), filepath.Join(t.TempDir(), "lists")
	keeper, err := capture.New(capture.Config{Store: st.Artifacts(), Lists: lists})
	if err != nil {
		t.Fatal(err)
	}
	r := &Role{jobs: jobs.New(jobs.Config{Pool: pool.New(nil)}), files: provision.NewRunFiles(t.TempDir()), cfg: Config{Ledger: ledger, Artifacts: keeper}, clean: map[string]string{"r1": dir}}
	say(runtest.Created(), runtest.Started())
	if err := keeper.Begin(t.Context(), "r1", dir); err != nil {
		t.Fatal(err)
	}
	known := func() bool {
		_, err := os.Stat(filepath.Join(lists, "r1.json"))
		return err == nil
	}
	t.Run("ART-10 ART-14 an end that the log refused is no end: what is known of the run's workspace stays", func(t *testing.T) {
		for _, clean := range []bool{true, false} {
			if !clean {
				delete(r.clean, "r1")
			}
			r.Leave("r1")
			if !known() || len(r.clean) != 0 != clean {
				t.Errorf("clean %v: the list is there: %v, %v", clean, known(), r.clean)
			}
		}
		r.Leave("r2") // nobody knows it
	})
	t.Run("ART-10 at the end it is let go of", func(t *testing.T) {
		say(&events.RunFailedData{Result: events.Result{Event: "run_complete", From: events.Running, Status: events.Failed, FinishReason: events.FinishStopped}})
		if r.Leave("r1"); known() {
			t.Error("the list is still there")
		}
	})
}
