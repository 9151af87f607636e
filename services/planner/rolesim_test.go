package planner

import (
	"context"
	"fmt"
	"testing"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

// manned are definitions that agents of roles run.
type manned struct {
	anybody
	roles []events.AgentRole
}

func (m manned) Agent(ctx context.Context, name string) (events.Agent, error) {
	a, err := m.anybody.Agent(ctx, name)
	a.Roles = m.roles
	return a, err
}

func TestDispatchCut(t *testing.T) {
	t.Parallel()
	t.Run("WORK-10 ID-1 SAFE-3 a planner that dies at any one operation loses no work for a role, gives none to two agents, and lets no two be at work where one may be", func(t *testing.T) {
		t.Parallel()
		const role = "role/b/of/a"
		plays := 0
		for _, late := range []bool{false, true} {
			for op := 0; ; op++ {
				x := newExchange(t, uint64(op))
				x.roles = []events.AgentRole{{Name: "a/b", Agent: "worker", Pattern: "{project}_{role}_{name}", Max: 1, Names: []string{"c0", "c1"}}}
				for i := range x.planners {
					x.planners[i] = x.planner()
				}
				x.addresses = []string{"a/b/c0", "a/b/c1"}
				x.cut, x.late = op, late
				for i := range x.addresses {
					id := fmt.Sprintf("m%d", i)
					x.sent[id] = true
					x.control(role, events.MailControl{Action: mailbox.Send, Mail: &events.MailDraft{ID: id, Body: "x"}})
				}
				x.rest()
				if x.judge(); t.Failed() {
					t.Fatalf("the planner died at operation %d, after it: %v", op, late)
				}
				n, s := x.kinds(role), x.box(role)
				if n[events.MailSent] != 2 || n[events.MailAcked] != 2 || len(s.Pending) != 0 {
					t.Fatalf("operation %d, %v: %v, %+v", op, late, n, s.Mailbox)
				}
				for _, a := range x.addresses {
					if n := x.kinds(a); n[events.AgentRegistered] != 1 || n[events.MailSent] != 1 {
						t.Fatalf("operation %d, %v: %s has %v", op, late, a, n)
					}
				}
				if plays++; x.deaths == 0 {
					break
				}
			}
		}
		if plays < 30 {
			t.Errorf("only %d plays", plays)
		}
		t.Logf("%d plays", plays)
	})
}
