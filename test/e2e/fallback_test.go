package e2e

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// kept waits until the local store has a branch of a run whose last event is of a kind, and returns its events.
func kept(w *world, local *localstore.Station, id string, status localstore.Status, last events.Kind) (evs []kernel.Record) {
	w.t.Helper()
	ctx := w.ctx()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := local.Branches(ctx, status)
		if err != nil {
			w.t.Fatal(err)
		}
		all = slices.DeleteFunc(all, func(b localstore.Branch) bool { return b.Run != id })
		if len(all) > 0 {
			if evs, err = local.Evidence(ctx, all[len(all)-1].ID); err != nil {
				w.t.Fatal(err)
			}
			f, err := events.Decode(evs[len(evs)-1].Bytes)
			if err != nil {
				w.t.Fatal(err)
			}
			if k, _ := f.Kind(); k == last {
				return evs
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("no %s branch ends with %s: %+v", status, last, all)
		}
	}
}

func TestFallback(t *testing.T) {
	t.Parallel()
	began, gate := make(chan struct{}, 8), make(chan struct{})
	held := &probe{name: "held", effect: tool.Once, do: func(ctx context.Context, _ int64, _ tool.Call) (tool.Result, error) {
		began <- struct{}{}
		select {
		case <-gate:
			return tool.Result{Output: "let go"}, nil
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
	}}
	server := jettest.Server(t)
	conn := jettest.Connect(t, server, jet.Config{Name: "test"})
	w := worldOn(t, conn, held)
	local, err := localstore.Open(t.Context(), localstore.Config{Path: filepath.Join(t.TempDir(), "fallback.bolt"), Station: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	log := w.ports.Journal
	var f *localstore.Fallback
	if w.ports.Ports, f, err = station.Fall(t.Context(), conn, w.ports.Ports, local, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	w.agent(events.Agent{Name: "held", Tools: []string{"held"}}, "turns:\n  - when: {turn: 1}\n    calls:\n      - {name: held, input: {}}\n  - when: {turn: 2}\n    calls:\n      - {name: held, input: {}}\n  - when: {turn: 3}\n    text: \"Result: {{result.1}}\"\n")
	ctx, cancel := context.WithCancel(context.Background())
	var beside sync.WaitGroup
	beside.Go(func() { _ = f.Run(ctx) })
	t.Cleanup(func() { cancel(); beside.Wait() })
	w.start()

	for _, id := range []string{"once", "again"} {
		t.Run("PERS-4 PERS-5 a run goes on to its end while the server is stopped, and all of it comes home: "+id, func(t *testing.T) {
			w := w.on(t)
			before := held.attempts.Load()
			w.task(events.Task{ID: id, Agent: "held", Task: "wait"})
			<-began
			server.Shutdown()
			gate <- struct{}{}
			<-began // the second call, which the stopped server knows nothing of
			gate <- struct{}{}
			branch := kept(w, local, id, localstore.BranchOpen, events.RunCompleted)
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
			kept(w, local, id, localstore.BranchHome, events.RunCompleted)
			evs, _, err := log.Read(w.ctx(), id, 0)
			if err != nil {
				t.Fatal(err)
			}
			if s := mustFold(t, evs); s.Status != events.Completed || s.Result.Output != "Result: let go" {
				t.Errorf("the log says %s, %+v", s.Status, s.Result)
			}
			at := len(evs) - len(branch)
			for i, r := range branch {
				if !bytes.Equal(evs[at+i].Bytes, r.Bytes) {
					t.Fatalf("event %d of the branch has other bytes in the log", i+1)
				}
			}
			if n := held.attempts.Load() - before; n != 2 {
				t.Errorf("the tool ran %d times, want 2", n)
			}
			if n := w.count(id); n["checkpoint.fallback"] != 1 || n["call.started"] != 2 || n["call.finished"] != 2 {
				t.Errorf("%v", n)
			}
			w.row(id, func(i run.Info) bool { return i.Status == events.Completed })
		})
	}
}

func TestAlone(t *testing.T) {
	t.Parallel()
	off := false
	t.Run("PERS-17b without NATS the local store alone carries a run from the task to its archive", func(t *testing.T) {
		t.Parallel()
		local, err := localstore.Open(t.Context(), localstore.Config{Path: filepath.Join(t.TempDir(), "local.bolt"), Station: "test"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = local.Close() })
		w := newWorld(t)
		w.ports = all.Ports{Ports: station.Alone(local)}
		w.agent(events.Agent{Name: "one", Tools: []string{"read"}}, "turns:\n  - text: \"done\"\n")
		w.start()
		if err := local.Publish(w.ctx(), events.TaskSubject("test"), []byte(`{"id":"r","agent":"one","task":"x"}`), nil); err != nil {
			t.Fatal(err)
		}
		i := w.row("r", func(i run.Info) bool { return i.Status == events.Completed })
		if i.Archive == nil || w.state("r").Status != events.Completed {
			t.Errorf("%+v", i)
		}
	})
	t.Run("PERS-17a a run with durable persistence switched off has its snapshots in the local store alone", func(t *testing.T) {
		t.Parallel()
		local, err := localstore.Open(t.Context(), localstore.Config{Path: filepath.Join(t.TempDir(), "fallback.bolt"), Station: "test"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = local.Close() })
		w := worldOn(t, jettest.Connect(t, jettest.Server(t), jet.Config{}))
		w.ports.Local = local.KV("harness-state")
		w.agent(events.Agent{Name: "one", Tools: []string{"read"}}, "turns:\n  - text: \"done\"\n")
		w.start()
		plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "a"}, {ID: "b", Description: "b", Needs: []string{"a"}, Critical: true}}}
		asks := 3
		w.task(events.Task{ID: "off", Agent: "one", Task: "x", EternalEngine: &off, Plan: plan, Autonomy: &asks})
		w.task(events.Task{ID: "on", Agent: "one", Task: "x", Plan: plan, Autonomy: &asks})
		has := func(kv kernel.KV, key string) bool {
			_, err := kv.Get(w.ctx(), key)
			return err == nil
		}
		for id, at := range map[string]kernel.KV{"off": w.ports.Local, "on": w.ports.State} {
			w.await(id, "waiting", waiting) // so that no end comes before the snapshot
			w.until("a snapshot of "+id+" where it belongs", func() bool { return has(at, "snap."+id) })
			w.approve(id, "approve")
			w.row(id, func(i run.Info) bool { return i.Status == events.Completed })
		}
		if has(w.ports.State, "snap.off") || has(w.ports.Local, "snap.on") {
			t.Error("a snapshot is where it does not belong")
		}
	})
}
