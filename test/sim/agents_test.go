package sim

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
)

// theAgent is the named agent of a scene, theBox the id of its log; mostWakes is how many runs of it there may be.
const (
	theAgent  = "web/maker/nux"
	theBox    = "web_maker_nux"
	mostWakes = 8
)

// smallAgent is the small world of a named agent that gets mail before its first run, while that works and once the next
// one works. Where order is set somebody asks for that while its first run works. Where held is set it is given a work
// item, too, and the order comes while it works on that.
func smallAgent(tool, order string, held bool) Scene {
	s := Scene{Agent: true, Order: order, Item: held}
	for epoch := 1; epoch <= mostWakes; epoch++ {
		s.Runs = append(s.Runs, SceneRun{ID: wakeOf(epoch), OfAgent: true, Autonomy: 3, Budget: 10, Retries: 2,
			Steps: []SceneStep{{ID: "step-1", Turns: [][]SceneCall{{{Tool: tool, N: epoch}}}}}})
	}
	return s
}

func wakeOf(epoch int) string {
	return names.Wake(theBox, epoch)
}

// writes has people make the agent, send it mail, give it an item and ask for things.
func (h *person) writes() {
	s := h.w.play.Scene
	if !s.Agent {
		return
	}
	do := func(key string, c events.MailControl) {
		if h.met[key] {
			return
		}
		h.met[key] = true
		c.By = "anna"
		h.mean(act{events.AgentSubject(station, theBox), say(c), key})
	}
	mail := func(id string) {
		do("send "+id, events.MailControl{Action: mailbox.Send, Mail: &events.MailDraft{ID: id, Body: bodyOf(id)}})
	}
	do("register", events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "agent-" + wakeOf(1)}})
	box := &h.w.audit.box
	if !box.there {
		return
	}
	mail("m1")
	if s.Item {
		h.gives()
	}
	at := wakeOf(1)
	if s.Item {
		at = h.w.audit.item.run
	}
	if works := h.w.state[at]; len(works.Open) > 0 {
		mail("m2")
		if s.Order != "" {
			do(s.Order, events.MailControl{Action: s.Order})
		}
	}
	if box.stopped && box.run == "" {
		do("start", events.MailControl{Action: mailbox.Start})
	}
	if box.epoch > 1 {
		mail("m3")
	}
}

// gives has somebody give the agent the work item of the play.
func (h *person) gives() {
	for _, c := range []events.WorkControl{{Action: work.Add, Spec: &events.WorkSpec{Title: "do it"}},
		{Action: work.Assign, Start: true, By: "anna", Dispatch: &events.WorkDispatch{Address: theAgent}}} {
		if c.Action == work.Assign && !h.w.audit.item.there || h.met["item "+c.Action] {
			continue
		}
		h.met["item "+c.Action] = true
		h.mean(act{events.WorkSubject(station, theItem), say(c), "item " + c.Action})
	}
}

// mean has somebody do something: at once in a play with injections, else at some time.
func (h *person) mean(a act) {
	if h.w.play.Inject != nil {
		h.urgent = append(h.urgent, a)
		return
	}
	h.acts = append(h.acts, a)
}

func say(control any) string {
	b, err := json.Marshal(control)
	if err != nil {
		panic(err) // a fault of the simulation itself
	}
	return string(b)
}

// bodyOf is the text of a message, which is nowhere else.
func bodyOf(id string) string { return "the text of " + id + ";" }

// boxAudit is what the audit knows of the agent: who it is now, and of its mail in which run a turn was given it.
type boxAudit struct {
	there    bool
	epoch    int
	run      string
	started  bool
	stopped  bool
	sent     map[string]bool
	injected map[string]string
	shown    map[string]string
	acked    map[string]string
	// read are the messages that a prompt had: as mail, in the history of the session, or in the account of a run before.
	read map[string]bool
}

func newBoxAudit() boxAudit {
	return boxAudit{sent: map[string]bool{}, injected: map[string]string{}, shown: map[string]string{}, acked: map[string]string{},
		read: map[string]bool{}}
}

// mailed judges one event of the agent: MSG-2, MSG-4, MSG-6 and CONT-11.
func (a *audit) mailed(r kernel.Record) {
	f, p, err := events.ReadAs(r.Bytes, events.AgentAggregate, events.LookupAgent)
	if err != nil {
		a.breaks("agent %s: a stored event cannot be read: %v", theAgent, err)
		return
	}
	a.w.tale.line("", fmt.Sprintf("= %s#%d %s", theBox, f.Sequence, p.Kind()))
	if fault := a.box.judge(a, p); fault != "" {
		a.breaks("agent %s#%d %s: %s", theAgent, f.Sequence, p.Kind(), fault)
	}
}

func (b *boxAudit) judge(a *audit, p events.Payload) string {
	ended := a.runs[b.run] != nil && a.runs[b.run].ended != ""
	switch d := p.(type) {
	case *events.AgentRegisteredData:
		b.there = true
	case *events.MailSentData:
		if b.sent[d.Mail.ID] {
			return "message " + d.Mail.ID + " was stored before"
		}
		b.sent[d.Mail.ID] = true
	case *events.AgentWokenData:
		if b.run != "" || d.Epoch != b.epoch+1 || d.Run != wakeOf(d.Epoch) {
			return fmt.Sprintf("run %s (epoch %d) is woken, and %q is the agent in epoch %d", d.Run, d.Epoch, b.run, b.epoch)
		}
		b.epoch, b.run = d.Epoch, d.Run
		a.w.tale.counts["wakes"]++
	case *events.AgentStartedData:
		if d.Run != b.run || b.started || a.runs[d.Run] == nil || a.runs[d.Run].in || ended {
			return fmt.Sprintf("run %s starts as the agent, which is %q", d.Run, b.run)
		}
		b.started = true
	case *events.AgentEndedData:
		if d.Epoch != b.epoch || b.run == "" || b.started && !ended {
			return fmt.Sprintf("the agent is run %q, which has not ended", b.run)
		}
		b.run, b.started = "", false
	case *events.AgentHandedOffData:
		if d.Account.Epoch != b.epoch || b.started && !ended {
			return fmt.Sprintf("the agent is run %q, which has not ended", b.run)
		}
		b.run, b.started = "", false
		a.w.tale.counts["handoffs"]++
	case *events.AgentStoppedData:
		b.stopped = true
	case *events.MailAckedData:
		for _, id := range d.IDs {
			given := b.shown[id] != "" && b.shown[id] == d.Run || b.injected[id] == d.Run && ended // the session has it
			if b.acked[id] != "" || !given {
				return fmt.Sprintf("message %s is acknowledged for run %q, a turn of run %q was given it, and before for %q", id, d.Run, b.shown[id], b.acked[id])
			}
			b.acked[id] = d.Run
		}
	}
	return ""
}

// given holds that a message is given to the turns of one run alone, that this run is the agent, and that it was sent.
func (a *audit) given(runID string, l *ledger, p events.Payload) string {
	if !a.w.play.Scene.Agent {
		return ""
	}
	b := &a.box
	switch d := p.(type) {
	case *events.PlanMadeData:
		l.in = true
		if b.run != runID || !b.started {
			return fmt.Sprintf("it goes to work as the agent, which is run %q", b.run)
		}
		return a.holdsItem(runID, l)
	case *events.RunCreatedData:
		l.item = d.Work
	case *events.MailInjectedData:
		for _, m := range d.Mail {
			if !b.sent[m.ID] || b.shown[m.ID] != "" || b.injected[m.ID] == runID {
				return fmt.Sprintf("message %s is injected, a turn of run %q was given it", m.ID, b.shown[m.ID])
			}
			b.injected[m.ID] = runID
			a.w.tale.counts["messages injected"]++
		}
	case *events.TurnFinishedData:
		for _, id := range rank(b.injected) {
			if b.injected[id] == runID && b.shown[id] == "" {
				if !b.read[id] {
					return "no prompt had message " + id + ", which was injected before the turn"
				}
				b.shown[id] = runID
				a.w.tale.counts["messages shown"]++
			}
		}
	default:
	}
	return ""
}

// reads holds that a prompt has no message twice, and none that was not injected: one that a turn of an earlier run was
// given comes with the history of the session alone.
func (a *audit) reads(req llm.Request) {
	if !a.w.play.Scene.Agent {
		return
	}
	a.w.news()
	var prompt, whole strings.Builder
	for _, m := range req.Messages { // the account of a run before tells what that was given to do
		text, account, _ := strings.Cut(m.Text, "<handoff>")
		_, rest, _ := strings.Cut(account, "</handoff>")
		prompt.WriteString(text + rest)
		whole.WriteString(m.Text)
	}
	for _, id := range rank(a.box.sent) {
		a.box.read[id] = a.box.read[id] || strings.Contains(whole.String(), bodyOf(id))
		n := strings.Count(prompt.String(), bodyOf(id))
		if of := a.box.injected[id]; n > 1 || n == 1 && (of == "" || of != req.Meta.Run && a.box.shown[id] == "" && a.runs[of].ended == "") {
			a.breaks("the prompt of run %s has message %s %d times, which was injected in run %q", req.Meta.Run, id, n, a.box.injected[id])
		}
	}
}

// boxIsWhole holds at the end that no message is lost, and that nobody is the agent.
func (a *audit) boxIsWhole() {
	if !a.w.play.Scene.Agent {
		return
	}
	dead := map[uint64]bool{}
	for _, d := range a.w.st.Dead() {
		dead[d.Letter.Seq] = true
	}
	for input, what := range a.w.person.mails {
		if id, is := strings.CutPrefix(what, "send "); is && (!a.box.sent[id] || a.box.acked[id] == "" || !a.box.read[id]) && !dead[input] {
			a.breaks("message %s (input %d) was given to a turn of run %q and acknowledged for %q, and a prompt had it: %v", id, input, a.box.shown[id], a.box.acked[id], a.box.read[id])
		}
	}
	if a.box.run != "" {
		a.breaks("run %s is the agent at the end", a.box.run)
	}
	l, err := mailbox.NewLedger(mailbox.LedgerConfig{Station: station, By: events.Planner, Journal: a.w.st.JournalFor(events.AgentAggregate), Entropy: rand.Reader})
	if err != nil {
		a.breaks("%v", err)
		return
	}
	s, position, err := l.State(context.Background(), theBox)
	if err != nil {
		a.breaks("agent %s: %v", theAgent, err)
		return
	}
	want, err := mailbox.View().Row(s, position)
	row, missing := a.w.st.KV(topology.SessionBucket).Get(context.Background(), mailbox.View().Key(theBox))
	if err != nil || missing != nil || !bytes.Equal(row, want) {
		a.breaks("agent %s: its row is %s, %v, its log says %s, %v", theAgent, row, missing, want, err)
	}
}

// holdsItem is what is wrong with a run that goes to work on the item of its agent.
func (a *audit) holdsItem(runID string, l *ledger) string {
	if l.item != nil && (a.item.run != runID || !a.item.started || l.item.Epoch != a.item.epoch) {
		return fmt.Sprintf("it goes to work on item %s, which run %q has", theItem, a.item.run)
	}
	return ""
}

// judgeHeld holds WORK-4, WORK-5 and CONT-12 of an item that a named agent has: it has one holder, it goes from one run of
// the agent to a later one once the earlier has ended, and it is closed by a run that completed with it.
func (i *itemAudit) judgeHeld(a *audit, p events.Payload) string {
	of := a.runs[i.run]
	ended := of != nil && of.ended != ""
	switch d := p.(type) {
	case *events.WorkCreatedData:
		i.there = true
	case *events.WorkBoundData:
		if i.bound || i.closed || d.Epoch != i.epoch+1 {
			return fmt.Sprintf("binding %d after %d, held: %v", d.Epoch, i.epoch, i.bound)
		}
		i.bound, i.epoch, i.run, i.started = true, d.Epoch, "", false
		a.w.tale.counts["bindings"]++
	case *events.WorkStartedData:
		if !i.bound || i.started || d.AgentEpoch <= i.agent || d.Run != a.box.run || d.Run != wakeOf(d.AgentEpoch) {
			return fmt.Sprintf("run %s (epoch %d) gets it, run %q had it (epoch %d), the agent is run %q", d.Run, d.AgentEpoch, i.run, i.agent, a.box.run)
		}
		i.run, i.agent, i.started = d.Run, d.AgentEpoch, true
		a.w.tale.counts["runs that got the item"]++
	case *events.WorkHandedOffData:
		if d.Run != i.run || !i.started || !ended {
			return fmt.Sprintf("run %q has it and has not ended", i.run)
		}
		i.started = false
		a.w.tale.counts["items handed on"]++
	case *events.WorkUnboundData:
		if d.Epoch != i.epoch || !i.bound || i.started && !ended {
			return fmt.Sprintf("run %q has it, which has not ended", i.run)
		}
		i.bound, i.started = false, false
	case *events.WorkClosedData:
		if d.Run != i.run || !i.started || a.w.state[d.Run].Status != events.Completed {
			return fmt.Sprintf("run %q has it and has not completed", i.run)
		}
		i.bound, i.started, i.closed = false, false, true
		a.w.tale.counts["items closed"]++
	}
	return ""
}

func TestAgentsCalm(t *testing.T) {
	for _, order := range []string{"", mailbox.Handoff, mailbox.Restart, mailbox.Stop} {
		t.Run("MSG-2 MSG-4 WORK-4 CONT-11 without trouble a named agent reads all of its mail and does its item: "+order, func(t *testing.T) {
			all := counts{}
			for seed := range uint64(2) {
				all.add(must(t, Play{Seed: seed, Trouble: Trouble{Events: 1}, Scene: smallAgent("put", order, true), Together: seed == 0}))
			}
			all.least(t, map[string]int{"messages shown": 4, "wakes": 2, "items closed": 2})
		})
	}
}

func TestEveryOperationAgents(t *testing.T) {
	for order, want := range map[string]map[string]int{
		"":              {"plays": 4, "messages shown": 12, "items closed": 4},
		mailbox.Handoff: {"plays": 4, "messages shown": 12, "items closed": 4, "items handed on": 4},
		mailbox.Restart: {"plays": 4, "messages shown": 12, "items closed": 4, "items handed on": 4},
		mailbox.Stop:    {"plays": 4, "messages shown": 12, "items closed": 4, "items handed on": 4},
	} {
		t.Run("MSG-2 MSG-4 MSG-6 WORK-4 WORK-5 CONT-11 CONT-12 SAFE-7 a crash or a duplicate at operations of a named agent with mail and a work item, in any log: no message is lost or given twice, and one run at a time has the item: "+order, func(t *testing.T) {
			all := counts{}
			someOf(t, smallAgent("pay", order, true), 423, all.add)
			all.least(t, want)
		})
	}
}

func TestAgentsInTrouble(t *testing.T) {
	t.Run("MSG-2 MSG-4 MSG-6 WORK-3 WORK-4 CONT-11 trouble of every kind around a named agent with mail and a work item: no message is lost or given twice, and one run at a time has the item", func(t *testing.T) {
		all, seeds := counts{}, []uint64{23} // with 23 two executors asked for one turn, and the answer to the prompt without mail counted
		for seed := range *agentsFlag {
			seeds = append(seeds, seed)
		}
		for _, seed := range seeds {
			order := []string{"", mailbox.Handoff, mailbox.Restart, mailbox.Stop}[seed%4]
			all.add(must(t, Play{Seed: seed, Trouble: troubleOf(seed), Scene: smallAgent("put", order, seed%3 > 0), Together: seed%3 == 0}))
		}
		all.least(t, map[string]int{"messages shown": int(*agentsFlag)}) //nolint:gosec // a small number
	})
}

var agentsFlag = flag.Uint64("agents", 4, "TestAgentsInTrouble: how many seeds")
