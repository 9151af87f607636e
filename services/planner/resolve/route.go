package resolve

import (
	"time"

	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/core/route"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// estimateOf reads how long a task is thought to take, 0 where it does not say.
func estimateOf(t events.Task) (time.Duration, error) {
	if t.Estimate == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(t.Estimate)
	if err != nil || d <= 0 {
		return 0, kernel.Refuse("bad_input", `write how long the work may take, such as "20m", or leave estimate out`,
			"estimate is not a duration above zero")
	}
	return d, nil
}

// Direct says which path the run of a task takes. A run that exists keeps the one that it has.
func (r *Resolver) Direct(t events.Task, created *events.RunCreatedData, made *events.PlanMadeData,
	answers []events.HookAnswer) (bool, error) {
	estimate, err := estimateOf(t)
	if err != nil {
		return false, err
	}
	_, held := events.Decisive(answers)
	agent := created.Agents[created.Agent]
	kept := t.CheckpointIntervalMS != nil || t.Mode != "" && t.Mode != events.ModeNormal ||
		t.EternalEngine != nil && *t.EternalEngine
	locked := r.cfg.Sessions && created.Session != "" || created.Work != nil || created.Address != nil
	direct, _ := route.Direct(route.Ask{Mark: t.LongRunning, Estimate: estimate, Harness: agent.Harness,
		Planned: made == nil || made.Origin != events.OriginSingle, Gated: gate.NeedsGate(created.Options.Autonomy, false),
		Held: held, Kept: kept, Locked: locked, Git: created.Git != nil,
		Checked: created.Accept != nil || agent.Accept != nil}, r.cfg.LongRunning)
	return direct, nil
}

// ChildDirect says which path a child takes that was not begun: the harness of its agent decides, where nothing asks
// for more than the direct path has.
func (r *Resolver) ChildDirect(c *events.RunCreatedData, made *events.PlanMadeData,
	answers []events.HookAnswer) bool {
	_, held := events.Decisive(answers)
	direct, _ := route.Direct(route.Ask{Harness: c.Agents[c.Agent].Harness, Planned: made == nil,
		Gated: gate.NeedsGate(c.Options.Autonomy, false), Held: held, Git: c.Git != nil,
		Checked: c.Accept != nil || c.Agents[c.Agent].Accept != nil}, r.cfg.LongRunning)
	return direct
}

// byHarness gives the steps that ask for it, and whose agents have their harness off, to children on the direct path.
// It leaves those to the run itself that such a child could not carry out.
func byHarness(c *events.RunCreatedData, made *events.PlanMadeData, asked []events.TaskStep) {
	if c.Session != "" || c.Git != nil || c.Options.MaxSubAgentDepth < 1 || gate.NeedsGate(c.Options.Autonomy, false) {
		return
	}
	followed := map[string]bool{}
	for _, st := range made.Steps {
		for _, id := range st.Dependencies {
			followed[id] = true
		}
	}
	for i, st := range made.Steps {
		if i >= len(asked) || !asked[i].ByHarness || st.Child != "" || st.Accept != nil || !followed[st.ID] &&
			c.Accept != nil ||
			st.Flow != nil && st.Flow.TimeoutMS > 0 {
			continue
		}
		a, ok := made.Agents[st.Agent]
		if !ok {
			a = c.Agents[st.Agent]
		}
		if a.Harness == events.HarnessOff && a.Accept == nil && a.Plan == "" && a.Git == nil {
			made.Steps[i].Child = events.ChildShared
		}
	}
}

// wrapped takes what makes a run direct out of its first event: a fork begins with the state of another, which the
// direct path does not know.
func wrapped(c *events.RunCreatedData) {
	c.Event, c.Direct, c.AgentID, c.AgentName, c.MaxSteps, c.Hooks = "run_created", false, "", "", 0, nil
}
