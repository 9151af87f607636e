package events

import (
	"fmt"
	"time"
)

// Task is what a user publishes to dispatch work. Only Agent and Task are required.
type Task struct {
	// ID makes the task one: published again, it starts nothing. A valid token becomes the run's id.
	ID    string `json:"id,omitempty"`
	Agent string `json:"agent"`
	Task  string `json:"task"`
	// Plan to carry out; without one the run has a single step, or the plan its agent asks a model for.
	Plan *TaskPlan `json:"plan,omitempty"`
	// Options that differ from the agent's and the defaults; nil means not set.
	Autonomy             *int   `json:"autonomy,omitempty"`
	MaxToolCalls         *int   `json:"max_tool_calls,omitempty"`
	MaxSteps             *int   `json:"max_steps,omitempty"`
	Timeout              string `json:"timeout,omitempty"`
	CheckpointIntervalMS *int64 `json:"checkpoint_interval_ms,omitempty"`
	MaxSubAgentDepth     *int   `json:"max_sub_agent_depth,omitempty"`
	EternalEngine        *bool  `json:"eternal_engine_enabled,omitempty"`
	// Model replaces the agent's model for this run, "provider/name".
	Model     string            `json:"model,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	// Where the work happens and what it belongs to (WS-4).
	Session      string `json:"session_id,omitempty"`
	WorkflowRun  string `json:"workflow_run_id,omitempty"`
	Parent       string `json:"parent_run_id,omitempty"`
	Orchestrator string `json:"orchestrator_run_id,omitempty"`
	WorkID       string `json:"work_id,omitempty"`
	// Repo is the address of a git repository to work in, Ref what of it; a station that does not fetch repositories refuses it.
	Repo string `json:"repo,omitempty"`
	Ref  string `json:"ref,omitempty"`
	// Collaboration says how runs share a session: "sequential" or "parallel"; empty leaves it to the session.
	Collaboration string `json:"collaboration,omitempty"`
	// Stream says that somebody watches the model's words as they come.
	Stream bool `json:"stream,omitempty"`
}

// How runs share a session.
const (
	Sequential = "sequential"
	Parallel   = "parallel"
)

// MaxAddress is the most bytes of Task.Repo and of Task.Ref.
const MaxAddress = 2 << 10

// TaskPlan is a plan given with a task.
type TaskPlan struct {
	Steps []TaskStep `json:"steps"`
}

// TaskStep is a step of a plan as users write it. A step without an agent is the run's agent's; Needs is another
// word for Dependencies.
type TaskStep struct {
	ID           string   `json:"id"`
	Description  string   `json:"description"`
	Agent        string   `json:"agent,omitempty"`
	Dependencies []string `json:"dependencies,omitempty"`
	Needs        []string `json:"needs,omitempty"`
	Critical     bool     `json:"critical,omitempty"`
}

// PlanSteps returns the steps with the blanks filled in.
func (p *TaskPlan) PlanSteps(agent string) []PlanStep {
	steps := make([]PlanStep, len(p.Steps))
	for i, st := range p.Steps {
		steps[i] = PlanStep{ID: st.ID, Description: st.Description, Agent: st.Agent, Critical: st.Critical,
			Dependencies: append(append([]string{}, st.Dependencies...), st.Needs...)}
		if st.Agent == "" {
			steps[i].Agent = agent
		}
	}
	return steps
}

// Control is what a user publishes to steer a run.
type Control struct {
	// Action is pause, resume, start, stop or autonomy.
	Action string `json:"action"`
	// Level for autonomy, 1 to 5.
	Level  int    `json:"level,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Answer is what a person or program publishes on a gate's subject.
type Answer struct {
	// Decision is approve or reject.
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	// ProposalHash is the hash of the proposal that was seen; the answer is refused if another one waits.
	ProposalHash string `json:"proposal_hash,omitempty"`
	// Key is the id of the key that signed the answer, Signature what it made of it; see pkg/approval. A signed answer names
	// the proposal's hash.
	Key       string `json:"key,omitempty"`
	Signature string `json:"signature,omitempty"`
}

// Limits of a task.
const (
	MaxTask      = 64 << 10
	MaxVariables = 64
)

// MaxDeadLetter is the most bytes of one encoded dead letter.
const MaxDeadLetter = 62 << 10

// Resolve applies, in rising order, the defaults, the agent's options and the task's. It returns what is wrong with
// a value in words for the person who sent it.
func (t *Task) Resolve(a Agent) (Options, error) {
	o := DefaultOptions()
	over := func(dst *int, v int) {
		if v != 0 {
			*dst = v
		}
	}
	over(&o.Autonomy, a.Autonomy)
	over(&o.MaxSteps, a.MaxSteps)
	over(&o.MaxToolCalls, a.MaxToolCalls)
	if a.TimeoutMS != 0 {
		o.TimeoutMS = a.TimeoutMS
	}
	set(&o.Autonomy, t.Autonomy)
	set(&o.MaxToolCalls, t.MaxToolCalls)
	set(&o.MaxSteps, t.MaxSteps)
	set(&o.CheckpointIntervalMS, t.CheckpointIntervalMS)
	set(&o.MaxSubAgentDepth, t.MaxSubAgentDepth)
	set(&o.EternalEngine, t.EternalEngine)
	if t.Timeout != "" {
		d, err := time.ParseDuration(t.Timeout)
		if err != nil || d < 0 {
			return Options{}, fmt.Errorf("timeout %q is not a duration such as \"30m\"", shorten(t.Timeout))
		}
		o.TimeoutMS = d.Milliseconds()
	}
	return o, o.check()
}

func set[T any](dst *T, v *T) {
	if v != nil {
		*dst = *v
	}
}

func (o Options) check() error {
	switch {
	case o.Autonomy < 1 || o.Autonomy > 5:
		return fmt.Errorf("autonomy is %d, want 1 to 5", o.Autonomy)
	case o.MaxToolCalls < 0 || o.MaxToolCalls > 1_000_000:
		return fmt.Errorf("max_tool_calls is %d, want 0 to 1000000", o.MaxToolCalls)
	case o.MaxSteps < 1 || o.MaxSteps > 100_000:
		return fmt.Errorf("max_steps is %d, want 1 to 100000", o.MaxSteps)
	case o.CheckpointIntervalMS < 1000:
		return fmt.Errorf("checkpoint_interval_ms is %d, want at least 1000", o.CheckpointIntervalMS)
	case o.MaxSubAgentDepth < 0 || o.MaxSubAgentDepth > 16:
		return fmt.Errorf("max_sub_agent_depth is %d, want 0 to 16", o.MaxSubAgentDepth)
	}
	return nil
}
