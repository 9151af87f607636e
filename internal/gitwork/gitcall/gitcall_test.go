package gitcall

import (
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestScope(t *testing.T) {
	t.Parallel()
	t.Run("GIT-7 branches are shared in a session, else in a workflow, else by a run and those it started", func(t *testing.T) {
		t.Parallel()
		for want, c := range map[string]events.RunCreatedData{"session/s": {Session: "s", WorkflowRun: "w", Orchestrator: "o"}, "workflow/w": {WorkflowRun: "w", Orchestrator: "o"}, "run/o": {Orchestrator: "o"}, "run/r": {}} {
			if got := delivery.Scope(&c, "r"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
	t.Run("GIT-2 a toolrunner without git has none to give", func(t *testing.T) {
		t.Parallel()
		if g := New(Config{}).For(run.State{}, call.Attempt{}, workdir.Dir{}, nil, nil); g != nil {
			t.Errorf("got %v", g)
		}
	})
}

// away is a backend whose commands run on another machine.
type away struct{ sandbox.Backend }

func (away) Away() {}

func TestBarred(t *testing.T) {
	t.Parallel()
	t.Run("WS-14 SBX-20 an ephemeral workspace is refused before anything is fetched where a sandbox could not read its mirror", func(t *testing.T) {
		t.Parallel()
		sandboxes, err := pool.NewOpener(pool.Config{Root: t.TempDir(), Default: sandbox.Host, Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Host: host.New(""), sandbox.E2B: away{}}})
		if err != nil {
			t.Fatal(err)
		}
		r := New(Config{Sandboxes: sandboxes})
		s := run.State{Agents: map[string]events.Agent{"near": {}, "far": {Sandbox: events.Sandbox{Mode: "e2b"}}}, Plan: &run.Plan{Steps: []*run.Step{{ID: "a", AssignedAgent: "near"}}}}
		if err := r.barred(s); err != nil {
			t.Errorf("near: %v", err)
		}
		s.Plan.Steps = append(s.Plan.Steps, &run.Step{ID: "b", AssignedAgent: "far"})
		if err := r.barred(s); !errors.Is(err, pool.ErrAlternates) || !strings.Contains(err.Error(), "far") {
			t.Errorf("far: %v", err)
		}
		r.cfg.Trees = &workspace.Trees{}
		s.Plan.Steps = s.Plan.Steps[:1]
		if err := r.barred(s); err != nil {
			t.Errorf("a shared volume: %v", err)
		}
	})
}
