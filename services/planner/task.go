package planner

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
)

// task opens the run that a task asks for, or finds that it exists.
func (r *Role) task(ctx context.Context, m reactor.Message) error {
	t, env, err := readTask(m)
	if err == nil {
		err = r.checkPlace(t)
	}
	if err != nil {
		return err
	}
	runID := runIDOf(t.ID, r.cfg.Station, m)
	there, _, err := r.cfg.Ledger.State(ctx, runID)
	if err != nil {
		return err
	}
	if there.Sequence == 0 { // a run that began goes on, whatever the station takes on
		done, err := r.intake.admit(ctx, senderOf(m, env), m)
		if err != nil {
			return err
		}
		defer done()
	}
	created, err := r.pin(ctx, t, env, runID)
	if err != nil {
		return err
	}
	made, err := r.given(ctx, t, created)
	if err != nil {
		return err
	}
	answers, err := r.starting(ctx, there, runID, created)
	if err != nil {
		return err
	}
	w, err := r.begin(ctx, runID, created, made, answers)
	if err != nil {
		return fullAtBirth(err, w.State.Sequence > 0)
	}
	if w.State.Plan == nil && w.State.Status == events.Running {
		if w, err = r.askForPlan(ctx, w.State, m.Deliveries()); err != nil {
			return err
		}
	}
	return r.setDeadline(ctx, w.State)
}

func (r *Role) begin(ctx context.Context, runID string, created *events.RunCreatedData, made *events.PlanMadeData, answers []events.HookAnswer) (reactor.Written, error) {
	return r.write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
		if s.Sequence > 0 && s.Created.TaskDigest != created.TaskDigest {
			return nil, named(runID, reactor.Refuse("duplicate_id", "give each task its own id, or none", "the task id %q belongs to another task, which started run %s", created.TaskID, runID))
		}
		return lifecycle.Begin(s, now, created, made, answers)
	})
}

// readTask parses and checks the shape of a task, bare or as a CloudEvent.
func readTask(m reactor.Message) (events.Task, ce.Envelope, error) {
	var t events.Task
	env, body, err := ce.Open(m.Data(), m.Header)
	if err == nil {
		err = ce.Strict(body, &t)
	}
	if err != nil {
		return t, env, reactor.Refuse("bad_input", `send {"agent":"NAME","task":"what to do"}; docs/events.md lists the other fields`, "%v", err)
	}
	if t.ID == "" {
		t.ID = env.ID
	}
	switch {
	case t.Agent == "":
		err = errors.New("no agent")
	case strings.TrimSpace(t.Task) == "":
		err = errors.New("no task")
	case len(t.Task) > events.MaxTask:
		err = fmt.Errorf("the task has %d bytes, the limit is %d", len(t.Task), events.MaxTask)
	case len(t.Variables) > events.MaxVariables:
		err = fmt.Errorf("%d variables, the limit is %d", len(t.Variables), events.MaxVariables)
	case strings.ContainsRune(t.Task, 0):
		err = errors.New("the task contains a NUL character")
	}
	for what, id := range map[string]string{"agent": t.Agent, "session_id": t.Session, "workflow_run_id": t.WorkflowRun,
		"parent_run_id": t.Parent, "orchestrator_run_id": t.Orchestrator, "work_id": t.WorkID} {
		if err == nil && id != "" {
			err = events.CheckID(what, id)
		}
	}
	if err != nil {
		return t, env, reactor.Refuse("bad_input", `send {"agent":"NAME","task":"what to do"}; inspan run --help shows the options`, "%v", err)
	}
	return t, env, nil
}

// runIDOf makes the run's id from the task's: the id itself where it is a token, else its digest; where there is
// none, from the place of the message in the input stream, which is the same on each delivery.
func runIDOf(taskID, station string, m reactor.Message) string {
	switch {
	case events.ValidID(taskID):
		return taskID
	case taskID != "":
		return "run-" + token("task|"+taskID)
	}
	return "run-" + token(fmt.Sprintf("%s|%d|%d", station, m.Seq(), m.Time().UnixNano()))
}

var lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func token(s string) string {
	h := sha256.Sum256([]byte(s))
	return lower.EncodeToString(h[:10])
}

// pin looks up the agent and fixes all that the run is made of.
func (r *Role) pin(ctx context.Context, t events.Task, env ce.Envelope, runID string) (*events.RunCreatedData, error) {
	agent, err := r.agent(ctx, t.Agent)
	if err != nil {
		return nil, err
	}
	if t.Model != "" {
		agent.Model = t.Model
	}
	options, err := t.Resolve(agent)
	if err != nil {
		return nil, reactor.Refuse("bad_input", "mend the value and send the task again", "%v", err)
	}
	if t.ID == "" {
		t.ID = runID
	}
	whole, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("digest of the task: %w", err)
	}
	digest := sha256.Sum256(whole)
	return &events.RunCreatedData{Event: "run_created", TaskID: t.ID, TaskDigest: hex.EncodeToString(digest[:]), TaskSource: env.Source,
		Task: t.Task, Agent: agent.Name, Agents: map[string]events.Agent{agent.Name: agent}, Options: options,
		Variables: t.Variables, Workspace: r.workspace(t, runID), Session: t.Session, WorkflowRun: t.WorkflowRun,
		Parent: t.Parent, Orchestrator: t.Orchestrator, WorkID: t.WorkID,
		Repo: t.Repo, Ref: t.Ref, Collaboration: t.Collaboration, Stream: t.Stream, Durability: r.cfg.Durability, To: events.Created}, nil
}

// workspace is the run's directory below the workspace root (WS-1, WS-2).
func (r *Role) workspace(t events.Task, runID string) string {
	switch {
	case t.Session != "":
		return "session/" + t.Session
	case r.cfg.Isolation == "shared":
		return "shared"
	case r.cfg.Isolation == "per_workflow" && t.WorkflowRun != "":
		return "workflow/" + t.WorkflowRun
	}
	return "run/" + runID
}

func (r *Role) agent(ctx context.Context, name string) (events.Agent, error) {
	a, err := r.cfg.Agents.Agent(ctx, name)
	if !errors.Is(err, reactor.ErrNotFound) {
		return a, err
	}
	known, err := r.cfg.Agents.Names(ctx)
	if err != nil {
		return events.Agent{}, err
	}
	hint := "no agent is registered; start the station with --agents DIR"
	if len(known) > 0 {
		hint = meant(name, known) + "registered: " + strings.Join(known, ", ")
	}
	return events.Agent{}, reactor.Refuse("unknown_agent", hint, "agent %q is not registered", name)
}

// given returns the plan that came with the task, or a single step, or nil where the agent asks a model for it.
func (r *Role) given(ctx context.Context, t events.Task, c *events.RunCreatedData) (*events.PlanMadeData, error) {
	switch {
	case t.Plan != nil:
		made := &events.PlanMadeData{Event: "plan_made", TaskID: c.TaskID, Origin: "task", Steps: t.Plan.PlanSteps(c.Agent)}
		return made, r.complete(ctx, c, made)
	case c.Agents[c.Agent].Plan == "model":
		return nil, nil
	}
	return plan.Single(c.TaskID, c.Task, c.Agent), nil
}

// complete checks a plan and pins the agents that it names.
func (r *Role) complete(ctx context.Context, c *events.RunCreatedData, made *events.PlanMadeData) error {
	known := map[string]bool{c.Agent: true}
	for _, st := range made.Steps {
		if known[st.Agent] || !events.ValidID(st.Agent) {
			continue
		}
		a, err := r.cfg.Agents.Agent(ctx, st.Agent)
		if errors.Is(err, reactor.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if made.Agents == nil {
			made.Agents = map[string]events.Agent{}
		}
		known[st.Agent], made.Agents[st.Agent] = true, a
	}
	err := plan.Check(made.Steps, func(a string) bool { return known[a] })
	if fault, ok := errors.AsType[*plan.Fault](err); ok {
		return reactor.Refuse("bad_plan", fault.Hint, "%v", fault)
	}
	if err != nil {
		return err
	}
	// A plan that no fact has room for is refused before its run begins.
	whole, err := json.Marshal(made)
	if err == nil && len(whole) > events.MaxFact-envelope {
		return reactor.Refuse("bad_plan", "put long material in a file of the workspace", "the plan has %d bytes, the limit is %d", len(whole), events.MaxFact-envelope)
	}
	return err
}

// envelope is more than what a fact has around its data, in bytes.
const envelope = 4 << 10
