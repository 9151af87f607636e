package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

// stormReader reads its mail.
const stormReader = `
turns:
  - when: {turn: 1}
    text: Read.
`

// dying starts planners and executors that die after some appends to the logs of addresses or of runs, the last of which is
// stored, and waits until they did; not longer than the storm lasts.
func (w *world) dying(over <-chan struct{}) {
	boxes, runs := w.ports.AgentLog, w.ports.Journal
	cut := func(j kernel.Journal, most int64) *cutWork {
		c := &cutWork{Journal: j, died: make(chan struct{})}
		c.left.Store(1 + rand.Int64N(most))
		return c
	}
	a, r := cut(boxes, 12), cut(runs, 40)
	w.ports.AgentLog, w.ports.Journal = a, r
	some := w.start(events.Planner, events.Executor)
	w.ports.AgentLog, w.ports.Journal = boxes, runs
	select {
	case <-a.died:
	case <-r.died:
	case <-over:
	}
	some.stop()
}

// storm sends mail to so many agents until they were woken to so many runs together, while planners and executors die, and
// counts what each turn was given.
func storm(t *testing.T, agents, runs int) {
	w := newWorld(t)
	w.agent(events.Agent{Name: "reader", Prompt: "You read."}, stormReader)
	w.start()
	var addresses []string
	for i := range agents {
		addresses = append(addresses, fmt.Sprintf("storm/reader/n%d", i))
		w.registerAddress(addresses[i], events.AddressSpec{Agent: "reader"})
	}
	var senders sync.WaitGroup
	var sent atomic.Int64
	over := make(chan struct{})
	counts := make([]int, agents)
	for i, address := range addresses {
		senders.Go(func() {
			_, id, _ := events.ParseAddress(address)
			for n := 0; ; n++ {
				s := w.boxIs(address, "not full", func(s mailbox.State) bool {
					return s.Epoch >= runs/agents || len(s.Pending) < 30 && !slices.ContainsFunc(s.Recent[:max(0, len(s.Recent)-200)], func(r events.MailRate) bool {
						return time.Since(r.At) < time.Minute // the state has them until the next message comes
					})
				})
				if s.Epoch >= runs/agents {
					counts[i] = n
					return
				}
				c := events.MailControl{Action: mailbox.Send, By: fmt.Sprint("sender", n%5), Mail: &events.MailDraft{ID: fmt.Sprintf("n%d-%d", i, n), Body: "x",
					Priority: events.Priorities()[n%4]}}
				b, err := json.Marshal(c)
				if err == nil {
					err = w.st.Publish(w.ctx(), events.AgentSubject("test", id), b, nil)
				}
				if err != nil {
					t.Error(err)
					return
				}
				sent.Add(1)
				if n%3 > 0 { // often more than one waits
					w.until("mail is there", func() bool { return w.box(address).Knows(c.Mail.ID) })
				}
				if n%6 == 5 {
					w.boxIs(address, "idle", func(s mailbox.State) bool { return s.Holder == nil && len(s.Pending) == 0 })
				}
			}
		})
	}
	go func() { senders.Wait(); close(over) }()
	deaths := 0
	for open := true; open; deaths++ {
		w.dying(over)
		select {
		case <-over:
			open = false
		default:
		}
	}
	turns := 0
	for i, address := range addresses {
		acked := map[string]int{}
		w.until("all mail is acknowledged", func() bool { // what a planner died with comes again after a while
			acked = w.acked(address)
			return len(acked) >= counts[i]
		})
		w.boxIs(address, "idle", func(s mailbox.State) bool { return s.Holder == nil && len(s.Pending) == 0 })
		acked = w.acked(address)
		shows := w.shows(address)
		for n := range counts[i] {
			if id := fmt.Sprintf("n%d-%d", i, n); shows[id] != 1 || acked[id] != 1 {
				t.Errorf("%s: mail %s was given to %d turns and acknowledged %d times", address, id, shows[id], acked[id])
			}
		}
		if len(shows) != counts[i] {
			t.Errorf("%s: %d messages, %d were given", address, counts[i], len(shows))
		}
		turns += len(w.runsOf(address))
	}
	if turns < runs {
		t.Errorf("%d runs, want %d", turns, runs)
	}
	t.Logf("%d messages to %d agents in %d runs, services died %d times: each was given to one turn", sent.Load(), agents, turns, deaths)
}

// acked is how often each message of an address was acknowledged.
func (w *world) acked(address string) map[string]int {
	n := map[string]int{}
	for _, p := range w.agentEvents(address) {
		if d, ok := p.(*events.MailAckedData); ok {
			for _, id := range d.IDs {
				n[id]++
			}
		}
	}
	return n
}

func TestMailStorm(t *testing.T) {
	t.Parallel()
	t.Run("MSG-2 MSG-4 MSG-6 MSG-15 SAFE-3 while planners and executors die no message is lost and none is given twice", func(t *testing.T) {
		t.Parallel()
		storm(t, 3, 9)
	})
}
