package topology

import (
	"slices"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// counters is an aggregate whose event types have the author of facts of runs, and one of them their name.
var counters = Aggregate{Name: "agent", Words: []events.Type{{Kind: "count.added", Author: events.Planner}, {Kind: events.RunCreated, Author: events.Planner},
	{Kind: "count.closed", Author: events.Gatekeeper}}}

func TestAggregates(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-5 the log has room for each, by a name that subjects can have, and for no other", func(t *testing.T) {
		t.Parallel()
		var subjects []string
		for _, a := range Aggregates() {
			if err := events.CheckAggregate(a.Name); err != nil {
				t.Errorf("%s: %v", a.Name, err)
			}
			subject := events.EventSubject("s1", a.Name, "x", "a.b")
			if !slices.ContainsFunc(logged("s1"), func(p string) bool { return within(subject, p) }) {
				t.Errorf("the log does not take %s", subject)
			}
			subjects = append(subjects, subject)
		}
		if len(subjects) != 12 || slices.ContainsFunc(logged("s1"), func(p string) bool { return within("station.s1.counter.x.evt.a.b", p) }) {
			t.Errorf("the log takes %q", logged("s1"))
		}
	})
	t.Run("SAFE-6 an author of one can not write to the log of another, whatever the event type is called", func(t *testing.T) {
		t.Parallel()
		run := Aggregates()[0]
		for _, role := range events.Services() {
			for _, a := range []struct{ own, other Aggregate }{{run, counters}, {counters, run}} {
				for _, pattern := range a.own.publishes("s1", role) {
					for _, w := range slices.Concat(run.Words, counters.Words) {
						if subject := events.EventSubject("s1", a.other.Name, "x", w.Kind); within(subject, pattern) {
							t.Errorf("the %s may publish %s because it is an author of %s", role, subject, a.own.Name)
						}
					}
				}
			}
		}
		if got := counters.publishes("s1", events.Gatekeeper); !slices.Equal(got, []string{"station.s1.agent.*.evt.count.closed"}) {
			t.Errorf("the gatekeeper may publish %q", got)
		}
		planned := 0
		for _, w := range events.SessionRegistry() {
			if w.Author == events.Planner {
				planned++
			}
			if !Publishes(w.Author, "session", w.Kind) || Publishes(events.Executor, "session", w.Kind) {
				t.Errorf("the wrong service may publish %s", w.Kind)
			}
		}
		if Publishes(events.Planner, "session", events.SessionGranted) || !Publishes(events.Gatekeeper, "session", events.SessionRevoked) {
			t.Error("grants have another author than the gatekeeper")
		}
		if len(publishesAll("s1", events.Planner)) != len(PublishesEvents(events.Planner))+planned+len(events.ScheduleRegistry())+len(events.HarnessRegistry())+len(events.WorkRegistry())+len(events.AgentRegistry())+len(events.QueueRegistry())+len(events.HaltRegistry())+len(events.BudgetRegistry()) || !Publishes(events.Planner, "session", events.SessionLocked) ||
			Publishes(events.Persister, "session", events.SessionLocked) || Publishes(events.Planner, "run", events.SessionLocked) || Publishes(events.Planner, "agent", events.RunCreated) || !Publishes(events.Planner, "run", events.RunCreated) {
			t.Error("an aggregate without event types has an author")
		}
	})
	t.Run("DEPL-2 a role receives the events of another aggregate that its row names, and those alone", func(t *testing.T) {
		t.Parallel()
		h := Subscriptions{Role: events.Persister, All: true, Others: []Interest{{"agent", "count.closed"}}, Workers: 1}
		got := h.consumers("s1")
		if len(got) != 1 || !slices.Equal(got[0].Filters, []string{"station.s1.run.*.evt.*.*", "station.s1.agent.*.evt.count.closed"}) {
			t.Errorf("got %+v", got)
		}
		for _, c := range []struct {
			aggregate string
			kind      events.Kind
			want      bool
		}{{"agent", "count.closed", true}, {"agent", "count.added", false}, {"session", "count.closed", false}, {"run", events.RunCreated, true}} {
			if h.Receives(c.aggregate, c.kind) != c.want {
				t.Errorf("it receives %s of %s: %v", c.kind, c.aggregate, !c.want)
			}
		}
	})
}
