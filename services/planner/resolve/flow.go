package resolve

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/starlark"
	"github.com/inspan/inspan/pkg/events"
)

// Evaluate answers a question.
func Evaluate(q plan.Question) plan.Answer {
	a := plan.Answer{Question: q}
	names := plan.Names(len(q.Values) > 2)
	if q.When != "" {
		holds, err := value(q.When, names, q.Values)
		truth, is := holds.(bool)
		switch {
		case err != nil:
			a.Err = fmt.Sprintf("condition %.200q: %v", q.When, err)
			return a
		case !is:
			a.Err = fmt.Sprintf("condition %.200q is neither true nor false", q.When)
			return a
		case !truth:
			a.Skip = true
			return a
		}
	}
	if q.Expr != "" {
		var err error
		if a.Value, err = value(q.Expr, names, q.Values); err != nil {
			a.Err = fmt.Sprintf("expression %.200q: %v", q.Expr, err)
		}
	}
	return a
}

func value(source string, names []string, values map[string]any) (any, error) {
	e, err := starlark.Parse(source, names...)
	if err != nil {
		return nil, err
	}
	return e.Eval(values, starlark.Bounded)
}

// checkFlow refuses expressions that cannot be evaluated: what cannot be read, or names a step that the step does not
// depend on or a value that the plan does not have.
func checkFlow(steps []events.PlanStep, vars map[string]json.RawMessage) error {
	size := 0
	for name, v := range vars {
		if size += len(name) + len(v); !json.Valid(v) {
			return kernel.Refuse("bad_plan", "give JSON", "the value %.40q of the plan is no JSON", name)
		}
	}
	if size > events.MaxPlanVars {
		return kernel.Refuse("bad_plan", "put long material in a file of the workspace",
			"the values of the plan have %d bytes, the limit is %d",
			size, events.MaxPlanVars)
	}
	for _, st := range steps {
		f := st.Flow
		if f == nil {
			continue
		}
		sources := map[string]bool{f.When: false, f.Set: false}
		if f.Each != nil {
			sources[f.Each.Over] = false
		}
		sources[f.Until()] = true
		for source, round := range sources {
			if err := checkExpression(st, source, round, vars); source != "" && err != nil {
				return kernel.Refuse("bad_plan", "docs/formulas.md says what an expression may have",
					"plan step %q: expression %.200q: %v",
					st.ID, source, err)
			}
		}
	}
	return nil
}

func checkExpression(st events.PlanStep, source string, round bool, vars map[string]json.RawMessage) error {
	e, err := starlark.Parse(source, plan.Names(round)...)
	if err != nil {
		return err
	}
	for _, p := range e.Paths() {
		switch {
		case p.Names[0] != "steps" && p.Names[0] != "vars":
		case len(p.Names) < 2:
			return fmt.Errorf("%d:%d: %s is used without a name, such as %s.NAME", p.Line, p.Column, p.Names[0], p.Names[0])
		case p.Names[0] == "steps" && !slices.Contains(st.Dependencies, p.Names[1]):
			return fmt.Errorf("%d:%d: the step does not depend on %q; it depends on %s", p.Line, p.Column, p.Names[1],
				strings.Join(st.Dependencies, ", "))
		case p.Names[0] == "vars" && vars[p.Names[1]] == nil:
			return fmt.Errorf("%d:%d: the plan has no value %q", p.Line, p.Column, p.Names[1])
		}
	}
	return nil
}

// errModelFlow is what a plan of a model cannot have.
var errModelFlow = errors.New("a model cannot set flow: conditions, lists, retries, timeouts and approvals are the author's of the task")
