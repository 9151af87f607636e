package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// runner makes one call with an effect and reports.
const runner = `turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "echo ran >> ran.txt"}}
  - text: done
`

func bashAgent(name string) events.Agent {
	return events.Agent{Name: name, Tools: []string{"bash"}, Sandbox: events.Sandbox{Mode: "host", Network: true}}
}

// held waits until a role is held for a reason, or until it is not where reason is empty.
func (h *hosted) held(w *world, role events.Service, reason string) {
	w.t.Helper()
	ctx := w.ctx()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := h.host.Held(role)
		if reason == "" && err == nil || reason != "" && err != nil && strings.Contains(err.Error(), reason) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("%s: held is %v, want %q", role, err, reason)
		}
	}
}

func TestManyHosts(t *testing.T) {
	t.Parallel()
	on := func(w *world, machine, mode string, roles ...events.Service) *hosted {
		other := *w
		other.ports.Machine = machine
		other.tune = func(c *service.Config) { c.WorkspaceMode = mode }
		return other.start(roles...)
	}
	t.Run("WS-13 local workspaces with toolrunners on two machines: both are held and say what to do, and no call begins until one has left", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.agent(bashAgent("runner"), runner)
		first := on(w, "a", "local")
		second := on(w, "b", "local", events.Toolrunner)
		for _, h := range []*hosted{first, second} {
			h.held(w, events.Toolrunner, "INSPAN_WORKSPACE_MODE=shared")
		}
		w.task(events.Task{ID: "r", Agent: "runner", Task: "x"})
		w.await("r", "permitted", func(s run.State) bool { return w.count("r")["call.allowed"] == 1 })
		if n := w.count("r")["call.started"]; n != 0 {
			t.Errorf("%d calls began on a toolrunner that is held", n)
		}
		second.stop()
		if s := w.ended("r"); s.Status != events.Completed {
			t.Errorf("%s: %+v", s.Status, s.Result)
		}
		first.held(w, events.Toolrunner, "")
	})
	t.Run("WS-13 a local toolrunner is held beside a shared one of another machine, which works", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.agent(bashAgent("runner"), runner)
		on(w, "a", "shared")
		late := on(w, "b", "local", events.Toolrunner)
		late.held(w, events.Toolrunner, "more than one machine")
		w.task(events.Task{ID: "r", Agent: "runner", Task: "x"})
		if s := w.ended("r"); s.Status != events.Completed {
			t.Errorf("%s: %+v", s.Status, s.Result)
		}
	})
	for _, c := range []struct{ name, mode, other string }{{"two on one machine are not held in local mode", "local", "a"}, {"two machines are not held in shared mode", "shared", "b"}} {
		t.Run("WS-13 "+c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.agent(bashAgent("runner"), runner)
			all := []*hosted{on(w, "a", c.mode), on(w, c.other, c.mode, events.Toolrunner)}
			for i := range 4 {
				w.task(events.Task{ID: fmt.Sprint("r", i), Agent: "runner", Task: "x"})
			}
			for i := range 4 {
				if s := w.ended(fmt.Sprint("r", i)); s.Status != events.Completed {
					t.Errorf("%s: %+v", s.Status, s.Result)
				}
			}
			for _, h := range all {
				h.held(w, events.Toolrunner, "")
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(bashAgent("runner"), runner)
	policy := func(name, rule string) service.Config {
		path := filepath.Join(w.dir, name)
		if err := os.WriteFile(path, []byte("version: 1\nrules:\n  - {id: "+name+", tool: bash, action: deny, reason: "+rule+"}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return service.Config{Base: service.Base{Policy: path}}
	}
	old, next := policy("old", "the old one"), policy("next", "the next one")
	with := func(c service.Config, roles ...events.Service) *hosted {
		other := *w
		other.tune = func(cfg *service.Config) { cfg.Policy = c.Policy }
		return other.start(roles...)
	}
	record := func(c service.Config) {
		t.Helper()
		if err := service.RecordPolicy(w.ctx(), w.ports.Config, c.Base); err != nil {
			t.Fatal(err)
		}
	}
	record(old)
	right, wrong := with(old), with(next)
	none := with(service.Config{})
	judged := func(w *world, prefix, rule string) {
		w.t.Helper()
		for i := range 6 {
			w.task(events.Task{ID: fmt.Sprint(prefix, i), Agent: "runner", Task: "x"})
		}
		for i := range 6 {
			id := fmt.Sprint(prefix, i)
			w.ended(id)
			var by []string
			for _, r := range w.events(id) {
				f, err := events.Decode(r.Bytes)
				if err != nil {
					w.t.Fatal(err)
				}
				if p, err := f.Payload(); err == nil {
					if refused, ok := p.(*events.CallRefusedData); ok {
						by = append(by, refused.Rule)
					}
				}
			}
			if !slices.Equal(by, []string{rule}) {
				w.t.Errorf("%s: calls refused by %q, want one by %q", id, by, rule)
			}
		}
	}
	roles := []events.Service{events.Planner, events.Gatekeeper, events.Executor, events.Toolrunner}
	t.Run("GUARD-9 a service whose policy is not the station's is held and says so, and those that have it judge everything", func(t *testing.T) {
		w := w.on(t)
		for _, role := range roles {
			wrong.held(w, role, "INSPAN_POLICY of this service is not the station's")
			none.held(w, role, "it has none")
			right.held(w, role, "")
		}
		judged(w, "old", "old")
	})
	t.Run("GUARD-9 a new policy is in force once it is recorded: services with the old one take nothing more", func(t *testing.T) {
		w := w.on(t)
		record(next)
		for _, role := range roles {
			right.held(w, role, "inspan setup")
			wrong.held(w, role, "")
		}
		judged(w, "next", "next")
	})
}
