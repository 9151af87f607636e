package events

import "slices"

// Aggregate is one kind of thing whose life is a log of events, on station.{s}.{name}.{id}.evt.{family}.{verb}. One row
// here and its event types are all that subjects, permissions, schemas, samples and pages of it are made from.
type Aggregate struct {
	// Name is its token in subjects.
	Name string
	// Doc is one sentence for the generated reference.
	Doc string
	// Types are its event types, in the order of its life.
	Types []Type
}

// Aggregates returns all whose events are registered, runs first.
func Aggregates() []Aggregate {
	return []Aggregate{
		{RunAggregate, "A run: one task, from its acceptance to its result.", Registry()},
		{SessionAggregate, "A session: who may work in it, its settings and the history of its conversation.",
			SessionRegistry()},
		{WorkspaceAggregate, "A workspace: which toolrunner owns the working tree, and which snapshot it has. The id in " +
			"subjects is the beginning of the path and a digest of it. A workspace that stays on one machine has no log.",
			WorkspaceRegistry()},
		{ScheduleAggregate, "A schedule: at which times it begins a run, and what became of its firings. The id in subjects is " +
			"its name.", ScheduleRegistry()},
		{WorkAggregate, "A work item: what there is to do, and which agent holds it. The binding is one event, so an item never has " +
			"two holders.", WorkRegistry()},
		{AgentAggregate, "An address and its mailbox: an agent, a queue, a list or a channel. The id in subjects is the address with _ for /.",
			AgentRegistry()},
		{QueueAggregate, "A merge queue: which delivered branches wait to be landed on one branch of a repository, and which is tested now.",
			QueueRegistry()},
		{HarnessAggregate, "A harness: the steps of a program that was written with pkg/harness, and which instance of it may record.",
			HarnessRegistry()},
		{HaltAggregate, "The emergency stop: whether the station is halted, since when, by whom and why. Its one log has the id station.",
			HaltRegistry()},
		{BudgetAggregate, "The monthly budgets of projects, users and the station, and what is reserved of them for runs. Their one log has the id station.",
			BudgetRegistry()},
		{KeysAggregate, "The keys that sign the anchors of runs: which replaced which, when and why. Their one log has the id station.",
			KeysRegistry()},
		{DeputyAggregate, "Who answers gates in the place of somebody who is away, and until when. Its one log has the id station.",
			DeputyRegistry()},
	}
}

// Lookup returns the event type of a kind; ok is false where the aggregate has none.
func (a Aggregate) Lookup(k Kind) (t Type, ok bool) { return lookup(a.Types, k) }

// AggregateOf returns the aggregate of a name.
func AggregateOf(name string) (a Aggregate, ok bool) {
	all := Aggregates()
	i := slices.IndexFunc(all, func(a Aggregate) bool { return a.Name == name })
	if i < 0 {
		return Aggregate{}, false
	}
	return all[i], true
}

// lookup finds the event type of a kind among those of an aggregate.
func lookup(types []Type, k Kind) (Type, bool) {
	for _, t := range types {
		if t.Kind == k {
			return t, true
		}
	}
	return Type{}, false
}
