// Package budgets is the aggregate of the budgets of a station: what projects, users and the station may spend in a
// month and how many runs may work at a time, what is reserved of that for runs, and which runs wait for it.
//
// Promises: a station has one such log, so what a run needs of several budgets is reserved by one event. At every
// prefix of the log the reservations of a month are within the limits that were in force when each was made, whatever
// executors and planners do at the same time; what an answer used beyond its estimate is charged when its run ends. A
// run that is refused stays in the list of those that wait until it is given what it needs, or ends. A decision is a
// function of a state and a time; it returns the state with what it decided noted in Changes.
package budgets

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// State of the budgets of a station: the fold of their log, and what was decided on it and is not stored yet. It is a
// value: no function changes what can be reached from it.
type State struct {
	events.Budgets
	kernel.Folded
}

// Refused says why something may not be. Code is stable for programs.
type Refused struct{ Code, Reason, Hint string }

func (r *Refused) Error() string { return r.Reason + ": " + r.Hint }

// Codes of refusals.
const (
	// NotSet means that there is no such budget; TooMany that the station has as many as it can have.
	NotSet  = "no_budget"
	TooMany = "too_many_budgets"
)

// ErrFull means that as many runs with budgets live as the station can account for.
var ErrFull = fmt.Errorf("%d runs with budgets live, which is the most", events.MaxHolds)

// Wish is a control with where it came from: Input is its position in the input stream.
type Wish struct {
	events.BudgetControl
	Input uint64
}

// Steer carries out a control, or returns a *Refused.
func Steer(s State, w Wish, now time.Time) (State, error) {
	name, err := events.BudgetName(w.Scope, w.Of)
	if err != nil || s.Took(w.Input) {
		return s, err
	}
	by := events.WorkBy{Input: w.Input, By: w.By, Reason: w.Reason}
	_, there := s.Find(name)
	switch {
	case w.Action == events.RemoveAction && !there:
		return s, &Refused{NotSet, "there is no budget " + name, "inspan budget list shows those that are set"}
	case w.Action == events.RemoveAction:
		return s.then(&events.BudgetRemovedData{Event: "budget_removed", Month: s.month(now), Name: name, WorkBy: by},
			now), nil
	case !there && len(s.Budgets.Budgets) >= events.MaxBudgets:
		return s, &Refused{TooMany, fmt.Sprintf("the station has %d budgets, which is the most", events.MaxBudgets),
			"inspan budget remove removes one"}
	}
	return s.then(&events.BudgetSetData{Event: "budget_set", Month: s.month(now), Name: name, Limits: w.BudgetLimits,
		WorkBy: by}, now), nil
}

// Applying are those of the named budgets that are set.
func Applying(s State, names []string) []string {
	var some []string
	for _, b := range s.Budgets.Budgets {
		if slices.Contains(names, b.Name) {
			some = append(some, b.Name)
		}
	}
	return some
}

// Ask is what is asked for a run.
type Ask struct {
	Run string
	// Budgets that the run can have; those that were removed have no limits.
	Budgets []string
	// Child is true for a run that another one waits for: it needs no place of its own.
	Child bool
	// Base is what it had used before its first reservation, Used what it has by itself now, and Need the least that it
	// goes on with, beyond that.
	Base, Used, Need events.BudgetUse
	// Keep is all that the run may use while it waits, with what it has used; the rest is returned.
	Keep events.BudgetUse
}

// portions is how many parts a budget is given away in where there is room: each costs an event or two.
const portions = 50

// Reserve reserves for a run what it needs of all of its budgets, and where there is room so much more that it need not
// ask again soon; where one of them has no room the run waits. A second look answers nothing.
func Reserve(s State, q Ask, now time.Time) (State, error) {
	month := s.month(now)
	is := s.Budgets.In(month)
	h, there := is.Hold(q.Run)
	if !there {
		h = events.BudgetHold{Run: q.Run, Budgets: q.Budgets, Child: q.Child, Base: q.Base}
	}
	missing := limited(is, h, q.Used.Plus(q.Need).Over(h.Base.Plus(h.Earlier).Plus(h.Reserved)))
	if there && h.Waiting == nil && missing == (events.BudgetUse{}) {
		return s, nil
	}
	if !there && len(s.Holds) >= events.MaxHolds {
		return s, ErrFull
	}
	add := events.BudgetUse{}
	for _, b := range is.Budgets {
		if !slices.Contains(h.Budgets, b.Name) {
			continue
		}
		room, why := roomOf(is, b, h, missing)
		if why != "" {
			return s.refuse(q, h, b.Name, why, month, now), nil
		}
		add = widest(add, room)
	}
	for _, b := range is.Budgets { // no more than the one with the least room has
		if slices.Contains(h.Budgets, b.Name) {
			add = atMost(add, b, free(is, b))
		}
	}
	return s.then(&events.BudgetReservedData{Event: "budget_reserved", Month: month, Run: q.Run, Budgets: h.Budgets,
		Base: h.Base, Child: h.Child, Added: add}, now), nil
}

func (s State) refuse(q Ask, h events.BudgetHold, by, why, month string, now time.Time) State {
	kept := least(q.Keep.Over(h.Base.Plus(h.Earlier)), h.Reserved)
	need := limited(s.Budgets, h, q.Used.Plus(q.Need).Over(h.Base.Plus(h.Earlier).Plus(kept)))
	if w := h.Waiting; w != nil && w.By == by && w.Need == need && h.Reserved == kept {
		return s
	}
	return s.then(&events.BudgetRefusedData{Event: "budget_refused", Month: month, Run: q.Run, Budgets: h.Budgets,
		Base: h.Base, Child: h.Child, Kept: kept, Need: need, By: by, Reason: why}, now)
}

// Fits reports whether there is room now for what a run waits for.
func Fits(s State, h events.BudgetHold, now time.Time) bool {
	is := s.Budgets.In(s.month(now))
	for _, b := range is.Budgets {
		if !slices.Contains(h.Budgets, b.Name) {
			continue
		}
		if _, why := roomOf(is, b, h, h.Waiting.Need); why != "" {
			return false
		}
	}
	return true
}

// limited is what of an amount the budgets of a run limit.
func limited(s events.Budgets, h events.BudgetHold, u events.BudgetUse) (some events.BudgetUse) {
	for _, b := range s.Budgets {
		if !slices.Contains(h.Budgets, b.Name) {
			continue
		}
		if b.Tokens > 0 {
			some.Tokens = u.Tokens
		}
		if b.Cost > 0 {
			some.Cost = u.Cost
		}
	}
	return some
}

// free is what of a budget is neither used nor reserved.
func free(s events.Budgets, b events.Budget) events.BudgetUse {
	held, _, _ := s.Held(b.Name)
	return events.BudgetUse{Tokens: b.Tokens, Cost: b.Cost}.Over(b.Used.Plus(held))
}

// roomOf is what is reserved of a budget for a run that needs so much, or why there is no room. The last quarter of a
// budget is given away as it is needed.
func roomOf(s events.Budgets, b events.Budget, h events.BudgetHold, need events.BudgetUse) (add events.BudgetUse,
	why string) {
	left := free(s, b)
	_, working, _ := s.Held(b.Name)
	if _, there := s.Hold(h.Run); there && h.Waiting == nil {
		working = 0 // it has its place
	}
	switch {
	case b.Runs > 0 && !h.Child && working >= b.Runs:
		return add, fmt.Sprintf("%d runs of it work, and %d may at a time", working, b.Runs)
	case b.Cost > 0 && need.Cost > left.Cost: // in the text with what the run has itself
		return add, fmt.Sprintf("%s of its %s a month are left and the next turn may cost %s", left.Cost+h.Reserved.Cost,
			b.Cost, need.Cost+h.Reserved.Cost)
	case b.Tokens > 0 && need.Tokens > left.Tokens:
		return add, fmt.Sprintf("%d of its %d tokens a month are left and the next turn may take %d",
			left.Tokens+h.Reserved.Tokens, b.Tokens, need.Tokens+h.Reserved.Tokens)
	}
	if b.Tokens > 0 {
		add.Tokens = max(need.Tokens, min(b.Tokens/portions, left.Tokens-b.Tokens/4))
	}
	if b.Cost > 0 {
		add.Cost = max(need.Cost, min(b.Cost/portions, left.Cost-b.Cost/4))
	}
	return add, ""
}

func least(a, b events.BudgetUse) events.BudgetUse {
	return events.BudgetUse{Tokens: min(a.Tokens, b.Tokens), Cost: min(a.Cost, b.Cost)}
}

func widest(a, b events.BudgetUse) events.BudgetUse {
	return events.BudgetUse{Tokens: max(a.Tokens, b.Tokens), Cost: max(a.Cost, b.Cost)}
}

func atMost(a events.BudgetUse, b events.Budget, left events.BudgetUse) events.BudgetUse {
	if b.Tokens > 0 {
		a.Tokens = min(a.Tokens, left.Tokens)
	}
	if b.Cost > 0 {
		a.Cost = min(a.Cost, left.Cost)
	}
	return a
}

// Settle charges what a run that has ended used by itself in all, and frees the rest. A second look answers nothing.
func Settle(s State, run string, used events.BudgetUse, now time.Time) State {
	h, there := s.Hold(run)
	if !there {
		return s
	}
	return s.then(&events.BudgetSettledData{Event: "budget_settled", Month: s.month(now), Run: run,
		Used: used.Over(h.Base)}, now)
}

// Funds are what a run may spend; nil where it has no budget.
func Funds(s State, run string) *events.Funds {
	h, there := s.Hold(run)
	if !there {
		return nil
	}
	f := &events.Funds{Budgets: h.Budgets, Wait: h.Waiting != nil && h.Earlier.Plus(h.Reserved) == events.BudgetUse{}}
	total := h.Base.Plus(h.Earlier).Plus(h.Reserved)
	for _, b := range s.Budgets.Budgets {
		if !slices.Contains(h.Budgets, b.Name) {
			continue
		}
		if b.Tokens > 0 {
			f.Tokens = &total.Tokens
		}
		if b.Cost > 0 {
			f.Cost = &total.Cost
		}
	}
	return f
}

// Waiting are the runs that wait, in the order in which they began to.
func Waiting(s State) []events.BudgetHold {
	var all []events.BudgetHold
	for _, h := range s.Holds {
		if h.Waiting != nil {
			all = append(all, h)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Waiting.Since.Before(all[j].Waiting.Since) })
	return all
}

// month is that of a decision: time never goes back in the log.
func (s State) month(now time.Time) string { return max(s.Month, events.MonthOf(now)) }

// then returns the state after one more decision.
func (s State) then(p events.Payload, now time.Time) State { return definition.Then(s, p, now) }

var rules = kernel.Rules[State]{kernel.On(set), kernel.On(removed), kernel.On(reserved), kernel.On(refused),
	kernel.On(settled)}

// in returns the state in the month of an event.
func (s State) in(month string) (State, error) {
	if _, err := time.Parse("2006-01", month); err != nil || month < s.Month {
		return s, fmt.Errorf("the month is %.20q after %q", month, s.Month)
	}
	s.Budgets = s.Budgets.In(month)
	return s, nil
}

func set(s State, d *events.BudgetSetData, at time.Time) (State, error) {
	s, err := s.in(d.Month)
	if err != nil {
		return s, err
	}
	i, there := slices.BinarySearchFunc(s.Budgets.Budgets, d.Name, func(b events.Budget, name string) int {
		return strings.Compare(b.Name, name)
	})
	s.Budgets.Budgets = slices.Clone(s.Budgets.Budgets)
	if !there {
		s.Budgets.Budgets = slices.Insert(s.Budgets.Budgets, i, events.Budget{Name: d.Name})
	}
	b := &s.Budgets.Budgets[i]
	b.BudgetLimits, b.By, b.Reason, b.Since = d.Limits, d.By, d.Reason, at
	return s.took(d.WorkBy), nil
}

func removed(s State, d *events.BudgetRemovedData, _ time.Time) (State, error) {
	s, err := s.in(d.Month)
	if _, there := s.Find(d.Name); err == nil && !there {
		err = fmt.Errorf("budget %s is not set", d.Name)
	}
	if err != nil {
		return s, err
	}
	s.Budgets.Budgets = slices.DeleteFunc(slices.Clone(s.Budgets.Budgets), func(b events.Budget) bool {
		return b.Name == d.Name
	})
	return s.took(d.WorkBy), nil
}

func reserved(s State, d *events.BudgetReservedData, at time.Time) (State, error) {
	s, err := s.in(d.Month)
	if err == nil && (d.Added.Tokens < 0 || d.Added.Cost < 0) {
		err = fmt.Errorf("a reservation of %s is below nothing", d.Added)
	}
	if err != nil {
		return s, err
	}
	h, s := s.hold(events.BudgetHold{Run: d.Run, Budgets: d.Budgets, Base: d.Base, Child: d.Child, Since: at})
	h.Reserved, h.Waiting = h.Reserved.Plus(d.Added), nil
	return s, nil
}

func refused(s State, d *events.BudgetRefusedData, at time.Time) (State, error) {
	s, err := s.in(d.Month)
	if err != nil {
		return s, err
	}
	h, s := s.hold(events.BudgetHold{Run: d.Run, Budgets: d.Budgets, Base: d.Base, Child: d.Child, Since: at})
	since := at
	if h.Waiting != nil {
		since = h.Waiting.Since
	}
	h.Reserved = d.Kept
	h.Waiting = &events.BudgetWaiting{By: d.By, Need: d.Need, Reason: d.Reason, Since: since}
	return s, nil
}

func settled(s State, d *events.BudgetSettledData, _ time.Time) (State, error) {
	s, err := s.in(d.Month)
	if err != nil {
		return s, err
	}
	h, there := s.Hold(d.Run)
	if !there {
		return s, fmt.Errorf("run %s is settled and holds nothing", d.Run)
	}
	now := d.Used.Over(h.Earlier) // the rest was charged to the months that are over
	s.Budgets.Budgets = slices.Clone(s.Budgets.Budgets)
	for i := range s.Budgets.Budgets {
		if b := &s.Budgets.Budgets[i]; slices.Contains(h.Budgets, b.Name) {
			b.Used = b.Used.Plus(now)
		}
	}
	s.Holds = slices.DeleteFunc(slices.Clone(s.Holds), func(o events.BudgetHold) bool { return o.Run == d.Run })
	return s, nil
}

// hold returns what is held for a run, to be changed, in the state that has it.
func (s State) hold(first events.BudgetHold) (*events.BudgetHold, State) {
	s.Holds = slices.Clone(s.Holds)
	i := slices.IndexFunc(s.Holds, func(h events.BudgetHold) bool { return h.Run == first.Run })
	if i < 0 {
		i, s.Holds = len(s.Holds), append(s.Holds, first)
	}
	return &s.Holds[i], s
}

// took notes that a control was carried out.
func (s State) took(by events.WorkBy) State {
	if by.Input == 0 {
		return s
	}
	s.Inputs = append(slices.Clone(s.Inputs), by.Input)
	s.Inputs = s.Inputs[max(0, len(s.Inputs)-events.MaxWorkInputs):]
	return s
}

// definition is what the kernel needs to know of budgets.
var definition = kernel.Definition[State]{
	View: kernel.View[State]{Name: "budget", Prefix: events.BudgetAggregate + ".",
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.Budgets, &s.Log, &s.Folded
		}},
	Token:  events.BudgetAggregate,
	Lookup: events.LookupBudget,
	ID:     func(_ *State) string { return events.BudgetID },
	Next:   rules.Fold,
}

// Types of the kernel for budgets.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of budgets.
func Aggregate() *kernel.Aggregate[State] { return definition.Aggregate() }

// NewLedger checks the configuration, whose aggregate is that of budgets.
func NewLedger(cfg LedgerConfig) (*Ledger, error) { return definition.NewLedger(cfg) }

// View is how budgets are shown as rows in the bucket of sessions.
func View() kernel.View[State] { return definition.View }
