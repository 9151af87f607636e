// Package delivery decides what the harness does with git for a run: which branches it works on, the calls of its own
// steps before and after those of the agents, and what became of the work.
//
// Promises: a run that does not work in git has no step of the harness. The steps of the harness ask for a fixed set of
// tools and nothing else; each of their turns is one call, which follows from the results before it. What is said of a
// delivery stood in a result: nothing is taken for done because it was asked for. Nothing is pushed or merged for a run
// whose steps are not complete, and nothing is pushed while a conflict is open; the work is kept before it is sent
// anywhere.
package delivery

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Wrap puts the steps of the harness around a plan, where the run works in git. A plan that has them stays as it is.
func Wrap(work *events.GitWork, made *events.PlanMadeData) *events.PlanMadeData {
	if work == nil || made == nil || len(made.Steps) == 0 || made.Steps[0].Kind != "" {
		return made
	}
	agent := made.Steps[0].Agent
	checkout := events.PlanStep{ID: events.CheckoutStep, Description: "Make the working tree ready.", Agent: agent,
		Dependencies: []string{}, Kind: events.StepCheckout}
	deliver := events.PlanStep{ID: events.DeliverStep, Description: described(work), Agent: agent,
		Dependencies: []string{events.CheckoutStep}, Kind: events.StepDeliver}
	needed, committed := map[string]bool{}, commits(made.Steps)
	for _, st := range made.Steps {
		for _, d := range st.Dependencies {
			needed[d] = true
		}
	}
	steps := []events.PlanStep{checkout}
	for _, st := range made.Steps {
		st.Dependencies = after(st.Dependencies, committed)
		steps = append(steps, st)
		if !needed[st.ID] {
			deliver.Dependencies = append(deliver.Dependencies, st.ID)
		}
		if id := committed[st.ID]; id != "" {
			steps = append(steps, commitOf(st, id))
			deliver.Dependencies = append(deliver.Dependencies, id)
		}
	}
	whole := *made
	whole.Steps = append(steps, deliver)
	return &whole
}

// described says what is done at the end of a run.
func described(w *events.GitWork) string {
	what := []string{"Keep"}
	if w.AutoCommit {
		what = []string{"Commit", "keep"}
	}
	if len(w.Merge) > 0 {
		what = append(what, "merge "+strings.Join(w.Merge, ", "))
	}
	if w.Push {
		what = append(what, "push")
	}
	text := strings.Join(what, ", ")
	if len(text) > events.MaxDescription/2 {
		text = strings.ToValidUTF8(text[:events.MaxDescription/2], "") + "..."
	}
	return text + "."
}

// Tools are those that the harness may call in a step, whatever its agent may.
func Tools(st *run.Step) []string {
	if st.Child == events.ChildWorktree {
		return []string{events.GitCommit, events.GitPublish, events.GitMerge}
	}
	switch st.Kind {
	case events.StepCheckout:
		return []string{events.GitPrepare, events.GitMerge}
	case events.StepCommit:
		return []string{events.GitPrepare, events.GitCommit}
	case events.StepDeliver:
		return []string{events.GitPrepare, events.GitCommit, events.GitMerge, events.GitPublish, events.GitPush,
			events.GitReview, events.GitRemove}
	}
	return nil
}

// RuleApproval stands where the name of a guard rule does when a person is asked before work leaves its working tree.
const RuleApproval = "git-approval"

// Gated reports whether a call needs a person's yes because by it work leaves its working tree, and why (GATE-13, C18).
// It is so at every autonomy level, for agents as for the harness, unless the settings of the step, and else those of
// the run, say otherwise.
func Gated(s run.State, step, tool string) (why string, gated bool) {
	if tool != events.GitPush && tool != events.GitMerge && tool != events.GitRemove {
		return "", false
	}
	if tool == events.GitRemove && step == events.DeliverStep && s.Created != nil && s.Created.Landing != nil {
		return "", false // what the branch has is landed: whoever approved that was asked
	}
	if tool == events.GitMerge && step == events.CheckoutStep && s.Created != nil && s.Created.Landing != nil {
		return "", false // it is tried on a branch that only the run has; what leaves the tree is the push
	}
	if st := s.Step(step); tool == events.GitMerge && st != nil && st.Child == events.ChildWorktree {
		return "", false // it stays in the tree of the run: whoever permitted the step permitted that
	}
	if s.Created != nil && s.Created.Git != nil && !approval(s, step) {
		return "", false
	}
	return "git output through " + tool + " needs the approval of a person (git.require_approval)", true
}

// RuleChecks stands where the name of a guard rule does when work would leave its working tree before it was checked.
const RuleChecks = "acceptance-checks"

// Early says why a call of an agent may not send work away: acceptance checks decide about it, and they come after it.
func Early(s run.State, st *run.Step, tool string) string {
	if tool != events.GitPush || st.Kind != "" || s.AcceptOf(st) == nil && (s.Created == nil || s.Created.Accept == nil) {
		return ""
	}
	return "acceptance checks decide about this work, and nothing is pushed before they have passed"
}

// Unbound says why a person cannot be asked about a call as it is, "" where it can: a yes to a merge is for the commits
// of both sides.
func Unbound(s run.State, step, tool string, input json.RawMessage) string {
	if _, gated := Gated(s, step, tool); !gated || tool != events.GitMerge {
		return ""
	}
	var a mergeArgs
	if err := json.Unmarshal(input, &a); err != nil || a.Onto == "" || len(a.Commits) == 0 ||
		len(a.Commits) != len(a.From) {
		return "a merge needs the approval of a person, who must see its commits: onto and commits are missing"
	}
	return ""
}

// Next says what a step of the harness comes to: its next call, or its end. It is to be asked only where a turn of the
// step is owed.
func Next(s run.State, st *run.Step) []events.Payload {
	if s.Created == nil || s.Created.Git == nil {
		return failed(s, st, "the run does not work in git")
	}
	done := results(s, st)
	switch st.Kind {
	case events.StepCheckout:
		return checkout(s, st, done)
	case events.StepCommit:
		return commit(s, st, done)
	default:
		return deliver(s, st, done)
	}
}

// results are the ended calls of a step, in their order: each turn of it made one. Those of before a fork are left out.
func results(s run.State, st *run.Step) []run.CallRecord {
	first, turns := 0, st.Turns
	for _, t := range run.Backward(s.Turns()) {
		if turns == 0 {
			break
		}
		if t.Step == st.ID {
			first, turns = t.Number, turns-1
		}
	}
	var found []run.CallRecord
	for _, r := range run.Backward(s.ToolCallHistory) {
		if st.Turns == 0 || r.Step == st.ID && r.Turn < first {
			break
		}
		if r.Step == st.ID {
			found = append(found, r)
		}
	}
	slices.Reverse(found)
	return found
}

// call asks for one call. Its numbers follow from the state, so that every look at it asks for the same.
func call(s run.State, st *run.Step, tool string, args any) []events.Payload {
	input, err := json.Marshal(args)
	if err != nil {
		return failed(s, st, "the arguments of "+tool+" are not JSON: "+err.Error())
	}
	turn := s.Turns().Len() + 1
	id := fmt.Sprintf("c%d-1", turn)
	calls := []events.RequestedCall{{ID: id, ProviderID: id, Tool: tool, Input: input}}
	return []events.Payload{&events.TurnFinishedData{Event: "step_complete", Step: st.ID, Turn: turn, Calls: calls,
		CallsKey:    run.KeyOf(calls),
		TotalTokens: s.Tokens.Total(), FinishReason: events.FinishToolUse, Attempt: 1, Model: string(st.Kind),
		Provider: events.HarnessProvider}}
}

func finished(s run.State, st *run.Step, output string) []events.Payload {
	return []events.Payload{&events.StepFinishedData{Event: "step_finished", Step: st.ID, Output: output,
		FinishReason: events.FinishDone, Turns: st.Turns, Checkpoint: s.NextCheckpoint()}}
}

// maxError bounds why a step failed, in bytes.
const maxError = 2 << 10

func failed(s run.State, st *run.Step, why string) []events.Payload {
	reason := events.FinishDelivery
	if st.Kind == events.StepCheckout {
		reason = events.FinishCheckout
	}
	return []events.Payload{&events.StepFailedData{Event: "step_failed", Step: st.ID, Error: clip(why, maxError),
		FinishReason: events.FinishError, Turns: st.Turns, RunReason: reason, Checkpoint: s.NextCheckpoint()}}
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-3], "") + "..."
}

// wrong says in words why a call did not do what it was asked for, "" where it did.
func wrong(r run.CallRecord) string {
	why := ""
	switch {
	case r.Outcome == run.OutcomeRefused:
		why = fmt.Sprintf("%s was refused (%s): %s", r.CallName, r.Code, r.Result)
	case r.Outcome == run.OutcomeFailed:
		why = fmt.Sprintf("%s failed (%s): %s", r.CallName, r.Code, r.Result)
	case !r.Success:
		return r.CallName + " did not succeed: " + r.Result
	default:
		return ""
	}
	if r.Hint != "" {
		why += " (" + r.Hint + ")"
	}
	return why
}

// read decodes a result; what cannot be read is said in words.
func read(r run.CallRecord, into any) string {
	if why := wrong(r); why != "" {
		return why
	}
	if err := json.Unmarshal([]byte(r.Result), into); err != nil {
		return "the result of " + r.CallName + " cannot be read: " + err.Error()
	}
	return ""
}

// short is a commit id as people write it.
func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}
