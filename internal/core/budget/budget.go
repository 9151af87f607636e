// Package budget decides whether the next model request of a run may be made, and what an answer cost.
//
// Promises: what a request may use is set aside before it is made, and an answer takes the place of what was set aside
// for it. A turn that is owed has its part set aside by being owed: nothing is written for it, and whoever folds the
// log sees the same. Turns of several steps are served in the order in which they became owed, so that two that are
// asked for at the same time do not go over the budget together. No price, no request: a budget of money and a model
// without a price close each other out. Money is whole millionths of a dollar; a cost is rounded up.
package budget

import (
	"fmt"
	"math"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// DefaultMaxOutput is the output limit of a request, in tokens, where an agent does not say.
const DefaultMaxOutput = 8192

// What a first request holds besides the texts that are known here.
const (
	perTool     = 200
	perRequest  = 200
	bytesPerTok = 3
)

// Amount is what is used or set aside.
type Amount struct {
	Tokens int64
	Cost   events.MicroUSD
}

func (a Amount) plus(b Amount) Amount {
	return Amount{Tokens: saturated(a.Tokens, b.Tokens), Cost: events.MicroUSD(saturated(int64(a.Cost), int64(b.Cost)))}
}

func saturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Times is n amounts together.
func (a Amount) Times(n int) Amount {
	var sum Amount
	for range n {
		sum = sum.plus(a)
	}
	return sum
}

// Used is what the run and the children that it had have used, with what was lost and what is held for the children
// that it has and for the requests of its programs.
func Used(s run.State) Amount {
	used, held, asked := s.Used(), s.HeldForChildren(), s.HeldForPrograms()
	return Amount{Tokens: used.Tokens(), Cost: used.Paid()}.plus(Amount{Tokens: held.Tokens, Cost: held.Cost}).
		plus(Amount{Tokens: asked.Tokens, Cost: asked.Cost})
}

// Left is what the run may still give away: without what is used, held for children, or set aside for turns that are
// owed. Without a budget it is 0, as it is where a turn cannot be weighed.
func Left(s run.State) Amount {
	used := Used(s)
	for _, st := range s.Plan.Steps {
		if st.Kind != "" || st.Child != "" || st.Status != events.StepIsRunning || st.Owed == 0 {
			continue
		}
		aside, err := Reserve(s, st)
		if err != nil {
			return Amount{}
		}
		used = used.plus(aside)
	}
	return Amount{Tokens: max(0, s.Options.MaxTokens-used.Tokens), Cost: max(0, s.Options.MaxCost-used.Cost)}
}

// Limited reports whether the run has a budget of tokens or money, of its own or of its project, its user or the
// station.
func Limited(s run.State) bool {
	f := s.Options.Funds
	return s.Options.MaxTokens > 0 || Priced(s.Options) || f != nil && (f.Wait || f.Tokens != nil)
}

// Priced reports whether a run has a budget of money, so that its models need prices.
func Priced(o events.Options) bool { return o.MaxCost > 0 || o.Funds != nil && o.Funds.Cost != nil }

// Verdict on the next request of a step.
type Verdict struct {
	// Wait is true where it may fit once turns of other steps have ended.
	Wait bool
	// Short is true where it may be taken once the planner has reserved more of the budgets of the project, the user and
	// the station for the run.
	Short bool
	// Reason is the finish reason of the step where it does not fit, "" where it does or may; Text says it in words, also
	// where more is to be reserved.
	Reason, Text string
}

// Ask says whether the turn that a step is owed may be taken. lost counts the requests for this very turn of which no
// one knows whether they were made.
func Ask(s run.State, st *run.Step, lost int) Verdict {
	if !Limited(s) {
		return Verdict{}
	}
	need, err := Reserve(s, st)
	if err != nil {
		return Verdict{Reason: events.FinishCost, Text: err.Error()}
	}
	used := Used(s).plus(need.Times(lost))
	if v := over(s, used, need); v.Reason != "" {
		return v
	}
	ahead := aheadOf(s, st)
	if over(s, used.plus(ahead), need).Reason != "" {
		return Verdict{Wait: true}
	}
	return short(s, need.Times(lost).plus(ahead), need)
}

// aheadOf is what is set aside for turns of other steps that are served before that of a step: in the order in which
// they became owed, and for those that one event made owed in the order of the plan.
func aheadOf(s run.State, st *run.Step) (sum Amount) {
	behind := false
	for _, o := range s.Plan.Steps {
		if o.ID == st.ID {
			behind = true
			continue
		}
		if o.Kind != "" || o.Child != "" || o.Status != events.StepIsRunning || o.Owed == 0 || o.Owed > st.Owed ||
			o.Owed == st.Owed && behind {
			continue
		}
		if held, err := Reserve(s, o); err == nil { // else it is not going to ask
			sum = sum.plus(held)
		}
	}
	return sum
}

// AskPlan says whether the model may be asked for a plan; lost counts the times that it may have been asked before.
func AskPlan(s run.State, lost int) Verdict {
	if !Limited(s) {
		return Verdict{}
	}
	need, err := planReserve(s)
	if err != nil {
		return Verdict{Reason: events.FinishCost, Text: err.Error()}
	}
	if v := over(s, Used(s).plus(need.Times(lost)), need); v.Reason != "" {
		return v
	}
	return short(s, need.Times(lost), need)
}

// LostPlans is what is counted for requests for a plan whose answers were not taken, nil for none.
func LostPlans(s run.State, n int) *events.Lost {
	each, err := planReserve(s)
	if n <= 0 || err != nil || !Limited(s) {
		return nil
	}
	all := each.Times(n)
	return &events.Lost{Requests: n, Tokens: all.Tokens, Cost: all.Cost}
}

// planReserve is what is set aside for the next request for a plan: one that follows an answer shows that answer too.
func planReserve(s run.State) (Amount, error) {
	st := run.Step{AssignedAgent: s.AgentName}
	if p := s.Planning; p != nil {
		st.Description = p.Text + p.Fault + p.Hint
	}
	return Reserve(s, &st)
}

func over(s run.State, used, need Amount) Verdict {
	const hint = "raise the budget of the run, or lower config.maxOutputTokens of the agent"
	o := s.Options
	if o.MaxTokens > 0 && saturated(used.Tokens, need.Tokens) > o.MaxTokens {
		return Verdict{Reason: events.FinishTokens,
			Text: fmt.Sprintf("the run has %d of its %d tokens left and the next turn may take %d; %s",
				max(0, o.MaxTokens-used.Tokens), o.MaxTokens, need.Tokens, hint)}
	}
	if o.MaxCost > 0 && saturated(int64(used.Cost), int64(need.Cost)) > int64(o.MaxCost) {
		return Verdict{Reason: events.FinishCost,
			Text: fmt.Sprintf("the run has %s of its %s left and the next turn may cost %s; %s",
				max(0, o.MaxCost-used.Cost), o.MaxCost, need.Cost, hint)}
	}
	return Verdict{}
}

// Reserve is what is set aside for the turn that a step is owed: the input as it is estimated and all of the output
// that it may have. It fails where the run has a budget of money and the model no price.
func Reserve(s run.State, st *run.Step) (Amount, error) {
	a := s.Agents[st.AssignedAgent]
	if a.Runtime != nil { // its turn asks no model: what its program asks is set aside for each request
		return Amount{}, nil
	}
	in, out := int64(estimate(s, st, a)), int64(a.MaxOutputTokens)
	if out <= 0 {
		out = DefaultMaxOutput
	}
	need := Amount{Tokens: in + out}
	for ref := range strings.SplitSeq(a.Model, ",") {
		p, ok := s.Prices[ref]
		if !ok && Priced(s.Options) {
			return Amount{}, NoPrice(ref)
		}
		need.Cost = max(need.Cost, mostCost(p, in, out))
	}
	return need, nil
}

// NoPrice says that a model has no price although there is a budget of money.
func NoPrice(ref string) error {
	return fmt.Errorf("the run has a budget in dollars and model %s has no price: add it to the file named by INSPAN_PRICES, or set max_tokens instead", ref)
}

// estimate is the input of the next request in tokens: that of the turn before with what came since, or the texts that
// the first one is made of.
func estimate(s run.State, st *run.Step, a events.Agent) int {
	results := 0
	for _, t := range run.Backward(s.Turns()) {
		if t.Step != st.ID {
			continue
		}
		for i := s.ToolCallHistory.Len() - 1; i >= 0; i-- {
			r := s.ToolCallHistory.At(i)
			if r.Step == st.ID && r.Turn < t.Number {
				break
			}
			if r.Step == st.ID && r.Parent == "" {
				results += len(r.Result) + len(r.Hint)
			}
		}
		return t.InputTokens + t.OutputTokens + (results+mail(s, st, t.Number))/bytesPerTok + perRequest
	}
	n, earlier := len(a.Prompt)+len(st.Description)+len(a.OutputSchema), 0
	for _, skill := range a.Skills {
		n += len(skill.Name) + len(skill.Description)
	}
	for _, d := range a.Memory {
		n += len(d.Text)
	}
	if c := s.Created; c != nil {
		earlier = c.HistoryTokens
		n += len(c.Task) + len(c.Handoff) + len(c.Context) + len(c.SessionPrompt)
		for _, m := range c.Mail {
			n += len(m.Subject) + len(m.Body)
		}
		for _, v := range s.Created.Variables {
			n += len(v)
		}
	}
	for _, d := range st.Dependencies {
		if dep := s.Step(d); dep != nil {
			n += len(dep.Output)
		}
	}
	return earlier + (n+mail(s, st, 0))/bytesPerTok + perTool*len(a.Tools) + perRequest
}

// mail is how many bytes of mail were added to a step after a turn.
func mail(s run.State, st *run.Step, after int) (n int) {
	for _, m := range s.Messages {
		if m.Step == st.ID && m.After == after && len(m.Mail) > 0 {
			n += len(m.Text)
		}
	}
	return n
}
