package runtest

import (
	"fmt"
	"slices"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Moves lists payloads that may be said next, each of them legal, in an order that depends on the state alone. It is
// empty after the end. Taking one again and again, in any way, is a legal history.
func Moves(s run.State) []events.Payload {
	if s.Sequence == 0 {
		return []events.Payload{Created(), ForkCreated(), DirectCreated(), CheckedCreated(), GivingCreated(),
			ReviewedCreated(), WokenCreated(), GitCreated()}
	}
	var m []events.Payload
	switch s.Status {
	case events.Created:
		if s.Created.ForkOf != nil && !s.Forked {
			m = append(m, ForkPart(len(s.ForkStart)))
			break
		}
		m = append(m, Started())
	case events.Running:
		m = append(m, runningMoves(s)...)
	case events.Paused:
		m = append(m, ends(s)...)
		if s.Stopping == nil {
			m = append(m, Resumed())
		}
		for _, c := range s.Living() {
			m = append(m, childEnds(s, c)...)
		}
		m = append(m, revisions(s)...)
	case events.Completed, events.Failed:
		return nil
	}
	m = append(m, Checkpoint(s), Taken(s), Fallback(s), Adjusted(s.Options.Autonomy, 1+(s.Options.Autonomy+1)%5), Moved(s))
	for _, g := range s.Waiting() {
		m = append(m, answers(s, g)...)
	}
	for _, g := range s.Gates {
		if g.Grant != nil && !g.Revoked {
			m = append(m, Revoked(g.ID))
		}
	}
	if s.Plan != nil {
		m = append(m, callMoves(s)...)
	}
	return append(m, drawn(s)...)
}

// answers are what may come of a gate that waits.
func answers(s run.State, g *run.Gate) []events.Payload {
	m := []events.Payload{No(g, "not like this")}
	yes := Yes(g)
	if g.Approvers > 1 {
		yes.By = fmt.Sprintf("voter-%d", len(g.Votes))
	}
	if len(g.Votes)+1 < g.Approvers {
		m = append(m, Vote(g, yes.By))
	} else {
		m = append(m, yes)
	}
	if g.Always != nil {
		m = append(m, Always(s, g, s.UpdatedAt))
	}
	if !g.ExpiresAt.IsZero() && !s.UpdatedAt.Before(g.ExpiresAt) {
		m = append(m, RanOut(g))
	}
	if after, to, ok := g.Reminder(g.Reminded + 1); ok && !s.UpdatedAt.Before(g.CreatedAt.Add(after)) {
		m = append(m, Reminded(g, to))
	}
	return m
}

// Answer returns the moves that one service may make.
func Answer(s run.State, by events.Service) []events.Payload {
	var mine []events.Payload
	for _, p := range Moves(s) {
		if w, _ := events.Lookup(p.Kind()); w.Author == by {
			mine = append(mine, p)
		}
	}
	return mine
}

// maxRevisions bounds the steps that a random history takes out.
const maxRevisions = 12

// revisions are two new plans for what has not begun, one after the last step that is complete.
func revisions(s run.State) []events.Payload {
	if s.Revisable() != "" || len(s.Plan.Removed) > maxRevisions || len(s.Plan.Steps) > maxRevisions {
		return nil
	}
	n := len(s.Plan.Removed) + len(s.Plan.Steps)
	one, two := fmt.Sprintf("r%d", n), fmt.Sprintf("r%d-next", n)
	var after []string
	for _, st := range s.Plan.Steps {
		if st.Status == events.StepIsCompleted {
			after = []string{st.ID}
		}
	}
	return []events.Payload{Revised(s, Step(one, after...)), Revised(s, Step(one), Step(two, one))}
}

func runningMoves(s run.State) []events.Payload {
	if s.Plan == nil && s.Created.Git != nil {
		return []events.Payload{Plan(TreeStep("tree"), Step("after", "tree")), Plan(Step("a"), TreeStep("tree", "a"), TreeStep("other"))}
	}
	if s.Plan == nil {
		return []events.Payload{
			Plan(Step("a"), Step("b", "a"), Step("c", "a"), Step("d", "b", "c")),
			Plan(Step("only")),
			Plan(Step("x"), Step("y"), Step("z", "x")),
			Plan(ChildStep("own"), Step("after", "own"), ChildStep("other")),
			FlowPlan(),
		}
	}
	m := []events.Payload{Paused("a person asked"), PausedClock("a person asked")}
	m = append(m, ends(s)...)
	done, total := s.StepsCompleted()
	switch {
	case len(s.Living()) > 0: // it does not end before its children
	case s.PlanDone, s.Direct() && done == total:
		m = append(m, Completed(s))
	case done == total:
		m = append(m, PlanDone(total))
	}
	for _, st := range s.Plan.Steps {
		m = append(m, stepMoves(s, st)...)
	}
	return append(m, besides(s)...)
}

func stepMoves(s run.State, st *run.Step) []events.Payload {
	if st.Flow.Controls() || st.Flow.Group() {
		return flowMoves(s, st)
	}
	switch st.Status {
	case events.StepIsPending:
		for _, dep := range st.Dependencies {
			if s.Step(dep).Status != events.StepIsCompleted {
				return nil
			}
		}
		return []events.Payload{Ready(st.ID)}
	case events.StepIsReady:
		switch g := s.GateFor(st.ID, ""); {
		case g == nil:
			return []events.Payload{Allowed(st.ID), GateAt("g-"+st.ID, st.ID, ""), Hard(GateAt("g-"+st.ID, st.ID, ""))}
		case g.Status == run.GatePending:
			return nil
		}
		return []events.Payload{Allowed(st.ID)}
	case events.StepIsRunning:
		if st.Child != "" {
			return childMoves(s, st)
		}
		bad, done := StepBad(st.ID, "it broke"), StepDone(st.ID, "output of "+st.ID)
		bad.Checkpoint, done.Checkpoint = s.NextCheckpoint(), s.NextCheckpoint()
		m := []events.Payload{bad}
		n := s.Turns().Len() + 1
		m = append(m, checkMoves(s, st)...)
		if c := st.Claimed(); st.Final && (s.AcceptOf(st) == nil || c != nil && !c.Open() && c.Failed == "") {
			m = append(m, done)
		}
		if st.Owed > 0 {
			m = append(m, Turn(n, st.ID, "done"), TurnDeferred(n, st.ID, st.Attempt+1, s.UpdatedAt),
				TurnWaits(n, st.ID, st.Attempt+1, s.UpdatedAt, st.Attempt > 2),
				TurnTooLong(n, st.ID, st.Attempt+1, 64_000>>min(st.TooLong, 8), s.UpdatedAt))
			m = append(m, asking(s, st, n)...)
			m = append(m, compactions(s, st)...)
			m = append(m, mailMoves(s, st)...)
		}
		return m
	case events.StepIsCompleted, events.StepIsFailed, events.StepIsBlocked, events.StepIsSkipped:
	}
	return nil
}

// asking are turns that ask for calls. An agent that can give work away does so, or it would be rare in random
// histories.
func asking(s run.State, st *run.Step, n int) []events.Payload {
	if len(s.Agents[st.AssignedAgent].Delegates) > 0 {
		give := Asked(n, 1, events.ToolDelegate, `{"agent":"helper","task":"help"}`)
		return []events.Payload{Turn(n, st.ID, "gives work away", give),
			Turn(n, st.ID, "gives work away and reads", give, Asked(n, 2, "read", `{"path":"a.txt"}`))}
	}
	if s.Created.Address != nil && st.AssignedAgent == s.AgentName {
		send := Turn(n, st.ID, "sends mail", Asked(n, 1, events.ToolMailSend, `{"to":"web/lead/ada","body":"done"}`))
		return slices.Repeat([]events.Payload{send}, 6) // often, as all about calls of mail tools comes after it
	}
	m := []events.Payload{
		Turn(n, st.ID, "one call", Asked(n, 1, "bash", fmt.Sprintf(`{"command":"echo %d > out && cat <out"}`, n))),
		Turn(n, st.ID, "two calls", Asked(n, 1, "read", `{"path":"a.txt"}`), Asked(n, 2, "bash", `{"command":"make"}`))}
	if s.Created.Accept == nil { // to come to a check is long enough
		m = append(m, Turn(n, st.ID, "a program works", Asked(n, 1, events.ToolRuntime, `{"prompt":"work"}`)))
	}
	return m
}

// compactions are those up to the oldest and up to the newest turn of a step that no summary stands for yet.
func compactions(s run.State, st *run.Step) []events.Payload {
	var turns []int
	replaced := 0
	for _, t := range run.All(s.Turns()) {
		switch {
		case t.Step != st.ID:
		case st.Compacted != nil && t.Number <= st.Compacted.Through:
			replaced++
		default:
			turns = append(turns, t.Number)
		}
	}
	if len(turns) == 0 {
		return nil
	}
	last := turns[len(turns)-1]
	return []events.Payload{Compacted(turns[0], replaced+1, st.ID, "the oldest turn in short"),
		Compacted(last, replaced+len(turns), st.ID, fmt.Sprintf("all up to turn %d in short", last))}[:min(2, len(turns))]
}

// callMoves goes by the order in which the calls were asked for, not by the map.
func callMoves(s run.State) []events.Payload {
	if len(s.Open) == 0 {
		return nil
	}
	var m []events.Payload
	for _, turn := range run.Backward(s.Turns()) {
		for _, asked := range turn.Calls {
			if c := s.Open[asked.ID]; c != nil {
				m = append(m, movesOfCall(s, c)...)
			}
		}
	}
	return m
}

func movesOfCall(s run.State, c *run.Call) []events.Payload {
	ref := Ref(c.Step, c.ID, c.Tool)
	switch c.Phase {
	case run.CallRequested:
		if events.IsMailTool(c.Tool) && s.BudgetLeft() > 0 && s.Status == events.Running {
			return append(slices.Repeat([]events.Payload{CallYes(ref, "idempotent")}, 6), CallNo(ref))
		}
		m := []events.Payload{CallNo(ref)}
		if s.GateFor(c.Step, c.ID) == nil {
			m = append(m, GateAt("g-"+c.ID, c.Step, c.ID), Hard(GateAt("g-"+c.ID, c.Step, c.ID)),
				Offered(GateAt("g-"+c.ID, c.Step, c.ID)))
		}
		if s.BudgetLeft() > 0 && s.Status == events.Running {
			m = append(m, CallYes(ref, "once"))
		}
		return m
	case run.CallDelegated:
		return delegatedMoves(s, c)
	case run.CallMailed:
		return mailedMoves(c)
	case run.CallAllowed, run.CallDeferred:
		if c.Tool == events.ToolDelegate {
			return []events.Payload{Given(ref, false), Given(ref, true), CallBad(ref, c.Fence, "invalid")}
		}
		if events.IsMailTool(c.Tool) && s.Created.Address != nil && c.Phase == run.CallAllowed {
			return append(slices.Repeat([]events.Payload{MailAsked(ref)}, 6), CallBad(ref, c.Fence, "invalid"))
		}
		if c.Tool == events.ToolRuntime { // often, as all that a program does comes after it
			return slices.Repeat([]events.Payload{CallBegun(ref, c.Attempt+1)}, 6)
		}
		return []events.Payload{CallBegun(ref, c.Attempt+1), CallBad(ref, c.Fence, "permanent"),
			CallDone(ref, c.Fence, "read")}
	case run.CallStarted:
		var m []events.Payload
		if c.Tool == events.ToolRuntime {
			if m = innerMoves(s, c); len(s.InnerOf(c.ID)) > 0 {
				return m
			}
		}
		return append(m, CallDone(ref, c.Fence, "ok"), CallBad(ref, c.Fence, "timeout"),
			CallDeferred(ref, c.Attempt, c.Fence, s.UpdatedAt), CallBegun(ref, c.Attempt+1), Saved(s, ref, c.Fence))
	}
	return nil
}
