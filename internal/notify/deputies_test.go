package notify

import (
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestWithDeputies(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)
	of := func(all ...events.Deputy) events.Deputies { return events.Deputies{Number: len(all), Deputies: all} }
	away := func(name, to string, from, until time.Duration) events.Deputy {
		return events.Deputy{Number: 1, For: name, To: to, Since: now.Add(from), Until: now.Add(until)}
	}
	asked := Notice{Kind: Gate, By: "ann"}
	for name, c := range map[string]struct {
		n    Notice
		all  events.Deputies
		want string
	}{
		"PLUS-23b who asked for the run is away":                      {asked, of(away("ann", "bob", -time.Hour, time.Hour)), "bob for ann"},
		"PLUS-23b a reminder is for somebody who is away":             {Notice{Kind: Reminder, To: "ann"}, of(away("ann", "bob", -time.Hour, time.Hour)), "bob for ann"},
		"PLUS-23b two named approvers have one deputy":                {Notice{Kind: Gate, Approvers: []string{"ann", "dan"}, By: "ann"}, of(away("ann", "bob", -time.Hour, time.Hour), away("dan", "bob", -time.Hour, time.Hour)), "bob for ann, bob for dan"},
		"PLUS-23b no one is away":                                     {asked, of(away("dan", "bob", -time.Hour, time.Hour)), ""},
		"PLUS-23b the time is over at its end":                        {asked, of(away("ann", "bob", -time.Hour, 0)), ""},
		"PLUS-23b it has not begun":                                   {asked, of(away("ann", "bob", time.Second, time.Hour)), ""},
		"PLUS-23b in a circle each answers for the other and no more": {asked, of(away("ann", "bob", -time.Hour, time.Hour), away("bob", "ann", -time.Hour, time.Hour)), "bob for ann"},
		"PLUS-23b a deputy of a deputy is none":                       {asked, of(away("ann", "bob", -time.Hour, time.Hour), away("bob", "carol", -time.Hour, time.Hour)), "bob for ann"},
		"PLUS-23b the end of a run calls no deputy":                   {Notice{Kind: Failed, By: "ann"}, of(away("ann", "bob", -time.Hour, time.Hour)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, n := "", c.n.WithDeputies(c.all, now)
			for i, d := range n.Deputies {
				got += []string{"", ", "}[min(i, 1)] + d.By + " for " + d.For
			}
			if got != c.want || n.Reaches("bob") != (c.want != "") || n.Reaches("carol") || (n.Away() == "") != (c.want == "") {
				t.Errorf("%q, want %q: %+v", got, c.want, n)
			}
			if again := n.WithDeputies(c.all, now); fmt.Sprint(again) != fmt.Sprint(n) {
				t.Errorf("made again: %+v", again)
			}
			if back := n.WithDeputies(of(), now); len(back.Deputies) != 0 {
				t.Errorf("those of before are left: %+v", back)
			}
		})
	}
	t.Run("PLUS-23b a gate of a check names who may answer it", func(t *testing.T) {
		t.Parallel()
		s := stateOf(run.GatePending)
		s.Gates[0].StepID = "s"
		s.Plan = &run.Plan{Steps: []*run.Step{{ID: "s", StepCourse: run.StepCourse{Flow: &events.StepFlow{Approval: &events.StepApproval{Approvers: []string{"ann"}}}}}}}
		n, ok := Of(s, events.Event{}, &events.GateOpenedData{Gate: "g-1", Step: "s"})
		if n = n.WithDeputies(of(away("ann", "bob", -time.Hour, time.Hour)), now); !ok || !n.Names("ann") || !n.Reaches("bob") {
			t.Errorf("%+v", n)
		}
		if want := "bob answers for ann (--deputy-for ann)"; n.Away() != want {
			t.Errorf("%q, want %q", n.Away(), want)
		}
	})
}
