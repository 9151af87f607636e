package events

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Task is what a user publishes to dispatch work. Only Agent and Task are required.
type Task struct {
	// ID makes the task one: published again, it starts nothing. It is 1 to 64 characters of A-Z a-z 0-9 _ and -, and
	// the run's id.
	ID    string `json:"id,omitempty"`
	Agent string `json:"agent"`
	Task  string `json:"task"`
	// Project is the last token of the subject that the task is published on, where it belongs to one; it is not said in
	// the task itself.
	Project string `json:"-"`
	// Plan to carry out; without one the run has a single step, or the plan its agent asks a model for.
	Plan *TaskPlan `json:"plan,omitempty"`
	// Formula is what the plan was made from; nil where a person or a program wrote it. The station records it as it is
	// sent.
	Formula *Formula `json:"formula,omitempty"`
	// Options that differ from the agent's and the defaults; nil means not set.
	Autonomy     *int `json:"autonomy,omitempty"`
	MaxToolCalls *int `json:"max_tool_calls,omitempty"`
	MaxSteps     *int `json:"max_steps,omitempty"`
	// MaxTokens and MaxUSD bound what the run's model requests use, MaxUSD in US dollars; above zero.
	MaxTokens            *int64       `json:"max_tokens,omitempty"`
	MaxUSD               *json.Number `json:"max_usd,omitempty" jsonschema:"oneof_type=number;string"`
	Timeout              string       `json:"timeout,omitempty"`
	CheckpointIntervalMS *int64       `json:"checkpoint_interval_ms,omitempty"`
	// Mode is normal, dream (a checkpoint at each interval) or overnight (the steps of Plan are phases, and a report is
	// made); empty means normal.
	Mode             RunMode `json:"mode,omitempty"`
	MaxSubAgentDepth *int    `json:"max_sub_agent_depth,omitempty"`
	EternalEngine    *bool   `json:"eternal_engine_enabled,omitempty"`
	// Model replaces the agent's model for this run, "provider/name".
	Model     string            `json:"model,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	// Where the work happens and what it belongs to (WS-4).
	Session string `json:"session_id,omitempty"`
	// SessionMode makes the session sequential or parallel from now on; empty leaves it.
	SessionMode SessionMode `json:"session_mode,omitempty"`
	// History is a conversation to begin with, for a task without a session (LOOP-11).
	History      []Message `json:"history,omitempty"`
	WorkflowRun  string    `json:"workflow_run_id,omitempty"`
	Parent       string    `json:"parent_run_id,omitempty"`
	Orchestrator string    `json:"orchestrator_run_id,omitempty"`
	WorkID       string    `json:"work_id,omitempty"`
	// Handoff is the state summary of whoever did this work before, in its own words; at most MaxHandoff bytes.
	Handoff string `json:"handoff,omitempty"`
	// Mail that waits for the agent; it is shown the most urgent first. At most MaxMail letters, MaxMailBytes together.
	Mail []Letter `json:"mail,omitempty"`
	// Repo is the address of a git repository to work in, by https or ssh and without a password. Ref is a branch, a
	// tag, a commit or a ref such as pull/12/head of it, Branch a branch; Ref wins. Depth is how many commits of
	// history are fetched, 0 for all.
	Repo   string `json:"repo,omitempty"`
	Ref    string `json:"ref,omitempty"`
	Branch string `json:"branch,omitempty"`
	Depth  int    `json:"depth,omitempty"`
	// Place has the run work in a directory of a person itself, not in one of its own: the id under which inspan run
	// --in-place registered it with the station, on the machine of its toolrunner. It goes with neither Repo nor Git.
	Place string `json:"place,omitempty"`
	// Git are settings of this run that differ from those of its agent. A run with Repo or Git works in git.
	Git *TaskGit `json:"git,omitempty"`
	// Accept decides that the last steps of the run are done; without it the agents decide. A text is a command to run.
	Accept *Accept `json:"accept,omitempty" jsonschema:"oneof_type=object;string"`
	// LongRunning says whether the run needs all that the harness does for long work (LIFE-13); nil leaves it to
	// Estimate and to the agent. Estimate is how long the work may take, such as "20m".
	LongRunning *bool  `json:"long_running,omitempty"`
	Estimate    string `json:"estimate,omitempty"`
	// Stream says that somebody watches the model's words as they come.
	Stream bool `json:"stream,omitempty"`
	// Attended says that a person reads the answers and can ask back: the agent is a partner in a conversation.
	Attended bool `json:"attended,omitempty"`
	// By is who asks, one line of at most MaxBy bytes. Where a gate needs several approvers it is none of them.
	By string `json:"by,omitempty"`
	// ForkOf makes the run one that begins where another one stood; agent, task, options and plan are then those of
	// that one and are left out here. Say is a message to the agent after that point.
	ForkOf *ForkPoint `json:"fork_of,omitempty"`
	Say    string     `json:"say,omitempty"`
}

// ForkPoint names the event of a run that another run begins after, by its sequence or as a checkpoint.
type ForkPoint struct {
	Run string `json:"run_id"`
	// Sequence of the event; left out where Checkpoint is given.
	Sequence uint64 `json:"sequence,omitempty"`
	// Checkpoint is the name of a checkpoint of the run, such as step-build.
	Checkpoint string `json:"checkpoint,omitempty"`
	// SameWorkspace lets the fork work in the directory of the other run, as it is now; else it gets a new, empty one.
	SameWorkspace bool `json:"same_workspace,omitempty"`
}

// Letter is one message to an agent.
type Letter struct {
	From    string `json:"from"`
	Subject string `json:"subject,omitempty"`
	Body    string `json:"body"`
	// Priority is urgent, high, normal or low; empty means normal.
	Priority string `json:"priority,omitempty"`
}

// Priorities of a letter, the most urgent first.
func Priorities() []string { return []string{"urgent", "high", "normal", "low"} }

// Digest of a task that has an id: hex SHA-256 of its JSON. The run of the task records it, so that another task of the
// same id is told from the same one that is published again.
func (t *Task) Digest() (string, error) {
	whole, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("digest of the task: %w", err)
	}
	sum := sha256.Sum256(whole)
	return hex.EncodeToString(sum[:]), nil
}

// CheckBriefing returns what is wrong with the handoff and the mail of a task, in words for whoever sent it.
func (t *Task) CheckBriefing() error {
	if len(t.Handoff) > MaxHandoff {
		return fmt.Errorf("the handoff has %d bytes, the limit is %d", len(t.Handoff), MaxHandoff)
	}
	if len(t.Mail) > MaxMail {
		return fmt.Errorf("%d letters in mail, the limit is %d", len(t.Mail), MaxMail)
	}
	size := 0
	for i, l := range t.Mail {
		if l.From == "" || l.Body == "" {
			return fmt.Errorf("mail[%d] needs from and body", i)
		}
		if l.Priority != "" && !slices.Contains(Priorities(), l.Priority) {
			return fmt.Errorf("mail[%d].priority %q is none of %s", i, shorten(l.Priority), strings.Join(Priorities(), ", "))
		}
		if size += len(l.From) + len(l.Subject) + len(l.Body); size > MaxMailBytes {
			return fmt.Errorf("the mail has more than %d bytes", MaxMailBytes)
		}
	}
	return nil
}

// MaxAddress is the most bytes of Task.Repo, of Task.Ref and of Task.Branch, MaxDepth the most of Task.Depth.
const (
	MaxAddress = 2 << 10
	MaxDepth   = 1 << 20
)

// TaskPlan is a plan given with a task.
type TaskPlan struct {
	Steps []TaskStep `json:"steps"`
	// Vars are the values that expressions in the flow of steps know as vars.
	Vars map[string]json.RawMessage `json:"vars,omitempty"`
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
	// Git are settings for this step alone, in place of the run's: auto_commit true, or require_approval.
	Git *GitSettings `json:"git,omitempty"`
	// Child gives the step to a run of its own: "own" lets it work in a new directory, which is empty or a clone,
	// "worktree" in a clone of what is in the directory of this run, into which its work is merged, "shared" in that of
	// this run.
	Child string `json:"child,omitempty"`
	// ByHarness gives the step to a run on the direct path, in the workspace of this one, where the harness of its agent
	// is off and nothing asks for more than that path has.
	ByHarness bool `json:"by_harness,omitempty"`
	// Accept decides that this step is done, before what decides about its agent's steps and, for a last step, the run.
	Accept *Accept `json:"accept,omitempty" jsonschema:"oneof_type=object;string"`
	// Flow is when and how often the step is carried out.
	Flow *StepFlow `json:"flow,omitempty"`
}

// Formula names the file that a plan was made from, and the digest of all files that it is made of: SHA-256, in hex.
type Formula struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// CheckFormula returns what is wrong with the origin of a plan, in words for whoever sent it.
func (t *Task) CheckFormula() error {
	if t.Formula == nil {
		return nil
	}
	if err := CheckID("formula", t.Formula.Name); err != nil {
		return err
	}
	if b, err := hex.DecodeString(t.Formula.Digest); err != nil || len(b) != sha256.Size {
		return fmt.Errorf("formula %s: the digest %q is no SHA-256 in hex", t.Formula.Name, shorten(t.Formula.Digest))
	}
	return nil
}

// PlanSteps returns the steps with the blanks filled in.
func (p *TaskPlan) PlanSteps(agent string) []PlanStep {
	steps := make([]PlanStep, len(p.Steps))
	for i, st := range p.Steps {
		steps[i] = PlanStep{ID: st.ID, Description: st.Description, Agent: st.Agent, Critical: st.Critical, Git: st.Git,
			Child:  st.Child,
			Accept: st.Accept, Flow: st.Flow, Dependencies: append(append([]string{}, st.Dependencies...), st.Needs...)}
		if st.Agent == "" {
			steps[i].Agent = agent
		}
	}
	return steps
}

// Control is what a user publishes to steer a run.
type Control struct {
	// Action is pause, resume, start, stop, autonomy, revise or signal.
	Action string `json:"action"`
	// Level for autonomy, 1 to 5.
	Level int `json:"level,omitempty"`
	// Plan for revise: the steps that take the place of those that have not begun. They may need steps that stay.
	Plan *TaskPlan `json:"plan,omitempty"`
	// Signal for signal: its name, a single token. Data is JSON of at most MaxSignal bytes; it becomes the output of the
	// step that waits for the signal.
	Signal string          `json:"signal,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
	// By is one line of at most MaxBy bytes, Reason a text of at most MaxReason.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Interrupt, with pause, ends the answer that a model is giving: what it said so far is kept, and the turn is taken
	// again when the run is resumed. Without it the answer is waited for.
	Interrupt bool `json:"interrupt,omitempty"`
}

// Answer is what a person or program publishes on a gate's subject.
type Answer struct {
	// Decision is approve or reject, or revoke for the grant that was given at the gate.
	Decision string `json:"decision"`
	// Reason is a text of at most MaxReason bytes, By one line of at most MaxBy.
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	// ProposalHash is the hash of the proposal that was seen; the answer is refused if another one waits.
	ProposalHash string `json:"proposal_hash,omitempty"`
	// Key is the id of the key that signed the answer, Signature what it made of it; see pkg/approval. A signed answer
	// names the proposal's hash.
	Key       string `json:"key,omitempty"`
	Signature string `json:"signature,omitempty"`
	// EditedInput approves other arguments than those proposed, as a JSON object: they are checked and judged like any
	// call, and become what is run. A signature is then over EditedHash of proposal_hash and EditedInput of these.
	EditedInput json.RawMessage `json:"edited_input,omitempty"`
	// Always approves later calls of the scope, too: "run" or "session". What it covers is what gate.opened has as
	// always, or Pattern in its place.
	Always GrantScope `json:"always,omitempty"`
	// Pattern is the beginning of a command and " *", such as "go test *".
	Pattern string `json:"pattern,omitempty"`
	// For is how long the grant lasts at most, such as "8h"; empty means DefaultGrant.
	For string `json:"for,omitempty"`
	// DeputyFor is who is away and named the author of the answer as deputy: it counts as theirs then.
	DeputyFor string `json:"deputy_for,omitempty"`
}

// Limits of a task.
const (
	MaxTask      = 64 << 10
	MaxVariables = 64
	MaxHandoff   = 16 << 10
	MaxMail      = 64
	MaxMailBytes = 32 << 10
	// MaxEarlier is how many earlier runs of its workflow a run is given files of.
	MaxEarlier = 32
	// MaxContext is the most bytes of an operator's context.
	MaxContext = 32 << 10
)

// MaxDeadLetter is the most bytes of one encoded dead letter.
const MaxDeadLetter = 62 << 10

// Resolve applies, in rising order, the defaults, the agent's options and the task's. It returns what is wrong with
// a value in words for the person who sent it.
func (t *Task) Resolve(a Agent) (Options, error) {
	o := DefaultOptions()
	if err := t.mode(&o); err != nil {
		return Options{}, err
	}
	over := func(dst *int, v int) {
		if v != 0 {
			*dst = v
		}
	}
	over(&o.Autonomy, a.Autonomy)
	over(&o.MaxSteps, a.MaxSteps)
	over(&o.MaxToolCalls, a.MaxToolCalls)
	o.MaxTokens, o.MaxCost = a.MaxTokens, a.MaxCost
	if a.TimeoutMS != 0 {
		o.TimeoutMS = a.TimeoutMS
	}
	set(&o.Autonomy, t.Autonomy)
	set(&o.MaxToolCalls, t.MaxToolCalls)
	set(&o.MaxSteps, t.MaxSteps)
	set(&o.CheckpointIntervalMS, t.CheckpointIntervalMS)
	set(&o.MaxSubAgentDepth, t.MaxSubAgentDepth)
	set(&o.EternalEngine, t.EternalEngine)
	if err := t.budget(&o); err != nil {
		return Options{}, err
	}
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
	case o.MaxTokens < 0 || o.MaxCost < 0:
		return errors.New("a budget of the agent is below zero")
	case o.CheckpointIntervalMS < 1000:
		return fmt.Errorf("checkpoint_interval_ms is %d, want at least 1000", o.CheckpointIntervalMS)
	case o.MaxSubAgentDepth < 0 || o.MaxSubAgentDepth > 16:
		return fmt.Errorf("max_sub_agent_depth is %d, want 0 to 16", o.MaxSubAgentDepth)
	}
	return nil
}
