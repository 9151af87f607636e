package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
)

const raceRole = `
agent = "coder"
max_instances = 4
names = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"]
`

// cutOne is the log of one of several processes, of which the one dies that makes the last of so many appends: it is
// stored, and the process does not learn it and appends no more.
type cutOne struct {
	kernel.Journal
	left *atomic.Int64
	dead atomic.Bool
	died func()
}

// Append implements kernel.Journal.
func (c *cutOne) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	switch {
	case c.dead.Load():
	case c.left.Add(-1) != 0:
		return c.Journal.Append(ctx, e)
	default:
		c.dead.Store(true)
		c.Journal.Append(ctx, e)
		c.died()
	}
	return kernel.Ack{Outcome: kernel.Transient, Err: errors.New("the process dies here")}
}

func TestRoleItemsRace(t *testing.T) {
	t.Parallel()
	t.Run("WORK-2 WORK-3 WORK-4 WORK-7 WORK-10 PROP-21 of 40 items that are given at once to a role with eight names each has an agent of its own, and none is refused, while one of three planners dies", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.crew(raceRole)
		const items, begun = 40, 8
		var ids []string
		for i := range items {
			ids = append(ids, fmt.Sprintf("item-%d", i))
		}
		first := w.start(events.Planner)
		for _, id := range ids {
			w.work(id, events.WorkControl{Action: work.Add, Spec: &events.WorkSpec{Title: "Look around"}})
		}
		w.until("all items are made", func() bool {
			keys, err := w.ports.Sessions.Keys(w.ctx(), work.View().Prefix)
			return err == nil && len(keys) == items
		})
		first.stop()
		var all sync.WaitGroup
		for _, id := range ids {
			all.Go(func() {
				c := slingTo("role/worker/of/web")
				c.Start = false
				w.work(id, c)
			})
		}
		all.Wait()
		// All 40 wait. The planner that makes the ninth append to the logs of agents dies there; the append is stored.
		whole, died := w.ports.AgentLog, make(chan int, 1)
		var planners []*hosted
		var left atomic.Int64
		left.Store(9)
		for n := range 3 {
			w.ports.AgentLog = &cutOne{Journal: whole, left: &left, died: func() { died <- n }}
			planners = append(planners, w.start(events.Planner))
		}
		w.ports.AgentLog = whole
		select {
		case n := <-died:
			planners[n].stop()
		case <-w.ctx().Done():
			t.Fatal("no planner died")
		}
		held := map[string]string{}
		for _, id := range ids {
			s := w.itemIs(id, "held", func(s work.State) bool { return s.Binding != nil })
			if other := held[s.Binding.Address]; other != "" || w.went(id) != "created bound" {
				t.Errorf("%s is held by %s, which has %s: %s", id, s.Binding.Address, other, w.went(id))
			}
			held[s.Binding.Address] = id
		}
		for i := range 8 {
			if name := fmt.Sprintf("web/worker/n%d", i+1); held[name] == "" {
				t.Errorf("%s, a name of the pool, has no item", name)
			}
		}
		for address, id := range held {
			w.boxIs(address, "given "+id, func(s mailbox.State) bool { return s.Life.Work != nil && s.Life.Work.Work == id })
		}
		if dead, _, err := w.st.Dead(w.ctx(), 0); err != nil || len(dead) > 0 {
			t.Errorf("%+v, %v", dead, err)
		}
		w.start(slices.DeleteFunc(events.Services(), func(s events.Service) bool { return s == events.Planner })...)
		for _, id := range ids[:begun] {
			w.work(id, events.WorkControl{Action: work.Start})
		}
		for _, id := range ids[:begun] {
			if w.itemIs(id, "closed", isClosed); !strings.HasPrefix(w.went(id), "created bound dispatched started") ||
				strings.Contains(w.went(id), "unbound") {
				t.Errorf("%s: %s", id, w.went(id))
			}
		}
		for _, p := range w.agentEvents(events.RoleAddressOf("web/worker")) {
			if d, ok := p.(*events.AgentAdmittedData); ok && len(d.Working) > 4 {
				t.Errorf("%+v", d)
			}
		}
	})
}
