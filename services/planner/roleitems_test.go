package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
)

// overtakes has the other planner assign an item to a role in the middle of the next delivery, before the operation
// that so many come before.
func (x *exchange) overtakes(item, role string, ahead int) {
	x.t.Helper()
	b, err := json.Marshal(assigns(role))
	if err != nil {
		x.t.Fatal(err)
	}
	x.inputs++
	d := delivered{what: "item", run: item, message: letter{events.WorkSubject("s1", item), string(b), x.inputs}}
	x.ahead = ahead
	x.between = func() {
		kill, left := x.kill, x.left
		ctx, cancel := context.WithCancel(x.t.Context())
		defer cancel()
		x.kill, x.left = cancel, -1
		err := x.handle(ctx, x.planner(), d)
		x.kill, x.left = kill, left
		if _, again := errors.AsType[*kernel.RetryAfter](err); again {
			x.waiting = append(x.waiting, d)
		} else if err != nil {
			x.t.Fatalf("seed %d: %v", x.seed, err)
		}
	}
}

// holders are the agents that an item was bound to, and the codes of the ends of its bindings.
func (x *exchange) holders(item string) (agents, codes []string) {
	x.t.Helper()
	_, all := (&office{theater: x.theater}).item(item)
	for _, p := range all {
		switch d := p.(type) {
		case *events.WorkBoundData:
			agents = append(agents, d.Dispatch.Address)
		case *events.WorkUnboundData:
			codes = append(codes, d.Code)
		}
	}
	return agents, codes
}

// crewOf is an exchange whose role a/b has some names, one agent of which may be at work, with items to do.
func crewOf(t *testing.T, seed uint64, items int) *exchange {
	x := newExchange(t, seed)
	x.roles = []events.AgentRole{{Name: "a/b", Agent: "worker", Pattern: "{project}_{role}_{name}", Max: 1,
		Names: []string{"c0", "c1", "c2"}[:items]}}
	for i := range x.planners {
		x.planners[i] = x.planner()
	}
	for i := range items {
		x.addresses = append(x.addresses, fmt.Sprintf("a/b/c%d", i))
		x.adds(fmt.Sprintf("w%d", i))
	}
	return x
}

// apart holds that each item was given to one agent, and to another one than all others.
func (x *exchange) apart(when string) {
	x.t.Helper()
	var all []string
	for _, id := range x.items {
		agents, codes := x.holders(id)
		if len(agents) != 1 || len(codes) > 0 && codes[0] != events.WorkFailed {
			x.t.Fatalf("%s: item %s was held by %v, which ended with %v", when, id, agents, codes)
		}
		all = append(all, agents...)
	}
	slices.Sort(all)
	if !slices.Equal(all, x.addresses) {
		x.t.Fatalf("%s: the items were given to %v", when, all)
	}
}

const roleOfItems = "role/b/of/a"

func TestRoleItemsOvertaken(t *testing.T) {
	t.Parallel()
	t.Run("WORK-3 WORK-7 WORK-10 PROP-21 items that two planners give to a role at once go to two agents, whichever is faster where", func(t *testing.T) {
		t.Parallel()
		plays := 0
		for ahead := 0; ; ahead++ {
			x := crewOf(t, uint64(ahead), 2)
			x.overtakes("w1", roleOfItems, ahead)
			x.wants("w0", assigns(roleOfItems))
			x.deliver(0, false)
			over := x.between != nil
			if x.between = nil; over {
				break
			}
			x.settle()
			x.consistent()
			x.apart(fmt.Sprintf("overtaken before operation %d", ahead))
			x.rest()
			if x.judge(); t.Failed() {
				t.FailNow()
			}
			plays++
		}
		if plays < 8 {
			t.Errorf("only %d plays", plays)
		}
		t.Logf("%d plays", plays)
	})
}

func TestRoleItemsCut(t *testing.T) {
	t.Parallel()
	t.Run("WORK-2 WORK-3 WORK-10 PROP-21 PROP-23 SAFE-3 a planner that dies at any one operation, while another one overtakes it, leaves each item of a role with an agent of its own, and no agent reserved", func(t *testing.T) {
		t.Parallel()
		plays := 0
		for _, late := range []bool{false, true} {
			for op := 0; ; op++ {
				x := crewOf(t, uint64(op), 3)
				x.cut, x.late = op, late
				ahead := op * 5 % 13
				x.overtakes("w2", roleOfItems, ahead)
				x.wants("w0", assigns(roleOfItems))
				x.wants("w1", assigns(roleOfItems))
				x.settle()
				x.consistent()
				when := fmt.Sprintf("operation %d, after it: %v, overtaken at %d", op, late, ahead)
				x.apart(when)
				x.rest()
				if x.judge(); t.Failed() {
					t.Fatal(when)
				}
				for _, a := range x.addresses {
					if s := x.box(a); s.Life.Work != nil {
						t.Fatalf("%s: %s is left with %+v", when, a, s.Life.Work)
					}
				}
				if plays++; x.deaths == 0 {
					break
				}
			}
		}
		if plays < 60 {
			t.Errorf("only %d plays", plays)
		}
		t.Logf("%d plays", plays)
	})
}

// reserved is an exchange whose planner died once it had reserved an agent for w0, and before it bound the item. The
// control of the item is held back.
func reserved(t *testing.T) (*exchange, delivered) {
	t.Helper()
	for op := 0; ; op++ {
		x, held := wanted(t, op, true)
		if of := x.box("a/b/c0").Life.Work; of != nil {
			if s, _ := x.item("w0"); of.Work != "w0" || s.Epoch != 0 {
				t.Fatalf("%+v, %+v", of, s.WorkItem)
			}
			return x, held
		}
	}
}

// wanted is an exchange whose planner died at an operation of the first delivery that gives w0 to a role. The control
// is held back; its message is empty where no planner died.
func wanted(t *testing.T, op int, late bool) (x *exchange, held delivered) {
	t.Helper()
	x = crewOf(t, uint64(op), 2)
	x.cut, x.late = op, late
	x.wants("w0", assigns(roleOfItems))
	if x.deliver(0, false); x.deaths > 0 {
		held = x.waiting[0]
	}
	x.cut, x.waiting = -1, nil
	return x, held
}

// elsewhere has another planner close w0, or bind it to another agent.
var elsewhere = map[string]func(x *exchange){
	"closed": func(x *exchange) { x.wants("w0", events.WorkControl{Action: work.Close}) },
	"bound to another agent": func(x *exchange) {
		x.control("a/b/c9", events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker"}})
		x.drain()
		x.wants("w0", assigns("a/b/c9"))
	},
}

func TestRoleItemRefused(t *testing.T) {
	t.Parallel()
	t.Run("WORK-3 WORK-4 an agent that is reserved for an item is given no other one, and has that once the planner is back", func(t *testing.T) {
		t.Parallel()
		x, held := reserved(t)
		x.wants("w1", assigns("a/b/c0"))
		x.drain()
		if agents, codes := x.holders("w1"); len(agents) != 1 || len(codes) != 1 || codes[0] != mailbox.Busy {
			t.Errorf("%v, %v", agents, codes)
		}
		x.waiting = append(x.waiting, held)
		x.settle()
		if agents, codes := x.holders("w0"); len(agents) != 1 || agents[0] != "a/b/c0" || len(codes) > 0 {
			t.Errorf("%v, %v", agents, codes)
		}
	})
	for name, meanwhile := range elsewhere {
		t.Run("WORK-8 an item that is "+name+" meanwhile leaves its agent free", func(t *testing.T) {
			t.Parallel()
			x, held := reserved(t)
			meanwhile(x)
			x.drain()
			x.waiting = append(x.waiting, held) // the control is delivered again, and refused
			x.settle()
			if of := x.box("a/b/c0").Life.Work; of != nil {
				t.Errorf("%+v", of)
			}
			x.wants("w1", assigns(roleOfItems))
			x.settle()
			if agents, codes := x.holders("w1"); len(agents) != 1 || agents[0] != "a/b/c0" || len(codes) > 0 {
				t.Errorf("the other item is held by %v, %v", agents, codes)
			}
			x.rest()
		})
	}
	t.Run("WORK-8 PERS-21 an item whose role is no longer there leaves its agent free, and no row behind its log", func(t *testing.T) {
		t.Parallel()
		x, held := reserved(t)
		x.roles, x.left = nil, -1
		held.times++
		err := x.planner().Assigner().Input(t.Context(), held)
		if no, ok := errors.AsType[*kernel.Refusal](err); !ok || no.Code != mailbox.UnknownRole {
			t.Errorf("got %v", err)
		}
		if of := x.box("a/b/c0").Life.Work; of != nil {
			t.Errorf("%+v", of)
		}
		x.rows()
	})
}

func TestRoleItemRefusedCut(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range elsewhere {
		t.Run("WORK-8 PERS-21 SAFE-3 a planner that dies at any operation, and again at any one of the next delivery, whose item is "+name+
			", leaves no row behind its log", func(t *testing.T) {
			t.Parallel()
			plays := 0
			for _, late := range []bool{false, true} {
				for first := 0; ; first++ {
					x, held := wanted(t, first, late)
					if held.what == "" {
						break
					}
					for op := first % 3; ; op += 3 {
						x, held = wanted(t, first, late)
						meanwhile(x)
						x.drain()
						x.deaths = 0
						x.cut, x.late = op, late
						x.waiting = append(x.waiting, held)
						x.drain()
						x.rows()
						for _, a := range x.addresses {
							of := x.box(a).Life.Work
							if item, _ := x.item("w0"); of != nil && !item.HeldBy(a, of.Epoch) {
								t.Fatalf("operations %d and %d, after it: %v: %s is left with %+v", first, op, late, a, of)
							}
						}
						if plays++; x.deaths == 0 {
							break
						}
					}
				}
			}
			if plays < 40 {
				t.Errorf("only %d plays", plays)
			}
			t.Logf("%d plays", plays)
		})
	}
}
