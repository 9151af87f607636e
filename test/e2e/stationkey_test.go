package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// rotateRing replaces the station key, as inspan rotate station-key does.
func (w *world) rotateRing() {
	w.t.Helper()
	value, revision, err := w.ports.Config.Load(w.ctx(), topology.StationKeyKey)
	if err != nil {
		w.t.Fatal(err)
	}
	ring, err := keychain.ReadRing(value, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	next, err := ring.With("the next key", time.Now())
	if err == nil {
		_, err = w.ports.Config.Swap(w.ctx(), topology.StationKeyKey, next, revision)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// begun are the numbers of the keys that calls of a run began with.
func (w *world) begun(runID string) (numbers []int) {
	w.t.Helper()
	for _, r := range w.events(runID) {
		f, err := events.Decode(r.Bytes)
		if err != nil {
			w.t.Fatal(err)
		}
		if kind, err := f.Kind(); err != nil || kind != events.CallStarted {
			continue
		}
		var d events.CallStartedData
		if err := json.Unmarshal(f.Data, &d); err != nil {
			w.t.Fatal(err)
		}
		numbers = append(numbers, d.Key)
	}
	return numbers
}

func TestStationKeyRotates(t *testing.T) {
	t.Parallel()
	keys, begun, goes := make(chan string, 16), make(chan struct{}, 16), make(chan struct{})
	pay := &probe{name: "pay", effect: tool.Idempotent}
	pay.do = func(ctx context.Context, n int64, c tool.Call) (tool.Result, error) {
		keys <- c.Key
		if n > 1 {
			return tool.Result{Output: "paid"}, nil
		}
		begun <- struct{}{}
		select {
		case <-goes:
		case <-ctx.Done():
		}
		return tool.Result{}, tool.Fail(tool.Transient, "", errors.New("the bank did not answer"))
	}
	w := newWorld(t, pay)
	three := 3
	w.agent(events.Agent{Name: "payer", Tools: []string{"pay"}, Retry: events.Retry{MaxRetries: &three, BaseBackoffMS: 20}}, calling("pay", "{}"))
	w.start(events.Planner, events.Gatekeeper, events.Executor, events.Persister)
	first := w.start(events.Toolrunner)
	w.task(events.Task{ID: "before", Agent: "payer", Task: "go"})
	select {
	case <-begun:
	case <-w.ctx().Done():
		t.Fatal("the call never began\n" + w.story("before"))
	}
	w.rotateRing()
	close(goes)
	w.await("before", "tried or ended", func(s run.State) bool { return s.Status.Ended() || w.count("before")["call.deferred"] > 0 })
	first.stop()
	w.start(events.Toolrunner)
	s := w.ended("before")
	w.task(events.Task{ID: "after", Agent: "payer", Task: "go"})
	w.ended("after")
	t.Run("PLUS-20b a call that began before the station key was replaced is made again with the same idempotency key", func(t *testing.T) {
		one, two, three := <-keys, <-keys, <-keys
		if one != two || one == three || len(one) != 64 {
			t.Errorf("the keys were %s, %s and of a later run %s", one, two, three)
		}
		if rec := s.ToolCallHistory.At(0); rec.Result != "paid" || rec.RetryCount != 1 {
			t.Errorf("%+v", rec)
		}
	})
	t.Run("PLUS-20b the log says which key each call began with", func(t *testing.T) {
		for id, want := range map[string]int{"before": 0, "after": 1} {
			got := w.begun(id)
			for _, n := range got {
				if n != want {
					t.Errorf("run %s began with the keys %v, want %d", id, got, want)
				}
			}
			if len(got) == 0 {
				t.Errorf("run %s began no call", id)
			}
		}
	})
}
