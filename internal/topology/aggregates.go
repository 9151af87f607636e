package topology

import (
	"slices"

	"github.com/inspan/inspan/pkg/events"
)

// Aggregate is one kind of thing whose life is a log of events, on station.{s}.{name}.{id}.evt.{family}.{verb}.
type Aggregate struct {
	Name string
	// Words are its event types. Only the author of one may publish it, and on the subjects of this aggregate alone.
	Words []events.Type
}

// names are those that the log of a station has room for. Their order is that of the stream's subjects: a change of it
// is a change of the stream.
var names = [...]string{events.RunAggregate, events.SessionAggregate, events.AgentAggregate, "work",
	events.ScheduleAggregate,
	events.WorkspaceAggregate, events.HarnessAggregate, events.QueueAggregate, events.HaltAggregate,
	events.BudgetAggregate, events.KeysAggregate, events.DeputyAggregate}

// Aggregates returns all that the log of a station has room for, runs first. Those without event types are kept free:
// no service may publish on their subjects.
func Aggregates() []Aggregate {
	var all []Aggregate
	for _, name := range names {
		registered, _ := events.AggregateOf(name)
		all = append(all, Aggregate{Name: name, Words: registered.Types})
	}
	return all
}

// Publishes reports whether a role may publish events of a kind of the aggregates of a name.
func Publishes(role events.Service, aggregate string, k events.Kind) bool {
	for _, a := range Aggregates() {
		if a.Name == aggregate {
			return slices.ContainsFunc(a.Words, func(w events.Type) bool { return w.Kind == k && w.Author == role })
		}
	}
	return false
}

// publishes returns the subjects of the events that a role may publish.
func (a Aggregate) publishes(station string, role events.Service) []string {
	var subjects []string
	for _, w := range a.Words {
		if w.Author == role {
			subjects = append(subjects, events.KindEvents(station, a.Name, w.Kind))
		}
	}
	return subjects
}

// publishesAll returns the subjects of the events of all aggregates that a role may publish.
func publishesAll(station string, role events.Service) []string {
	var subjects []string
	for _, a := range Aggregates() {
		subjects = append(subjects, a.publishes(station, role)...)
	}
	return subjects
}

// Interest is one event type of an aggregate that is no run.
type Interest struct {
	Aggregate string
	Kind      events.Kind
}
