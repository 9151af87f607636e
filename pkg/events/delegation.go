package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Names of the tools by which an agent gives work to others.
const (
	// ToolDelegate gives a piece of work to another agent, which carries it out in a child run.
	ToolDelegate = "delegate"
	// ToolDelegateResult asks what became of work that was given away in the background.
	ToolDelegateResult = "delegate_result"
)

// Limits of delegation.
const (
	// MaxDelegates is how many agents one agent may give work to.
	MaxDelegates = 32
	// MaxDelegated bounds the text of a piece of work that is given away, in bytes.
	MaxDelegated = 64 << 10
	// MaxReached is how many agents all of a run together may give work to, directly or not.
	MaxReached = 64
)

// Gives are the agents that an agent may have others work for: those that it gives work to, and those that review its
// own.
func (a Agent) Gives() []string { return append(slices.Clone(a.Delegates), a.Accept.Reviewers()...) }

// Reviewers are the agents that make the reviews among checks.
func (a *Accept) Reviewers() (names []string) {
	if a == nil {
		return nil
	}
	for _, c := range a.Checks {
		if c.Kind == CheckReview {
			names = append(names, c.Agent)
		}
	}
	return names
}

// Delegation is what a call of ToolDelegate asks for.
type Delegation struct {
	Agent string `json:"agent"`
	Task  string `json:"task"`
	// Workspace is where the child works: ChildOwn (default) or ChildShared.
	Workspace string `json:"workspace,omitempty"`
	// Background lets the call end at once, and the child work on.
	Background bool `json:"background,omitempty"`
}

// Delegating reads the arguments of a call of ToolDelegate.
func Delegating(input json.RawMessage) (d Delegation, err error) {
	if err = json.Unmarshal(input, &d); err != nil {
		return d, fmt.Errorf("the arguments are no delegation: %w", err)
	}
	if d.Workspace == "" {
		d.Workspace = ChildOwn
	}
	return d, nil
}

// Fault returns why an agent cannot give that work away, or "".
func (d Delegation) Fault(by Agent) string {
	switch {
	case !slices.Contains(by.Delegates, d.Agent):
		return fmt.Sprintf("agent %s may not give work to %q: use one of %s", by.Name, shorten(d.Agent),
			strings.Join(by.Delegates, ", "))
	case strings.TrimSpace(d.Task) == "" || len(d.Task) > MaxDelegated || strings.ContainsRune(d.Task, 0):
		return fmt.Sprintf("task is empty, has a NUL character or more than %d bytes", MaxDelegated)
	case d.Workspace != ChildOwn && d.Workspace != ChildShared:
		return fmt.Sprintf("workspace is %q: want %s or %s", shorten(d.Workspace), ChildOwn, ChildShared)
	}
	return ""
}

// CallDelegatedData says that a call waits for a child run: a planner spawns it. It is the monitoring event tool_start
// of such a call, and its sequence the fence of the result.
type CallDelegatedData struct {
	Event string `json:"event"`
	ToolRef
	Delegation Delegation `json:"delegation"`
	// Attempt of the call, which is always 1: it is the child that is tried again.
	Attempt int    `json:"attempt"`
	Effect  string `json:"effect"`
}

// Kind implements Payload.
func (*CallDelegatedData) Kind() Kind { return CallDelegated }

func (d *CallDelegatedData) line() string {
	what := "waits for a child run of agent " + d.Delegation.Agent
	if d.Delegation.Background {
		what = "begins a child run of agent " + d.Delegation.Agent + " in the background"
	}
	text := strings.Join(strings.Fields(d.Delegation.Task), " ")
	return fmt.Sprintf("call %s %s %s: %s", d.Tool, d.Call, what, strings.ToValidUTF8(shorten(text), ""))
}
