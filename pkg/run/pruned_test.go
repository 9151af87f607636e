package run_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// TestPruned is a run whose events are in a backup.
func TestPruned(t *testing.T) {
	t.Parallel()
	of := func(d *events.RunPrunedData, spoil func(*events.Event)) (run.State, error) {
		return run.State{}.Apply(runtest.New("default", "run-1").Bad(d, func(f *events.Event) {
			f.Sequence, f.PrevHash = d.Covered+1, run.HashOf([]byte("the last one"))
			if spoil != nil {
				spoil(f)
			}
		}))
	}
	t.Run("PLUS-24b one event stands for those of a run that had ended, and the chain goes through it", func(t *testing.T) {
		t.Parallel()
		for _, status := range []events.Status{events.Completed, events.Failed} {
			s, err := of(runtest.Pruned(41, status), nil)
			if err != nil {
				t.Fatal(err)
			}
			info := run.InfoOf(s)
			if s.Status != status || s.Sequence != 42 || s.Pruned == nil || s.Pruned.Covered != 41 || s.Broken() != "" || info.AgentName == "" ||
				info.CompletedAt == nil || info.InputTokens != 7 || info.Cost != 5 || info.StepsCompleted != 2 || info.Turns != 3 || info.ToolCallCount != 4 || info.Task != "" {
				t.Errorf("%+v, broken %q", info, s.Broken())
			}
			b := runtest.New("default", "run-1")
			for _, p := range []events.Payload{runtest.Created(), runtest.Started(), runtest.Pruned(42, status)} {
				stored := b.Bad(p, func(f *events.Event) { f.Sequence, f.PrevHash = 43, s.Hash })
				if _, err := s.Apply(stored); err == nil || !strings.Contains(err.Error(), "after the end") {
					t.Errorf("%s after it: %v", p.Kind(), err)
				}
			}
		}
	})
	t.Run("PLUS-19a one that stands for deleted content says so, and not what it was", func(t *testing.T) {
		t.Parallel()
		d := runtest.Pruned(41, events.Failed)
		d.Created.By, d.Result.By, d.Result.FailedSteps = "dora", "anna", []string{"tell-the-secret"}
		d.Result.Verified = []events.Verified{{Step: "tell-the-secret", Kind: events.CheckCommand, Name: "secret.sh", Tree: "secret"}}
		d.Created.Address = &events.AddressRef{Address: "web/worker/nux", Epoch: 1, Env: map[string]string{"A": "secret"}, Dir: "secret"}
		d.Forget("request 17", "dora")
		s, err := of(d, nil)
		if err != nil || s.Status != events.Failed || !s.Pruned.Forgotten || s.Pruned.Why() != "were deleted on request" {
			t.Fatalf("%+v %v", s.Pruned, err)
		}
		b, err := json.Marshal(d)
		if err != nil || strings.Contains(string(b), "secret") || strings.Contains(string(b), "dora") || d.Created.TaskDigest != "" || d.Result.By != "anna" || len(d.Result.Verified) != 1 {
			t.Errorf("%s %v", b, err)
		}
	})
	t.Run("PLUS-24b SAFE-2 one that does not say what it stands for is refused", func(t *testing.T) {
		t.Parallel()
		bad := map[string]func(*events.RunPrunedData, *events.Event){
			"stands for":        func(d *events.RunPrunedData, _ *events.Event) { d.Covered = 40 },
			"0 events":          func(d *events.RunPrunedData, f *events.Event) { d.Covered, f.Sequence = 0, 1 },
			"no prevhash":       func(_ *events.RunPrunedData, f *events.Event) { f.PrevHash = "" },
			"has not ended":     func(d *events.RunPrunedData, _ *events.Event) { d.Result.Status = events.Paused },
			"names no agent":    func(d *events.RunPrunedData, _ *events.Event) { d.Created.Agent = "" },
			"more of the first": func(d *events.RunPrunedData, _ *events.Event) { d.Created.Direct = true },
			"only planner":      func(_ *events.RunPrunedData, f *events.Event) { f.Source = events.Source("default", events.Executor) },
		}
		for why, change := range bad {
			d := runtest.Pruned(41, events.Completed)
			f := events.Event{Sequence: 42, PrevHash: run.HashOf(nil)}
			change(d, &f)
			_, err := of(d, func(e *events.Event) {
				e.Sequence, e.PrevHash = f.Sequence, f.PrevHash
				if f.Source != "" {
					e.Source = f.Source
				}
			})
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", why, err)
			}
		}
	})
	t.Run("PLUS-24b it begins a run and nothing else", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("default", "run-1")
		b.Append(runtest.Created())
		if _, err := b.Try(runtest.Pruned(1, events.Completed)); err == nil || !strings.Contains(err.Error(), "exists already") {
			t.Error(err)
		}
	})
}
