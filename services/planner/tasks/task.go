package tasks

import (
	"errors"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/services/planner/part"
)

// ProjectOf is the last token of the subject of a task, which permissions can bind to a user; empty where it has none.
func ProjectOf(m kernel.Message) string {
	if t := strings.Split(m.Subject(), "."); len(t) == 4 {
		return t[3]
	}
	return ""
}

// Read parses and checks the shape of a task, bare or as a CloudEvent.
func Read(m kernel.Message) (events.Task, ce.Envelope, error) {
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
			return t, env, kernel.Refuse("bad_input", ForkHint, "%v", err)
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
		err = errors.Join(events.CheckBy(t.By), part.NotDerived(t.ID))
	}
	if project := ProjectOf(m); err == nil && project != "" {
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
	return "run-" + part.Token("task|"+foreign)
}

// RunID makes the run's id from the task's, which is a token; where there is none, from the place of the message in
// the input stream, which is the same on each delivery.
func RunID(taskID, station string, m kernel.Message) string {
	if events.ValidID(taskID) {
		return taskID
	}
	return runlog.IDOf(station, m.Seq(), m.Time())
}

// ForkHint is how a run is forked.
const ForkHint = `send {"fork_of":{"run_id":"RUN","sequence":12},"say":"what to do instead"}; inspan logs RUN shows the events`

// checkFork looks at the shape of a task that forks a run.
func checkFork(t events.Task) error {
	switch {
	case t.Agent != "" || t.Task != "" || t.Plan != nil || t.Autonomy != nil || t.MaxToolCalls != nil ||
		t.MaxSteps != nil || t.Timeout != "" || t.CheckpointIntervalMS != nil ||
		t.MaxTokens != nil || t.MaxUSD != nil || t.MaxSubAgentDepth != nil || t.Handoff != "" || len(t.Mail) > 0 ||
		t.Repo != "" || t.Ref != "" || t.Branch != "" || t.Depth != 0 || t.Place != "" || t.Git != nil ||
		t.EternalEngine != nil ||
		t.LongRunning != nil || t.Estimate != "" || t.Model != "" || len(t.Variables) > 0 || t.Session != "" ||
		t.SessionMode != "" || len(t.History) > 0:
		return errors.New("a fork takes agent, task, plan, options, variables, handoff, mail, repository and history from the run it comes from, and works in no session")
	case !events.ValidID(t.ForkOf.Run):
		return events.CheckID("fork_of.run_id", t.ForkOf.Run)
	case (t.ForkOf.Sequence == 0) == (t.ForkOf.Checkpoint == ""):
		return errors.New("fork_of needs a sequence or a checkpoint, one of the two: which event is the last one that the fork keeps?")
	case len(t.Say) > events.MaxTask:
		return fmt.Errorf("say has %d bytes, the limit is %d", len(t.Say), events.MaxTask)
	}
	return nil
}
