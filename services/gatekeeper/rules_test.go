package gatekeeper

import (
	"testing"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/pkg/events"
)

func TestRules(t *testing.T) {
	t.Parallel()
	t.Run("GUARD-6 GUARD-9 the rules of an agent are its own, whatever digest its definition claims", func(t *testing.T) {
		t.Parallel()
		r := &Role{}
		free, strict := events.Agent{Name: "free", Digest: "d"}, events.Agent{Name: "strict", Digest: "d", Guards: []events.Rule{{ID: "none", Action: guard.Deny}}}
		for _, c := range []struct {
			agent events.Agent
			want  string
		}{{free, guard.Allow}, {strict, guard.Deny}, {free, guard.Allow}} {
			set, err := r.rules(c.agent)
			if err != nil {
				t.Fatal(err)
			}
			if got := set.Judge(guard.Action{Tool: "read"}); got.Action != c.want {
				t.Errorf("%s: %+v", c.agent.Name, got)
			}
		}
	})
	t.Run("GUARD-6 GUARD-13 the station's rules stand between the built-in ones and the agent's", func(t *testing.T) {
		t.Parallel()
		locked := events.Rule{ID: "house", Tool: "write", Action: guard.Deny, Locked: true}
		r := &Role{cfg: Config{Rules: []events.Rule{locked, {ID: "soft", Tool: "read", Action: guard.Ask}}}}
		set, err := r.rules(events.Agent{Guards: []events.Rule{{ID: "soft", Tool: "read", Action: guard.Allow}}})
		if err != nil {
			t.Fatal(err)
		}
		if set.Judge(guard.Action{Tool: "write"}).Rule != "house" || set.Judge(guard.Action{Tool: "read"}).Action != guard.Allow {
			t.Error("the layers are not merged in their order")
		}
		if _, err := r.rules(events.Agent{Guards: []events.Rule{{ID: "house", Remove: true}}}); err == nil {
			t.Error("an agent took a locked rule of the station back")
		}
	})
}
