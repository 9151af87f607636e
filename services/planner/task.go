package planner

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
)

// task opens the run that a task asks for, or finds that it exists.
func (r *Role) task(ctx context.Context, m kernel.Message) error {
	t, env, err := readTask(m)
	if err != nil {
		return err
	}
	return r.open(ctx, m, t, env, origin{})
}

// origin is what of the station dispatches a task; nothing for one of a user.
type origin struct {
	firing  *events.FiringRef
	work    *events.WorkRef
	address *events.AddressRef
	landing *events.LandingRef
	// subject and review are of the work that the run does in git.
	subject string
	review  *events.ReviewAsk
}

// open opens the run of a task whose shape was checked.
func (r *Role) open(ctx context.Context, m kernel.Message, t events.Task, env ce.Envelope, from origin) error {
	if err := checkPlacement(t); err != nil {
		return err
	}
	runID := runIDOf(t.ID, r.cfg.Station, m)
	there, err := r.known(ctx, t, runID)
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
	if t.ForkOf != nil {
		return r.forks.fork(ctx, m, t, env, runID, there)
	}
	return r.sessions.abandon(ctx, t.Session, runID, r.opened(ctx, m, t, env, runID, there, from))
}

// opened opens the run of a task that was admitted. there is what is known of it.
func (r *Role) opened(ctx context.Context, m kernel.Message, t events.Task, env ce.Envelope, runID string,
	there run.State, from origin) error {
	created, err := r.resolve.pin(ctx, t, env, runID)
	if created != nil {
		created.By, created.Project, created.Firing, created.Work = t.By, projectOf(m), from.firing, from.work
		created.Address, created.Landing = from.address, from.landing
		if created.Git != nil {
			created.Git.Subject, created.Git.Review = from.subject, from.review
		}
	}
	if err != nil {
		return err
	}
	made, err := r.resolve.given(ctx, t, created)
	if err != nil {
		return err
	}
	if created.PlanOrigin = events.OriginModel; made != nil {
		created.PlanOrigin = made.Origin
	}
	answers, err := r.starting(ctx, there, runID, created)
	if err == nil {
		created.Direct, err = r.cfg.direct(t, created, made, answers)
	}
	if err != nil {
		return err
	}
	if there.Sequence == 0 {
		if err := r.sessions.enter(ctx, t, runID, created); err != nil {
			return err
		}
		if r.cfg.Earlier != nil {
			if created.Earlier, err = r.cfg.Earlier(ctx, created, runID, m.Time()); err != nil {
				return fmt.Errorf("earlier runs of the workflow: %w", err)
			}
		}
		if err := r.treasurer.fund(ctx, runID, created, budget.Amount{}); err != nil {
			return err
		}
		if err := r.sessions.weigh(ctx, created); err != nil {
			return r.treasurer.unborn(ctx, runID, created, err)
		}
	} else {
		created.SessionFence = there.Created.SessionFence // whoever made it may not have confirmed its lock
	}
	w, err := r.begin(ctx, runID, created, made, answers)
	if err != nil {
		return r.treasurer.unborn(ctx, runID, created, fullAtBirth(err, w.State.Sequence > 0))
	}
	if w.State.Status.Ended() { // a task that comes once more, and whose run was not known here
		return r.treasurer.ended(ctx, w.State)
	}
	if w.State.Plan == nil && w.State.Status == events.Running {
		if w, err = r.fromModel(ctx, w.State); err != nil {
			return err
		}
	}
	if w.State, err = r.advance(ctx, w.State); err != nil {
		return err
	}
	return r.remind.setDeadline(ctx, w.State)
}

// known is what is known of the run of a task. Where a lock hangs on it, the leader is asked: a run that has ended must
// not take it again.
func (r *Role) known(ctx context.Context, t events.Task, runID string) (run.State, error) {
	if r.cfg.Sessions != nil && t.Session != "" {
		return r.cfg.Ledger.Fresh(ctx, runID)
	}
	s, _, err := r.cfg.Ledger.State(ctx, runID)
	return s, err
}

func (r *Role) begin(ctx context.Context, runID string, created *events.RunCreatedData, made *events.PlanMadeData,
	answers []events.HookAnswer) (runlog.Written, error) {
	ours := func(s run.State) error {
		if s.Sequence > 0 && s.Created.TaskDigest != created.TaskDigest {
			return named(runID, kernel.Refuse("duplicate_id", "give each task its own id, or none",
				"the task id %q belongs to another task, which started run %s", created.TaskID, runID))
		}
		return nil
	}
	// A run starts only when it exists and has what it was made for.
	if created.SessionFence != 0 || created.Work != nil || created.Address != nil {
		w, err := r.write(ctx, runID, func(s run.State, _ time.Time) ([]events.Payload, error) {
			if s.Sequence == 0 {
				return []events.Payload{lifecycle.Birth(created, answers)}, nil
			}
			return nil, ours(s)
		})
		if err == nil && lifecycle.Unborn(w.State) {
			err = r.sessions.confirm(ctx, w.State)
			if err == nil {
				err = r.mail.confirm(ctx, runID, created.Address)
			}
			if err == nil { // after it: an earlier run of the agent has ended by then
				err = r.work.confirm(ctx, runID, created.Work, created.Address)
			}
		}
		if err != nil {
			return w, err
		}
	}
	return r.write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
		if err := ours(s); err != nil {
			return nil, err
		}
		return lifecycle.Begin(s, now, created, made, answers)
	})
}

// projectOf is the last token of the subject of a task, which permissions can bind to a user; empty where it has none.
func projectOf(m kernel.Message) string {
	if t := strings.Split(m.Subject(), "."); len(t) == 4 {
		return t[3]
	}
	return ""
}

// readTask parses and checks the shape of a task, bare or as a CloudEvent.
func readTask(m kernel.Message) (events.Task, ce.Envelope, error) {
	var t events.Task
	env, err := ce.Read(m.Data(), m.Header, events.TaskType, &t)
	if err != nil {
		return t, env, kernel.Refuse("bad_input",
			`send {"agent":"NAME","task":"what to do"}; docs/events.md lists the other fields`, "%v", err)
	}
	if t.ID == "" && env.ID != "" {
		t.ID = ownID(env.ID)
	} else if t.ID != "" && !events.ValidID(t.ID) {
		return t, env, kernel.Refuse("bad_input", "give the task such an id, or none", "%v", events.CheckID("task id", t.ID))
	}
	if env.TraceParent == "" {
		env.TraceParent = m.Header("traceparent")
	}
	if !events.ValidTraceParent(env.TraceParent) {
		env.TraceParent = "" // a broken trace context is as good as none (W3C Trace Context)
	}
	switch {
	case t.ForkOf != nil:
		if err = checkFork(t); err != nil {
			return t, env, kernel.Refuse("bad_input", forkHint, "%v", err)
		}
	case t.Say != "":
		err = errors.New("say goes with fork_of; what a new run is told is its task")
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
	case t.Session != "" && len(t.History) > 0:
		err = errors.New("a session has a history of its own: leave history or session_id out")
	case t.Session == "" && t.SessionMode != "":
		err = errors.New("session_mode goes with session_id")
	}
	if err == nil {
		err = errors.Join(session.CheckMode(t.SessionMode), history.CheckGiven(t.History), t.CheckBriefing(),
			t.CheckFormula())
	}
	if err == nil {
		err = errors.Join(events.CheckBy(t.By), notDerived(t.ID))
	}
	if project := projectOf(m); err == nil && project != "" {
		err = events.CheckID("project", project)
	}
	for what, id := range map[string]string{"agent": t.Agent, "session_id": t.Session, "workflow_run_id": t.WorkflowRun,
		"parent_run_id": t.Parent, "orchestrator_run_id": t.Orchestrator, "work_id": t.WorkID} {
		if err == nil && id != "" {
			err = events.CheckID(what, id)
		}
	}
	if err != nil {
		return t, env, kernel.Refuse("bad_input",
			`send {"agent":"NAME","task":"what to do"}; inspan run --help shows the options`, "%v", err)
	}
	return t, env, nil
}

// ownID is the task's id for that of a CloudEvent, which may be any text: the id itself where it is a token, else one
// made of its digest, so that the same event starts one run.
func ownID(foreign string) string {
	if events.ValidID(foreign) {
		return foreign
	}
	return "run-" + token("task|"+foreign)
}

// runIDOf makes the run's id from the task's, which is a token; where there is none, from the place of the message in
// the input stream, which is the same on each delivery.
func runIDOf(taskID, station string, m kernel.Message) string {
	if events.ValidID(taskID) {
		return taskID
	}
	return runlog.IDOf(station, m.Seq(), m.Time())
}

var lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func token(s string) string {
	h := sha256.Sum256([]byte(s))
	return lower.EncodeToString(h[:10])
}

// pin looks up the agent and fixes all that the run is made of.
func (r *resolver) pin(ctx context.Context, t events.Task, env ce.Envelope,
	runID string) (*events.RunCreatedData, error) {
	agent, err := r.agent(ctx, t.Agent)
	if err != nil {
		return nil, err
	}
	if t.Model != "" {
		agent.Model = t.Model
	}
	agent = r.fit(agent)
	options, err := t.Resolve(agent)
	if err != nil {
		return nil, kernel.Refuse("bad_input", "fix the value and send the task again", "%v", err)
	}
	told, err := r.context(ctx)
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
	prices, err := r.prices(agents, options)
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
		Handoff: t.Handoff, Mail: t.Mail, Context: told, Formula: t.Formula, To: events.Created}
	if err := inGit(t, c, runID, events.Session{}); err != nil {
		return c, err
	}
	return c, checkAccept(c, c.Agents)
}

// prices pins those of the models of agents. With a budget of money every model must have one.
func (r *resolver) prices(agents map[string]events.Agent, o events.Options) (map[string]events.Price, error) {
	prices, err := r.cfg.Prices.Pin(agents, budget.Priced(o))
	if err != nil {
		return nil, kernel.Refuse("no_price", "an operator adds the price; or give the run a budget of tokens instead", "%v",
			err)
	}
	return prices, nil
}

// workspace is the run's directory below the workspace root (WS-1, WS-2).
func (r *resolver) workspace(t events.Task, runID string) string {
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

func (r *resolver) agent(ctx context.Context, name string) (events.Agent, error) {
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
		hint = meant(name, known) + "registered: " + strings.Join(known, ", ")
	}
	return events.Agent{}, kernel.Refuse("unknown_agent", hint, "agent %q is not registered", name)
}

// given returns the plan that came with the task, or a single step, or nil where the agent asks a model for it.
func (r *resolver) given(ctx context.Context, t events.Task, c *events.RunCreatedData) (*events.PlanMadeData, error) {
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
func (r *resolver) complete(ctx context.Context, c *events.RunCreatedData, made *events.PlanMadeData,
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
		known[st.Agent], made.Agents[st.Agent] = true, r.fit(a)
	}
	byHarness(c, made, asked)
	err := r.pinReached(ctx, c, made)
	if err == nil {
		err = checkAccept(c, made.Agents, made.Steps...)
	}
	if err != nil {
		return err
	}
	if made.Prices, err = r.prices(made.Agents, c.Options); err != nil {
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
