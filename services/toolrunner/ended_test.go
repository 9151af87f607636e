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
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestEnded(t *testing.T) {
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
	lists := filepath.Join(t.TempDir(), "lists")
	keeper, err := capture.New(capture.Config{Store: st.Artifacts(), Lists: lists})
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	artifacts := capture.NewCalls(keeper, ledger, root, jobs.New(jobs.Config{Pool: pool.New(nil)}))
	r := &Role{cfg: Config{Ledger: ledger, Artifacts: artifacts, Files: provision.NewRunFiles(root)}}
	say(runtest.Created(), runtest.Started())
	s := run.State{HarnessID: "r1", Created: &events.RunCreatedData{Workspace: "run/r1"}, Plan: &run.Plan{Steps: []*run.Step{{ID: "s", AssignedAgent: "a"}}},
		Agents: map[string]events.Agent{"a": {Artifacts: &events.ArtifactRules{Clean: true}}}}
	if err := artifacts.Prepare(t.Context(), s, run.Call{Step: "s", Effect: "once"}, workdir.Dir{Workspace: "run/r1", Path: "run/r1"}, nil)(); err != nil {
		t.Fatal(err)
	}
	known := func() bool {
		_, err := os.Stat(filepath.Join(lists, "r1.json"))
		return err == nil && artifacts.Knows("r1")
	}
	t.Run("ART-10 ART-14 an end that the log refused is no end: what is known of the run's workspace stays", func(t *testing.T) {
		if r.close("r1"); !known() {
			t.Error("the list is not there")
		}
		r.close("r2") // nothing is known of it
	})
	t.Run("ART-10 at the end it is let go of", func(t *testing.T) {
		say(&events.RunFailedData{Result: events.Result{Event: "run_complete", From: events.Running, Status: events.Failed, FinishReason: events.FinishStopped}})
		if r.close("r1"); known() {
			t.Error("the list is still there")
		}
	})
}
