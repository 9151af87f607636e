package events

import "fmt"

// Funds are what a run may spend by itself of the budgets of its project, its user and its station. What its children
// spend counts for them: each has funds of its own.
type Funds struct {
	// Budgets are the names of those that the run has, such as project.web.
	Budgets []string `json:"budgets"`
	// Tokens and Cost are all that the run may use, with what it has used already; nil is no limit.
	Tokens *int64    `json:"tokens,omitempty"`
	Cost   *MicroUSD `json:"cost_micro_usd,omitempty"`
	// Wait is true where a budget has no room for the run yet: it may ask no model.
	Wait bool `json:"wait,omitempty"`
}

// ClassBudget is the class of a turn or a plan that waits for a budget of the project, the user or the station.
// Attempt is then that of the last request, 0 where there was none.
const ClassBudget = "budget"

// OutageOfBudget is what a turn waits for whose run needs more of its budgets: the planner reserves it, or pauses the
// run.
func OutageOfBudget() Outage { return Outage{Provider: ClassBudget, Pause: true} }

// RunFundedData says what the run may spend from now on.
type RunFundedData struct {
	Event string `json:"event"`
	Funds Funds  `json:"funds"`
}

// Kind implements Payload.
func (*RunFundedData) Kind() Kind { return RunFunded }

func (d *RunFundedData) line() string { return "may spend: " + d.Funds.String() }

// String writes funds for people.
func (a Funds) String() string {
	switch {
	case a.Wait:
		return "nothing yet"
	case a.Cost != nil && a.Tokens != nil:
		return fmt.Sprintf("%d tokens and %s in all", *a.Tokens, *a.Cost)
	case a.Cost != nil:
		return a.Cost.String() + " in all"
	case a.Tokens != nil:
		return fmt.Sprintf("%d tokens in all", *a.Tokens)
	}
	return "no limit"
}
