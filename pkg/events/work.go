package events

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// WorkStatus says whether a work item can be assigned.
type WorkStatus string

// An open item is free. A bound one has a holder: no one else gets it. A closed one is done, or not wanted any more.
const (
	WorkIsOpen   WorkStatus = "open"
	WorkIsBound  WorkStatus = "bound"
	WorkIsClosed WorkStatus = "closed"
)

// Limits of work items, in bytes where nothing else is said.
const (
	MaxWorkTitle      = 256
	MaxWorkText       = 24 << 10
	MaxWorkAcceptance = 8 << 10
	MaxWorkSource     = 1 << 10
	MaxWorkLabels     = 16
	MaxWorkLabel      = 64
	MaxWorkNote       = 2 << 10
	// MaxWorkNotes is how many notes the view of an item has, the last ones; its log has them all.
	MaxWorkNotes = 16
	// MaxConvoy is how many items a convoy has, MaxConvoys how many convoys one item is in.
	MaxConvoy  = 64
	MaxConvoys = 16
	// MaxWorkDispatch is the most bytes of one encoded WorkDispatch.
	MaxWorkDispatch = 128 << 10
	// MaxWorkInputs bounds WorkItem.Inputs: a message is delivered again within minutes.
	MaxWorkInputs = 32
)

// Times of a binding: how long it lasts without being started, where nothing else is said, and the limits of that.
const (
	WorkTerm    = 15 * time.Minute
	MinWorkTerm = time.Second
	MaxWorkTerm = 30 * 24 * time.Hour
)

// WorkRunPrefix is what the ids of the runs of bindings begin with. No task of an outsider may have such an id.
const WorkRunPrefix = "binding_"

// WorkStepPrefix is what the ids of the items of steps begin with. No one else can make one.
const WorkStepPrefix = "step_"

// WorkStep is the step of a run that an item stands for, and where the run had it.
type WorkStep struct {
	Run  string `json:"run"`
	Step string `json:"step"`
	// Sequence is that of the last event of the run which is known; 0 before the first look.
	Sequence uint64     `json:"sequence,omitempty"`
	Status   StepStatus `json:"step_status"`
	Agent    string     `json:"agent,omitempty"`
	// Closed says that nothing more becomes of the step: it has ended, its run has, or the plan was revised without it.
	// Reason says which.
	Closed bool   `json:"closed,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// WorkSpec is what there is to do.
type WorkSpec struct {
	// Title is one line.
	Title string `json:"title"`
	Text  string `json:"text,omitempty"`
	// Acceptance says in words when the work is done; the agent reads it. Accept are checks that decide it.
	Acceptance string   `json:"acceptance,omitempty"`
	Accept     *Accept  `json:"accept,omitempty" jsonschema:"oneof_type=object;string"`
	Labels     []string `json:"labels,omitempty"`
	// Source is where the item comes from, such as the address of an issue.
	Source string `json:"source,omitempty"`
	// Items makes the item a convoy: no agent gets it, and it is closed when all of these are.
	Items []string `json:"items,omitempty"`
}

// Check returns what is wrong with a spec, in words for whoever wrote it.
func (s WorkSpec) Check() error {
	var err error
	switch {
	case strings.TrimSpace(s.Title) == "":
		err = errors.New("the title is empty")
	case strings.TrimSpace(s.Acceptance) == "" && s.Acceptance != "":
		err = errors.New("the acceptance is blank: leave it out, or say when the work is done")
	case len(s.Labels) > MaxWorkLabels:
		err = fmt.Errorf("%d labels, the limit is %d", len(s.Labels), MaxWorkLabels)
	case slices.Contains(s.Labels, ""):
		err = errors.New("a label is empty")
	}
	err = firstOf(err, checkText("title", s.Title, MaxWorkTitle, false), checkText("text", s.Text, MaxWorkText, true),
		checkText("acceptance", s.Acceptance, MaxWorkAcceptance, true), checkText("source", s.Source, MaxWorkSource, false))
	for _, label := range s.Labels {
		err = firstOf(err, checkText("label", label, MaxWorkLabel, false))
	}
	if fault := s.Accept.Fault(); err == nil && fault != "" {
		err = fmt.Errorf("accept: %s", fault)
	}
	return firstOf(err, s.checkConvoy())
}

func (s WorkSpec) checkConvoy() error {
	switch {
	case len(s.Items) > MaxConvoy:
		return fmt.Errorf("%d items, the limit of a convoy is %d", len(s.Items), MaxConvoy)
	case len(s.Items) > 0 && s.Accept != nil:
		return errors.New("a convoy has no checks: its items have")
	}
	for i, id := range s.Items {
		if err := CheckID("item", id); err != nil {
			return err
		}
		if slices.Contains(s.Items[:i], id) {
			return fmt.Errorf("item %s is named twice", id)
		}
	}
	return nil
}

// WorkDispatch is who gets an item, and how the run is made that works on it. Its fields are those of Task.
type WorkDispatch struct {
	// Agent is the definition that the run has. Address is the named agent that holds the item: each of its runs in turn
	// has it, and Agent is the definition that it is registered with.
	Agent   string `json:"agent"`
	Address string `json:"address,omitempty"`
	// Task is more for the agent than the item says; Plan has the run carry out a plan, which Formula names.
	Task        string            `json:"task,omitempty"`
	Plan        *TaskPlan         `json:"plan,omitempty"`
	Formula     *Formula          `json:"formula,omitempty"`
	Variables   map[string]string `json:"variables,omitempty"`
	WorkflowRun string            `json:"workflow_run_id,omitempty"`
	Session     string            `json:"session_id,omitempty"`
	Model       string            `json:"model,omitempty"`
	Repo        string            `json:"repo,omitempty"`
	Ref         string            `json:"ref,omitempty"`
	Branch      string            `json:"branch,omitempty"`
	Timeout     string            `json:"timeout,omitempty"`
	Autonomy    int               `json:"autonomy,omitempty"`
	MaxTokens   int64             `json:"max_tokens,omitempty"`
	// MaxUSD is a number in a text, such as "2.50".
	MaxUSD string `json:"max_usd,omitempty"`
	// Deliver has the work delivered when the run has completed; nil closes the item then.
	Deliver *WorkDeliver `json:"deliver,omitempty"`
}

// Holder is who holds the item: an address, or a definition.
func (d WorkDispatch) Holder() string { return cmp.Or(d.Address, d.Agent) }

// WorkBinding is the one holder of an item.
type WorkBinding struct {
	// Epoch counts the bindings of the item from 1.
	Epoch int `json:"epoch"`
	WorkDispatch
	// Run is the id of the run that works on the item; it exists only once the binding was dispatched. That of a named
	// agent is empty while none of its runs has the item, and AgentEpoch is the epoch of the last one that had.
	Run        string `json:"run"`
	AgentEpoch int    `json:"agent_epoch,omitempty"`
	// Dispatched says that the run is to begin, Started that it has the item: then only its end frees that.
	Dispatched bool      `json:"dispatched,omitempty"`
	Started    bool      `json:"started,omitempty"`
	BoundAt    time.Time `json:"bound_at"`
	// DispatchedAt is when that was asked for.
	DispatchedAt time.Time `json:"dispatched_at,omitzero"`
	// ExpiresAt is when the item is free again unless the run has started; zero once a named agent had it.
	ExpiresAt time.Time `json:"expires_at"`
	By        string    `json:"by,omitempty"`
	// DispatchedBy is who had it started.
	DispatchedBy string `json:"dispatched_by,omitempty"`
	// HandedIn is the call by which the run handed the item in; empty where whoever bound it asked for the delivery.
	HandedIn string `json:"handed_in,omitempty"`
}

// WorkRef names a binding in the run that it began.
type WorkRef struct {
	Work  string `json:"work"`
	Epoch int    `json:"epoch"`
}

// WorkNote is what somebody noted of an item.
type WorkNote struct {
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"`
	Note string    `json:"note"`
}

// WorkEnd is how the last binding of an item ended.
type WorkEnd struct {
	Epoch int    `json:"epoch"`
	Agent string `json:"agent"`
	Run   string `json:"run,omitempty"`
	// Code is completed, failed, expired, unassigned, or the code of a refusal; Reason says why.
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
}

// Codes of a WorkEnd, besides those of refusals.
const (
	WorkCompleted  = "completed"
	WorkFailed     = "failed"
	WorkExpired    = "expired"
	WorkUnassigned = "unassigned"
)

// WorkItem is all that a station knows of a work item. It is the fold of the item's log; the row in the bucket of
// sessions is a view of it.
type WorkItem struct {
	ID     string     `json:"work"`
	Status WorkStatus `json:"status"`
	Spec   WorkSpec   `json:"spec"`
	// Epoch is that of the last binding, 0 before the first.
	Epoch   int          `json:"epoch"`
	Binding *WorkBinding `json:"binding,omitempty"`
	// Last is how the last binding ended.
	Last *WorkEnd `json:"last,omitempty"`
	// Delivery is how far the last delivery came; nil before the first.
	Delivery *WorkDelivery `json:"delivery,omitempty"`
	// Step is that of a formula which the item follows; nil for an item that agents are given.
	Step *WorkStep `json:"step,omitempty"`
	// Convoys are those that the item is in.
	Convoys []string `json:"convoys,omitempty"`
	// Notes are the last ones.
	Notes []WorkNote `json:"notes,omitempty"`
	By    string     `json:"by,omitempty"`
	// ClosedBy and ClosedAs say who closed it, and why.
	ClosedBy  string    `json:"closed_by,omitempty"`
	ClosedAs  string    `json:"closed_as,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Inputs are the positions of the last controls that were carried out.
	Inputs []uint64 `json:"inputs,omitempty"`
	// Log is the last event that a row includes.
	Log *LogHead `json:"log,omitempty"`
}

// Took reports whether the control at that position was carried out.
func (w WorkItem) Took(input uint64) bool { return slices.Contains(w.Inputs, input) }

// RunOf is the run that had a binding of the item, whether it works or has ended; empty where that is not known: before
// there is one, and of a binding before the last.
func (w WorkItem) RunOf(epoch int) string {
	switch {
	case w.Binding != nil && w.Binding.Epoch == epoch:
		return w.Binding.Run
	case w.Last != nil && w.Last.Epoch == epoch:
		return w.Last.Run
	}
	return ""
}

// WorkControl is what a user publishes to make or steer a work item.
type WorkControl struct {
	// Action is add, assign, start, unassign, note or close.
	Action string `json:"action"`
	// Spec goes with add.
	Spec *WorkSpec `json:"spec,omitempty"`
	// Dispatch goes with assign; Start has the run begin at once.
	Dispatch *WorkDispatch `json:"dispatch,omitempty"`
	Start    bool          `json:"start,omitempty"`
	// Within, with assign, is how long the item stays bound without being started, such as "1h"; empty is 15m.
	Within string `json:"within,omitempty"`
	// Agent, with start and unassign, has it refused where another agent holds the item.
	Agent string `json:"agent,omitempty"`
	// Note goes with note.
	Note string `json:"note,omitempty"`
	// By is one line of at most MaxBy bytes, Reason a text of at most MaxReason.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}
