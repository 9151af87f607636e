package resolve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// Pin looks up the agent and fixes all that the run is made of.
func (r *Resolver) Pin(ctx context.Context, t events.Task, env ce.Envelope,
	runID string) (*events.RunCreatedData, error) {
	agent, err := r.Agent(ctx, t.Agent)
	if err != nil {
		return nil, err
	}
	if t.Model != "" {
		agent.Model = t.Model
	}
	agent = r.Fit(agent)
	options, err := t.Resolve(agent)
	if err != nil {
		return nil, kernel.Refuse("bad_input", "fix the value and send the task again", "%v", err)
	}
	background, err := r.context(ctx)
	if err != nil {
		return nil, err
	}
	if t.ID == "" {
		t.ID = runID
	}
	digest, err := t.Digest()
	if err != nil {
		return nil, err
	}
	agents := map[string]events.Agent{agent.Name: agent}
	if err := r.reach(ctx, nil, agents, append(agent.Gives(), t.Accept.Reviewers()...)); err != nil {
		return nil, err
	}
	prices, err := r.Prices(agents, options)
	if err != nil {
		return nil, err
	}
	given, err := r.givenHistory(ctx, t)
	if err != nil {
		return nil, err
	}
	c := &events.RunCreatedData{Event: "run_created", TaskID: t.ID, TaskDigest: digest,
		TaskSource: env.Source,
		Task:       t.Task, Agent: agent.Name, Agents: agents, Options: options,
		Prices:  prices,
		History: given, Variables: t.Variables, Workspace: r.workspace(t, runID), Session: t.Session,
		WorkflowRun: t.WorkflowRun,
		Parent:      t.Parent, Orchestrator: t.Orchestrator, WorkID: t.WorkID, Durability: r.cfg.Durability,
		TraceParent: env.TraceParent,
		Repo:        t.Repo, Ref: t.Ref, Stream: t.Stream, Attended: t.Attended, Accept: t.Accept,
		Handoff: t.Handoff, Mail: t.Mail, Context: background, Formula: t.Formula, To: events.Created}
	if err := InGit(t, c, runID, events.Session{}); err != nil {
		return c, err
	}
	return c, checkAccept(c, c.Agents)
}

// Prices pins those of the models of agents. With a budget of money every model must have one.
func (r *Resolver) Prices(agents map[string]events.Agent, o events.Options) (map[string]events.Price, error) {
	return part.PriceOf(r.cfg.Prices, agents, o)
}

// workspace is the run's directory below the workspace root (WS-1, WS-2).
func (r *Resolver) workspace(t events.Task, runID string) string {
	switch {
	case t.Place != "":
		return events.PlaceWorkspace(t.Place)
	case t.Session != "":
		return "session/" + t.Session
	case r.cfg.Isolation == "shared":
		return "shared"
	case r.cfg.Isolation == "per_workflow" && t.WorkflowRun != "":
		return "workflow/" + t.WorkflowRun
	}
	return "run/" + runID
}

// Names are those of the agents that there are.
func (r *Resolver) Names(ctx context.Context) ([]string, error) { return r.cfg.Agents.Names(ctx) }

// Agent returns a definition, or a *kernel.Refusal that names those that there are.
func (r *Resolver) Agent(ctx context.Context, name string) (events.Agent, error) {
	a, err := r.cfg.Agents.Agent(ctx, name)
	if a.Roles = nil; !errors.Is(err, kernel.ErrNotFound) { // they are of no run
		return a, err
	}
	known, err := r.cfg.Agents.Names(ctx)
	if err != nil {
		return events.Agent{}, err
	}
	hint := "no agent is registered; start the station with --agents DIR"
	if len(known) > 0 {
		hint = part.Meant(name, known) + "registered: " + strings.Join(known, ", ")
	}
	return events.Agent{}, kernel.Refuse("unknown_agent", hint, "agent %q is not registered", name)
}

// Given returns the plan that came with the task, or a single step, or nil where the agent asks a model for it.
func (r *Resolver) Given(ctx context.Context, t events.Task, c *events.RunCreatedData) (*events.PlanMadeData, error) {
	switch {
	case t.Plan != nil:
		made := &events.PlanMadeData{Event: "plan_made", TaskID: c.TaskID, Origin: "task", Steps: t.Plan.PlanSteps(c.Agent),
			Vars: t.Plan.Vars}
		return made, r.complete(ctx, c, made, t.Plan.Steps...)
	case c.Agents[c.Agent].Plan == "model":
		return nil, nil
	}
	return plan.Single(c.TaskID, c.Task, c.Agent), nil
}

// complete checks a plan and pins the agents that it names. asked are its steps as a task has them, which may leave to
// it how each is carried out.
func (r *Resolver) complete(ctx context.Context, c *events.RunCreatedData, made *events.PlanMadeData,
	asked ...events.TaskStep) error {
	known := map[string]bool{c.Agent: true}
	for _, st := range made.Steps {
		if known[st.Agent] || !events.ValidID(st.Agent) {
			continue
		}
		a, err := r.cfg.Agents.Agent(ctx, st.Agent)
		if errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("agent %s: %w", st.Agent, err)
		}
		if made.Agents == nil {
			made.Agents = map[string]events.Agent{}
		}
		known[st.Agent], made.Agents[st.Agent] = true, r.Fit(a)
	}
	byHarness(c, made, asked)
	err := r.pinReached(ctx, c, made)
	if err == nil {
		err = checkAccept(c, made.Agents, made.Steps...)
	}
	if err != nil {
		return err
	}
	if made.Prices, err = r.Prices(made.Agents, c.Options); err != nil {
		return err
	}
	err = plan.Check(made.Steps, func(a string) bool { return known[a] })
	if fault, ok := errors.AsType[*plan.Fault](err); ok {
		return kernel.Refuse("bad_plan", fault.Hint, "%v", fault)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(checkChildren(c, made.Steps, made.Agents), checkFlow(made.Steps, made.Vars)); err != nil {
		return err
	}
	if err := delivery.CheckSteps(c, made.Steps); err != nil {
		return kernel.Refuse("bad_plan", "docs/git.md says what git of a step may have", "plan %v", err)
	}
	// A plan that no event has room for is refused before its run begins.
	whole, err := json.Marshal(delivery.Wrap(c.Git, made))
	if err == nil && len(whole) > events.MaxEvent-envelope {
		return kernel.Refuse("bad_plan", "put long material in a file of the workspace",
			"the plan has %d bytes, the limit is %d", len(whole), events.MaxEvent-envelope)
	}
	return err
}

// envelope is more than what an event has around its data, in bytes.
const envelope = 4 << 10

// givenHistory stores the conversation that a task brings; nil where it brings none.
func (r *Resolver) givenHistory(ctx context.Context, t events.Task) (*events.Ref, error) {
	if len(t.History) == 0 {
		return nil, nil
	}
	if r.cfg.Blobs == nil {
		return nil, kernel.Refuse("no_sessions", "leave history out", "this station keeps no histories")
	}
	ref, err := history.Put(ctx, r.cfg.Blobs, events.Part{Messages: t.History})
	return &ref, err
}

// Fork fixes what a fork is made of: all is as it was, but who asked for it and where it works.
func (r *Resolver) Fork(t events.Task, env ce.Envelope, runID string, old run.State,
	from events.ForkOrigin) (*events.RunCreatedData, error) {
	if t.ID == "" {
		t.ID = runID
	}
	digest, err := t.Digest()
	if err != nil {
		return nil, err
	}
	c := *old.Created
	c.TaskID, c.TaskDigest, c.TaskSource, c.By, c.Durability = t.ID, digest, env.Source, t.By,
		r.cfg.Durability
	c.Agents, c.Options, c.ForkOf, c.To = map[string]events.Agent{c.Agent: old.Agents[c.Agent]}, old.Options, &from,
		events.Created
	c.TraceParent, c.Session, c.SessionFence, c.Attended = env.TraceParent, "", 0, t.Attended
	c.Work, c.Address, c.Landing = nil, nil, nil // the item and the address are still those of the run that is forked
	if of := c.ChildOf; of != nil {              // what was granted for the tree is not granted for the fork
		alone := *of
		alone.Session, alone.SessionFence = "", 0
		c.ChildOf = &alone
	}
	wrapped(&c)
	forkGit(&c, runID, old)
	if !from.SameWorkspace {
		c.Workspace = "run/" + runID
	}
	return &c, nil
}

// Weigh estimates what the model is told of the history, where the run has a budget: the first request has to fit it
// too.
func (r *Resolver) Weigh(ctx context.Context, c *events.RunCreatedData) error {
	if c.History == nil || c.Options.MaxTokens <= 0 && c.Options.MaxCost <= 0 && c.Options.Funds == nil {
		return nil
	}
	messages, err := history.ToMessages(ctx, r.cfg.Blobs, c.History, history.Window(c.Agents[c.Agent].ContextWindow))
	if err != nil {
		return err
	}
	c.HistoryTokens = history.Tokens(messages)
	return nil
}
