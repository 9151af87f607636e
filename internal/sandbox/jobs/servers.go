package jobs

import (
	"context"
	"strings"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/mcp/live"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ForServers is a call whose MCP servers may live on after it.
type ForServers struct {
	State   run.State
	Attempt call.Attempt
	// Sandbox is that of the call. It is prepared before a server is used.
	Sandbox *pool.Lazy
	// Dir is the workspace, Sandboxes opens sandboxes on it.
	Dir       workdir.Dir
	Sandboxes *pool.Opener
	// Using is called before a server is used, which may change any file.
	Using func()
}

// homed is the sandbox of a call whose servers live on after it.
type homed struct {
	*pool.Lazy
	home *live.Home
}

var _ live.Homed = homed{}

// Home implements live.Homed.
func (h homed) Home() *live.Home { return h.home }

// Home returns the sandbox of a call, which knows where its servers live on; where they do not it is as it was.
func (u *Supervisor) Home(ctx context.Context, f ForServers) sandbox.Sandbox {
	s, c := f.State, f.Attempt.Call
	step := s.Step(c.Step)
	if !u.cfg.Servers.Keeps() || s.Created == nil || step == nil || f.Dir.Path == "" {
		return f.Sandbox
	}
	agent, ok := s.Agent(step.AssignedAgent)
	if _, pin := agent.MCPTool(c.Tool); !ok || pin == nil {
		return f.Sandbox
	}
	h := &live.Home{Servers: u.cfg.Servers, Run: s.HarnessID, Call: c.ID, Workspace: f.Dir.Workspace,
		Owner: owner("run", s.HarnessID, step.AssignedAgent), OfRun: true,
		Sandboxes: !f.Sandboxes.Away(f.Sandboxes.ModeFor(s, c.Step)), Enter: f.enter, Plan: f.plan, Egress: f.egress,
		Holds: func(ctx context.Context) (bool, error) {
			now, err := u.cfg.Ledger.Fresh(ctx, s.HarnessID)
			return err == nil && f.Attempt.Holds(now), err
		},
		Earlier: func(server string) []string { return served(s, step.AssignedAgent, server) }}
	if u.cfg.Pool.OfSession(s) {
		of := owner("session", f.Dir.Path, step.AssignedAgent)
		ended := func(before string) bool { return u.cfg.Pool.Ended(ctx, before) }
		if u.cfg.Servers.HandedOn(of, s.HarnessID, ended) {
			h.Owner, h.OfRun, h.LaterRun = of, false, s.Created.SessionFence > 1
		}
	}
	return homed{f.Sandbox, h}
}

// owner names an agent of a run or of a session.
func owner(kind, id, agent string) string { return strings.Join([]string{kind, id, agent}, "\x00") }

func (f ForServers) enter() error {
	if err := f.Sandbox.Prepare(); err != nil {
		return err
	}
	f.Using()
	return nil
}

func (f ForServers) plan(out *pool.Egress) (*pool.Plan, error) {
	return f.Sandboxes.Plan(f.Sandboxes.RequestFor(f.State, f.Attempt.Call.Step, f.Dir, out))
}

func (f ForServers) egress(holds func(context.Context) (bool, error)) *pool.Egress {
	return f.Sandboxes.EgressFor(f.State, f.Attempt.Call.Step, holds)
}

// served are the calls of a run to a server of an agent that came to an end and may have reached it, the oldest first.
func served(s run.State, agent, server string) (ids []string) {
	a, _ := s.Agent(agent)
	for _, r := range run.All(s.ToolCallHistory) {
		of, pin := a.MCPTool(r.CallName)
		st := s.Step(r.Step)
		if pin == nil || of.Name != server || st == nil || st.AssignedAgent != agent {
			continue
		}
		switch {
		case r.Outcome == run.OutcomeFinished, r.Code == events.OutcomeUnknown, r.Code == "timeout":
			ids = append(ids, r.ID)
		default: // it did not reach the server, or may be made again
		}
	}
	return ids
}
