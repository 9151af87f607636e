package events

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// BudgetAggregate is the name of the aggregate of the budgets of a station, BudgetID the id of its one log, so that a
// run with several budgets reserves of all of them with one event.
const (
	BudgetAggregate = "budget"
	BudgetID        = "station"
)

// BudgetRow is the key of its row in the bucket of sessions.
const BudgetRow = BudgetAggregate + "." + BudgetID

// The kinds of the events of budgets.
const (
	BudgetSet      Kind = "budget.set"
	BudgetRemoved  Kind = "budget.removed"
	BudgetReserved Kind = "budget.reserved"
	BudgetRefused  Kind = "budget.refused"
	BudgetSettled  Kind = "budget.settled"
)

// Limits of budgets.
const (
	// MaxBudgets is how many budgets a station has at most.
	MaxBudgets = 256
	// MaxHolds is how many runs with budgets may live at once; further tasks wait until one has ended.
	MaxHolds = 2000
	// MaxBudgetMonths is how many months that are over are known of each budget.
	MaxBudgetMonths = 12
	// MaxBudgetRuns is the most runs at a time that a budget can be set to.
	MaxBudgetRuns = 100_000
	// maxBudgetOf bounds the name of a project or a person, in bytes.
	maxBudgetOf = 128
)

// Scopes of budgets.
const (
	ScopeProject = "project"
	ScopeUser    = "user"
	ScopeStation = "station"
)

// BudgetRegistry returns the event types of budgets.
func BudgetRegistry() []Type { return budgetTypes[:] }

var budgetTypes = [...]Type{
	{BudgetSet, Planner, "budget_set", Recorded, InLog, line((*BudgetSetData).line),
		"An operator set the monthly budget of a project, a user or the station.",
		func() Payload { return new(BudgetSetData) }},
	{BudgetRemoved, Planner, "budget_removed", Recorded, InLog, line((*BudgetRemovedData).line),
		"An operator removed a budget.",
		func() Payload { return new(BudgetRemovedData) }},
	{BudgetReserved, Planner, "budget_reserved", Recorded, InLog, line((*BudgetReservedData).line),
		"A part of its budgets is reserved for a run: it is spent by that run alone.",
		func() Payload { return new(BudgetReservedData) }},
	{BudgetRefused, Planner, "budget_refused", Recorded, InLog, line((*BudgetRefusedData).line),
		"A budget has no room for what a run needs next: the run waits for it.",
		func() Payload { return new(BudgetRefusedData) }},
	{BudgetSettled, Planner, "budget_settled", Recorded, InLog, line((*BudgetSettledData).line),
		"A run has ended: what it used is charged, and the rest of what was reserved is free again.",
		func() Payload { return new(BudgetSettledData) }},
}

// LookupBudget is Lookup for the event types of budgets.
func LookupBudget(k Kind) (Type, bool) { return lookup(budgetTypes[:], k) }

// BudgetLimits are what a budget allows in a month of UTC; 0 is no limit.
type BudgetLimits struct {
	Tokens int64    `json:"tokens,omitempty"`
	Cost   MicroUSD `json:"cost_micro_usd,omitempty"`
	// Runs is how many runs may work at a time; further ones wait.
	Runs int `json:"runs,omitempty"`
}

// BudgetUse is an amount of tokens and money.
type BudgetUse struct {
	Tokens int64    `json:"tokens,omitempty"`
	Cost   MicroUSD `json:"cost_micro_usd,omitempty"`
}

// Plus is the sum of two amounts.
func (u BudgetUse) Plus(o BudgetUse) BudgetUse {
	return BudgetUse{Tokens: u.Tokens + o.Tokens, Cost: u.Cost + o.Cost}
}

// Over is what of u is above o, at least nothing.
func (u BudgetUse) Over(o BudgetUse) BudgetUse {
	return BudgetUse{Tokens: max(0, u.Tokens-o.Tokens), Cost: max(0, u.Cost-o.Cost)}
}

// BudgetSetData is the payload of budget.set.
type BudgetSetData struct {
	Event string `json:"event"`
	// Month is that in which it is set, such as 2026-11.
	Month string `json:"month"`
	// Name is that of the budget: project.web, user.ada or station.
	Name   string       `json:"name"`
	Limits BudgetLimits `json:"limits"`
	WorkBy
}

// BudgetRemovedData is the payload of budget.removed.
type BudgetRemovedData struct {
	Event string `json:"event"`
	Month string `json:"month"`
	Name  string `json:"name"`
	WorkBy
}

// BudgetReservedData is the payload of budget.reserved.
type BudgetReservedData struct {
	Event string `json:"event"`
	// Month that it is charged to.
	Month string `json:"month"`
	Run   string `json:"run"`
	// Budgets are the names of those that the run has.
	Budgets []string `json:"budgets"`
	// Base is what the run had used before the first reservation, as a fork has; it is charged to no one.
	Base BudgetUse `json:"base,omitzero"`
	// Child is true for a run that another one waits for: it needs no place of its own among those that work.
	Child bool `json:"child,omitempty"`
	// Added is what is reserved beyond what was before.
	Added BudgetUse `json:"added,omitzero"`
}

// BudgetRefusedData is the payload of budget.refused.
type BudgetRefusedData struct {
	Event   string    `json:"event"`
	Month   string    `json:"month"`
	Run     string    `json:"run"`
	Budgets []string  `json:"budgets"`
	Base    BudgetUse `json:"base,omitzero"`
	Child   bool      `json:"child,omitempty"`
	// Kept is what stays reserved for the run in this month; the rest is free again. Need is the least that it can go on
	// with, beyond that.
	Kept BudgetUse `json:"kept,omitzero"`
	Need BudgetUse `json:"need,omitzero"`
	// By is the budget without room, Reason what is missing.
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// BudgetSettledData is the payload of budget.settled.
type BudgetSettledData struct {
	Event string `json:"event"`
	Month string `json:"month"`
	Run   string `json:"run"`
	// Used is what the run has used since its Base.
	Used BudgetUse `json:"used,omitzero"`
}

// Kind implements Payload.
func (*BudgetSetData) Kind() Kind { return BudgetSet }

// Kind implements Payload.
func (*BudgetRemovedData) Kind() Kind { return BudgetRemoved }

// Kind implements Payload.
func (*BudgetReservedData) Kind() Kind { return BudgetReserved }

// Kind implements Payload.
func (*BudgetRefusedData) Kind() Kind { return BudgetRefused }

// Kind implements Payload.
func (*BudgetSettledData) Kind() Kind { return BudgetSettled }

func (d *BudgetSetData) line() string {
	return strings.TrimSpace(fmt.Sprintf("budget %s set to %s by %s %s", d.Name, d.Limits, d.By, d.Reason))
}

func (d *BudgetRemovedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("budget %s removed by %s %s", d.Name, d.By, d.Reason))
}

func (d *BudgetReservedData) line() string {
	return fmt.Sprintf("run %s reserves %s of %s", d.Run, d.Added, strings.Join(d.Budgets, ", "))
}

func (d *BudgetRefusedData) line() string {
	return fmt.Sprintf("run %s waits for budget %s: %s", d.Run, d.By, d.Reason)
}

func (d *BudgetSettledData) line() string {
	return fmt.Sprintf("run %s has used %s", d.Run, d.Used)
}

// String writes an amount for people.
func (u BudgetUse) String() string { return fmt.Sprintf("%d tokens and %s", u.Tokens, u.Cost) }

// String writes limits for people.
func (l BudgetLimits) String() string {
	var parts []string
	if l.Cost > 0 {
		parts = append(parts, l.Cost.String()+" a month")
	}
	if l.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens a month", l.Tokens))
	}
	if l.Runs > 0 {
		parts = append(parts, fmt.Sprintf("%d runs at a time", l.Runs))
	}
	return strings.Join(parts, ", ")
}

// Budget is how one budget stands.
type Budget struct {
	// Name is project.web, user.ada or station.
	Name string `json:"name"`
	BudgetLimits
	// By set it as it is, Since when, for which Reason.
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Used is what runs that have ended used of this month.
	Used BudgetUse `json:"used,omitzero"`
	// Past are the months that are over, in order.
	Past []BudgetMonth `json:"past,omitempty"`
}

// BudgetMonth is what was charged to a month that is over.
type BudgetMonth struct {
	Month string `json:"month"`
	BudgetUse
}

// BudgetHold is what is reserved for a run that lives.
type BudgetHold struct {
	Run     string   `json:"run"`
	Budgets []string `json:"budgets"`
	// Child is true for a run that another one waits for: it needs no place.
	Child bool `json:"child,omitempty"`
	// Base is what the run had used before; Earlier is what was reserved for it in months that are over, Reserved what is
	// in this month.
	Base     BudgetUse `json:"base,omitzero"`
	Earlier  BudgetUse `json:"earlier,omitzero"`
	Reserved BudgetUse `json:"reserved,omitzero"`
	// Since is when the run was first seen.
	Since time.Time `json:"since,omitzero"`
	// Waiting says what a run waits for that a budget has no room for; nil for one that may go on.
	Waiting *BudgetWaiting `json:"waiting,omitempty"`
}

// BudgetWaiting is what a run waits for.
type BudgetWaiting struct {
	// By is the budget without room, Need the least that the run can go on with, Reason what is missing.
	By     string    `json:"by"`
	Need   BudgetUse `json:"need,omitzero"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since,omitzero"`
}

// Budgets are all that a station knows of its budgets. They are the fold of their log; the row in the bucket of
// sessions is a view of it.
type Budgets struct {
	// Month is that of the last event, such as 2026-11.
	Month string `json:"month,omitempty"`
	// Budgets in the order of their names, Holds of runs that live in the order in which they came.
	Budgets []Budget     `json:"budgets,omitempty"`
	Holds   []BudgetHold `json:"holds,omitempty"`
	// Inputs are the positions of the last controls that were carried out.
	Inputs []uint64 `json:"inputs,omitempty"`
	// Log is the last event that a row includes.
	Log *LogHead `json:"log,omitempty"`
}

// Took reports whether the control at that position was carried out.
func (b Budgets) Took(input uint64) bool { return slices.Contains(b.Inputs, input) }

// Find returns the budget of a name.
func (b Budgets) Find(name string) (Budget, bool) {
	i := slices.IndexFunc(b.Budgets, func(o Budget) bool { return o.Name == name })
	if i < 0 {
		return Budget{}, false
	}
	return b.Budgets[i], true
}

// Hold returns what is reserved for a run.
func (b Budgets) Hold(run string) (BudgetHold, bool) {
	i := slices.IndexFunc(b.Holds, func(h BudgetHold) bool { return h.Run == run })
	if i < 0 {
		return BudgetHold{}, false
	}
	return b.Holds[i], true
}

// Held is what runs that live have reserved of a budget this month; working is how many of them may go on.
func (b Budgets) Held(name string) (held BudgetUse, working, waiting int) {
	for _, h := range b.Holds {
		if !slices.Contains(h.Budgets, name) {
			continue
		}
		held = held.Plus(h.Reserved)
		switch {
		case h.Waiting != nil:
			waiting++
		case !h.Child:
			working++
		}
	}
	return held, working, waiting
}

// In returns the budgets as they are in a month: with the first moment of a month, nothing of it is used.
func (b Budgets) In(month string) Budgets {
	if month <= b.Month {
		return b
	}
	next := b
	next.Month, next.Budgets, next.Holds = month, slices.Clone(b.Budgets), slices.Clone(b.Holds)
	for i, o := range next.Budgets {
		held, _, _ := b.Held(o.Name)
		if b.Month != "" {
			past := append(slices.Clone(o.Past), BudgetMonth{Month: b.Month, BudgetUse: o.Used.Plus(held)})
			o.Past = past[max(0, len(past)-MaxBudgetMonths):]
		}
		o.Used = BudgetUse{}
		next.Budgets[i] = o
	}
	for i, h := range next.Holds {
		h.Earlier, h.Reserved = h.Earlier.Plus(h.Reserved), BudgetUse{}
		next.Holds[i] = h
	}
	return next
}

// MonthOf is the month of a time, in UTC.
func MonthOf(at time.Time) string { return at.UTC().Format("2006-01") }

// NextMonth is the first moment of the month after a time, in UTC.
func NextMonth(at time.Time) time.Time {
	at = at.UTC()
	return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}

// BudgetName is the name of the budget of a project, a user or the station.
func BudgetName(scope, of string) (string, error) {
	switch {
	case scope == ScopeStation && of == "":
		return ScopeStation, nil
	case scope != ScopeProject && scope != ScopeUser:
		return "", fmt.Errorf("unknown scope %.40q: a budget is of a %s, a %s or the %s", scope, ScopeProject, ScopeUser,
			ScopeStation)
	case of == "" || len(of) > maxBudgetOf || strings.ContainsFunc(of, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("the name of a %s is one line of 1 to %d bytes", scope, maxBudgetOf)
	case scope == ScopeProject:
		if err := CheckID("project", of); err != nil {
			return "", err
		}
	}
	return scope + "." + of, nil
}

// BudgetsOf are the names of the budgets that a run of a project and a user can have, also where none is set.
func BudgetsOf(project, user string) []string {
	names := []string{ScopeStation}
	if project != "" {
		names = append(names, ScopeProject+"."+project)
	}
	if user != "" {
		names = append(names, ScopeUser+"."+user)
	}
	return names
}

// Actions of a BudgetControl.
const (
	SetAction    = "set"
	RemoveAction = "remove"
)

// BudgetControl is what a user publishes to set a budget or to remove it.
type BudgetControl struct {
	Action string `json:"action"`
	// Scope is project, user or station; Of is the name of the project or the user.
	Scope string `json:"scope"`
	Of    string `json:"of,omitempty"`
	// Limits go with set: at least one. What is left out has no limit.
	BudgetLimits
	// By is one line of at most MaxBy bytes, Reason a text of at most MaxReason.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Check returns what is wrong with a control, in words for its author.
func (c *BudgetControl) Check() error {
	_, err := BudgetName(c.Scope, c.Of)
	l := c.BudgetLimits
	switch {
	case err != nil:
	case c.Action != SetAction && c.Action != RemoveAction:
		err = fmt.Errorf("unknown action %.80q: the actions are %s and %s", c.Action, SetAction, RemoveAction)
	case c.Action == RemoveAction && l != BudgetLimits{}:
		err = errors.New("a budget that is removed has no limits: leave them out")
	case c.Action == SetAction && l == BudgetLimits{}:
		err = errors.New("a budget needs a limit of money, tokens or runs")
	case l.Tokens < 0 || l.Tokens > maxTokens:
		err = fmt.Errorf("tokens is %d, want 1 to %d, or leave it out", l.Tokens, int64(maxTokens))
	case l.Cost < 0 || l.Cost > MaxUSD*1e6:
		err = fmt.Errorf("cost_micro_usd is %d, want 1 to %d, or leave it out", l.Cost, int64(MaxUSD*1e6))
	case l.Runs < 0 || l.Runs > MaxBudgetRuns:
		err = fmt.Errorf("runs is %d, want 1 to %d, or leave it out", l.Runs, MaxBudgetRuns)
	}
	return firstOf(err, CheckBy(c.By), CheckReason(c.Reason))
}

// BudgetSubject is where users set and remove budgets.
func BudgetSubject(station string) string {
	return strings.Join([]string{"station", station, BudgetAggregate, BudgetID, "control"}, ".")
}
