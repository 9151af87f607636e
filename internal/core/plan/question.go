package plan

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// MaxRunSteps bounds the steps of a run with all parts that were made of them.
const MaxRunSteps = 2000

// Question is what has to be evaluated before a step goes on.
type Question struct {
	Step string
	// When is the condition, empty for none. Where it holds, or there is none, Expr is evaluated, unless it is empty.
	When, Expr string
	// Values by the names that the expressions know.
	Values map[string]any
	// parts that the step had.
	parts int
}

// Answer is what a question came to: whether the step is skipped, the value of the expression, or why there is none.
type Answer struct {
	Question
	Skip  bool
	Value any
	Err   string
}

// Names that expressions know: the steps that the step depends on, the values of the plan and, at the end of a round of
// a loop, its result and its number.
func Names(round bool) []string {
	if round {
		return []string{"steps", "vars", "last", "round"}
	}
	return []string{"steps", "vars"}
}

// asks reports whether something has to be evaluated before a step begins.
func asks(st *run.Step) bool {
	f := st.Flow
	return f != nil && (f.When != "" || f.Kind == events.ControlSet || f.Each != nil)
}

// Questions are what is to be evaluated now. Each is asked until an event answers it.
func Questions(s run.State) []Question {
	if s.Plan == nil || s.Status != events.Running && s.Status != events.Paused {
		return nil
	}
	var all []Question
	on := indexed(s.Plan)
	for _, st := range s.Plan.Steps {
		if q, ok := questionOf(s, on, st); ok {
			all = append(all, q)
		}
	}
	return all
}

func questionOf(s run.State, on index, st *run.Step) (Question, bool) {
	q := Question{Step: st.ID, parts: st.Parts}
	switch {
	case asks(st) && on.due(st):
		q.When, q.Expr = st.Flow.When, st.Flow.Set
		if st.Flow.Each != nil {
			q.Expr = st.Flow.Each.Over
		}
		q.Values = values(s.Plan, on, st)
		return q, true
	case st.Status == events.StepIsRunning && st.Flow.Until() != "":
		last := on[events.PartID(st.ID, st.Parts)]
		if last == nil || countParts([]*run.Step{last}).done == 0 {
			return q, false
		}
		q.Expr, q.Values = st.Flow.Until(), values(s.Plan, on, st)
		q.Values["last"], q.Values["round"] = output(last), st.Parts
		return q, true
	}
	return q, false
}

// values are what the expressions of a step know.
func values(p *run.Plan, on index, st *run.Step) map[string]any {
	steps := map[string]any{}
	for _, d := range st.Dependencies {
		if dep := on[d]; dep != nil && dep.Kind == "" {
			steps[d] = map[string]any{"status": string(dep.Status), "output": output(dep)}
		}
	}
	vars := make(map[string]any, len(p.Vars))
	for name, raw := range p.Vars {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			vars[name] = v
		}
	}
	return map[string]any{"steps": steps, "vars": vars}
}

// output of a step as a value: what its JSON says, or the text where it is none. A step that was not completed has
// none.
func output(st *run.Step) any {
	if st.Status != events.StepIsCompleted {
		return nil
	}
	var v any
	if json.Unmarshal([]byte(st.Output), &v) != nil {
		return st.Output
	}
	return v
}

// Answered says what follows from answers. Those to questions that are not asked any more say nothing.
func Answered(s run.State, answers []Answer, now time.Time) []events.Payload {
	if s.Plan == nil || s.Status != events.Running && s.Status != events.Paused {
		return nil
	}
	var say []events.Payload
	on := indexed(s.Plan)
	for _, a := range answers {
		st := on[a.Step]
		if st == nil {
			continue
		}
		if q, asked := questionOf(s, on, st); asked && q.parts == a.parts && q.When == a.When && q.Expr == a.Expr {
			say = append(say, answered(s, st, a, now))
		}
	}
	return say
}

func answered(s run.State, st *run.Step, a Answer, now time.Time) events.Payload {
	p := s.Plan
	switch {
	case a.Err != "":
		return failed(st, events.FinishCondition, a.Err)
	case a.Skip:
		return &events.StepSettledData{Event: "step_settled", Step: st.ID, Status: events.StepIsSkipped, When: a.When,
			Reason: "its condition is false: " + a.When}
	case st.Parts > 0 && st.Flow.Wake != nil:
		return looked(s, st, a, now)
	case st.Parts > 0:
		return nextRound(p, st, a)
	case st.Flow.Kind == events.ControlSet:
		text, err := recorded(a.Value)
		if err != nil {
			return failed(st, events.FinishCondition, err.Error())
		}
		d := completed(st, text)
		d.When = a.When
		return d
	case st.Flow.Each != nil && st.Flow.Each.Over != "":
		return each(p, st, a)
	case st.Flow.Group():
		return room(p, expanded(st, 1), st)
	}
	d := ready(st)
	d.When = a.When
	return d
}

// nextRound follows the condition that ends a loop.
func nextRound(p *run.Plan, st *run.Step, a Answer) events.Payload {
	most := st.Flow.Each.Most
	if most == 0 {
		most = events.MaxParts
	}
	switch ends, is := a.Value.(bool); {
	case !is:
		return failed(st, events.FinishCondition, "the condition that ends the loop is neither true nor false")
	case ends:
		d := completed(st, joined(p.PartsOf(st.ID)))
		d.Parts = st.Parts
		return d
	case st.Parts >= most:
		d := failed(st, events.FinishParts, fmt.Sprintf("the loop did not end within %d rounds", most))
		d.Parts = st.Parts
		return d
	}
	d := expanded(st, st.Parts+1)
	d.When = ""
	return room(p, d, st)
}

// each makes the parts of a list.
func each(p *run.Plan, st *run.Step, a Answer) events.Payload {
	list, ok := a.Value.([]any)
	most := st.Flow.Each.Most
	if most == 0 {
		most = events.MaxParts
	}
	switch {
	case !ok:
		return failed(st, events.FinishCondition, fmt.Sprintf("%s is no list", st.Flow.Each.Over))
	case len(list) > most:
		return failed(st, events.FinishCondition, fmt.Sprintf("the list has %d items, the limit is %d", len(list), most))
	case len(list) == 0:
		d := completed(st, "[]")
		d.When = a.When
		return d
	}
	d, size := expanded(st, 1), 0
	d.Count = len(list)
	for i, item := range list {
		b, err := json.Marshal(item)
		if size += len(b); err != nil || len(b) > events.MaxItem || size > events.MaxList {
			return failed(st, events.FinishCondition, fmt.Sprintf(
				"item %d of the list is too large: an item has at most %d bytes, all together %d", i+1, events.MaxItem,
				events.MaxList))
		}
		d.Items = append(d.Items, b)
	}
	return room(p, d, st)
}

// room says that parts are made, or that the run has too many steps for them.
func room(p *run.Plan, d *events.StepExpandedData, st *run.Step) events.Payload {
	if len(p.Steps)+d.Count > MaxRunSteps {
		return failed(st, events.FinishParts,
			fmt.Sprintf("the run would have %d steps, the limit is %d", len(p.Steps)+d.Count, MaxRunSteps))
	}
	return d
}

// recorded is a value as the output of a step: a text as it is, all else as JSON.
func recorded(v any) (string, error) {
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			return "", fmt.Errorf("the value cannot be recorded: %w", err)
		}
		text = string(b)
	}
	if len(text) > MaxOutput {
		return "", fmt.Errorf("the value has %d bytes, the limit is %d", len(text), MaxOutput)
	}
	return text, nil
}
