package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mergequeue"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
)

// deliverers are agents that write a file each, of a station whose merge queue lands on main.
func deliverers(t testing.TB, w *world, files ...string) {
	t.Helper()
	no := false
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		w.agent(events.Agent{Name: name, Tools: []string{"write"}, Git: &events.GitSettings{RequireApproval: &no}}, writes(name+".txt", content))
	}
}

func (w *world) merges(id string, c events.QueueControl) {
	w.t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(events.QueueSubject("test", id), string(b))
}

func (w *world) queue(id string) (s mergequeue.State) {
	w.t.Helper()
	l, err := mergequeue.NewLedger(mergequeue.LedgerConfig{Station: "test", By: events.Planner, Journal: w.ports.QueueLog, Entropy: rand.Reader})
	if err == nil {
		s, err = l.Fresh(w.ctx(), id)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) addQueue(id string, r remote, agent, check string) {
	w.t.Helper()
	w.merges(id, events.QueueControl{Action: mergequeue.Add, By: "anna", Spec: &events.QueueSpec{Repo: r.url(), Branch: "main", Agent: agent, Accept: accept(check)}})
	w.until("merge queue "+id+" is made", func() bool { return w.queue(id).Exists() })
}

func delivers(agent string, r remote, queue string) events.WorkControl {
	c := sling(agent)
	c.Dispatch.Repo, c.Dispatch.Branch, c.Dispatch.Deliver = r.url(), "main", &events.WorkDeliver{Queue: queue}
	return c
}

// queued are the events of a merge queue, in short.
func (w *world) queued(id string) string {
	w.t.Helper()
	var all []string
	for after, more := uint64(0), true; more; {
		var batch []kernel.Record
		var err error
		if batch, more, err = w.ports.QueueLog.Read(w.ctx(), id, after); err != nil {
			w.t.Fatal(err)
		}
		for _, r := range batch {
			_, p, err := events.ReadAs(r.Bytes, events.QueueAggregate, events.LookupQueue)
			if err != nil {
				w.t.Fatal(err)
			}
			all, after = append(all, strings.TrimPrefix(string(p.Kind()), "queue.")), r.Seq
		}
	}
	return strings.Join(all, " ")
}

// delivered are all events of an item whose work was landed, in their order.
const delivered = "created bound started delivery.validated delivery.published delivery.reviewed delivery.notified delivery.landed delivery.closed delivery.released"

func isReleased(s work.State) bool {
	return s.Delivery != nil && s.Delivery.Phase == events.DeliveryIsReleased
}

func isBounced(s work.State) bool {
	return s.Delivery != nil && s.Delivery.Phase == events.DeliveryIsBounced
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	deliverers(t, w, "alice=good", "bob=bad", "carl=fine")
	w.start()
	letters := w.letters()
	w.addQueue("main", r, "alice", "! grep -rq bad *.txt")
	t.Run("DLV-1 DLV-3 DLV-5 work is delivered in six phases, and its merge queue lands it on the branch once the merged tree is checked", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		before := r.at("main")
		w.addItem("hello", events.WorkSpec{Title: "Say hello"})
		w.work("hello", delivers("alice", r, "main"))
		s := w.itemIs("hello", "released", isReleased)
		if got := w.went("hello"); got != delivered {
			t.Errorf("got %s", got)
		}
		d := s.Delivery
		if s.Status != events.WorkIsClosed || s.Binding != nil || s.Last.Code != events.WorkCompleted || d.Landed != r.at("main") || d.Landed == before || d.Target != "main" {
			t.Errorf("%+v, landed as %+v; main is at %s", s.WorkItem, d, r.at("main"))
		}
		if r.git("-C", r.dir, "show", "main:alice.txt") != "good" || r.at(d.RemoteBranch) != "" || d.Kept != "" {
			t.Errorf("the remote still has %s at %q, %+v", d.RemoteBranch, r.at(d.RemoteBranch), d)
		}
		if got := r.git("-C", r.dir, "log", "-1", "--format=%s", d.Commit); got != "Say hello" {
			t.Errorf("the commit says %q", got)
		}
		if got := w.queued("main"); got != "created enqueued taken landed" {
			t.Errorf("the queue: %s", got)
		}
		e := w.queue("main").Done[0]
		run := w.state(e.Landing)
		if e.State != events.EntryIsLanded || run.ModelTurns() != 0 || len(run.Result.Verified) != 1 || run.Result.Verified[0].GitTree != r.git("-C", r.dir, "rev-parse", "main^{tree}") {
			t.Errorf("%+v by %+v", e, run.Result)
		}
		if len(d.Notices) != 2 || d.Notices[0].Code != events.NoAddress || d.Review.How != events.ReviewBranch {
			t.Errorf("%+v %+v", d.Notices, d.Review)
		}
	})
	t.Run("DLV-1 DLV-2 a merge that breaks the checks bounces: main stays, the branch stays, and the next agent reads why", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		before := r.at("main")
		w.addItem("broken", events.WorkSpec{Title: "Break it"})
		w.work("broken", delivers("bob", r, "main"))
		s := w.itemIs("broken", "bounced", isBounced)
		d := s.Delivery
		if d.Code != events.LandingChecks || s.Status != events.WorkIsOpen || s.Last.Code != events.WorkBounced || r.at("main") != before || r.at(d.RemoteBranch) != d.Commit {
			t.Errorf("%+v, %+v", d, s.Last)
		}
		w.work("broken", delivers("carl", r, "main"))
		s = w.itemIs("broken", "released", isReleased)
		if run := w.state(s.Last.Run); !strings.Contains(run.Created.Task, "did not land ("+events.LandingChecks+")") || !strings.Contains(run.Created.Task, "\n| ") {
			t.Errorf("the next agent reads %q", run.Created.Task)
		}
	})
	t.Run("DLV-1 GIT-8 a conflict with the target bounces with its paths", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		w.addItem("clash", events.WorkSpec{Title: "Clash"})
		c := delivers("alice", r, "main")
		c.Dispatch.Branch, c.Dispatch.Ref = "", r.at("main")+"~1"
		r.git("-C", r.dir, "branch", "old", r.git("-C", r.dir, "rev-list", "--max-parents=0", "main"))
		c.Dispatch.Ref, c.Dispatch.Branch = "", "old"
		deliverers(t, w, "dora=other")
		w.agent(events.Agent{Name: "dora", Tools: []string{"write"}, Git: &events.GitSettings{RequireApproval: new(bool)}}, writes("alice.txt", "other"))
		c.Dispatch.Agent = "dora"
		w.work("clash", c)
		if d := w.itemIs("clash", "bounced", isBounced).Delivery; d.Code != events.LandingConflict || !strings.Contains(d.Reason, "alice.txt") {
			t.Errorf("%+v", d)
		}
	})
	t.Run("DLV-4 a convoy is closed with the last of its items, whoever closes it", func(t *testing.T) {
		w := w.on(t)
		w.addItem("part", events.WorkSpec{Title: "Part"})
		w.addItem("release", events.WorkSpec{Title: "Release", Items: []string{"hello", "part"}})
		w.itemIs("part", "in the convoy", func(s work.State) bool { return len(s.Convoys) == 1 })
		if s := w.item("release"); s.Status != events.WorkIsOpen {
			t.Errorf("the convoy is %s", s.Status)
		}
		w.work("part", events.WorkControl{Action: work.Close, By: "anna"})
		if s := w.itemIs("release", "closed", isClosed); s.ClosedAs != "all 2 items of the convoy are closed" {
			t.Errorf("%q", s.ClosedAs)
		}
		w.work("none", events.WorkControl{Action: work.Add, Spec: &events.WorkSpec{Title: "x", Items: []string{"missing"}}})
		if d := w.letter(letters); d.Code != work.Unknown {
			t.Errorf("%+v", d)
		}
	})
	t.Run("DLV-1 WORK-3 what cannot be delivered is refused before it begins", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		w.addItem("nowhere", events.WorkSpec{Title: "Nowhere"})
		for _, c := range []struct {
			change func(*events.WorkDispatch)
			code   string
		}{
			{func(d *events.WorkDispatch) { d.Deliver.Queue = "none" }, mergequeue.Unknown},
			{func(d *events.WorkDispatch) { d.Repo += "x" }, events.LandingWrongRepo},
			{func(d *events.WorkDispatch) { d.Repo, d.Branch = "", "" }, "bad_input"},
			{func(d *events.WorkDispatch) { d.Deliver.Oversight = "No/Such" }, "bad_input"},
		} {
			control := delivers("alice", r, "main")
			c.change(control.Dispatch)
			w.work("nowhere", control)
			if d := w.letter(letters); d.Code != c.code || d.Hint == "" {
				t.Errorf("%+v, want %s", d, c.code)
			}
		}
		if got := w.went("nowhere"); got != "created" {
			t.Errorf("got %s", got)
		}
	})
}

// deaths has each planner die once an event of a kind is stored that none died at before.
type deaths struct {
	mu   sync.Mutex
	seen map[events.Kind]bool
}

// mortal is a log for one planner: it dies with the first event of a kind, which is stored and not acknowledged to it, or,
// where before is set, not stored.
type mortal struct {
	kernel.Journal
	of    *deaths
	dead  chan struct{}
	kinds func(events.Kind) bool
	// before has it die before the event is stored.
	before bool
}

// Append implements kernel.Journal.
func (m mortal) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	dies := kernel.Ack{Outcome: kernel.Transient, Err: errors.New("the process dies here")}
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	select {
	case <-m.dead:
		return dies
	default:
	}
	ends := m.kinds(e.Kind) && !m.of.seen[e.Kind]
	if !ends || !m.before {
		if ack := m.Journal.Append(ctx, e); !ends || ack.Outcome != kernel.Stored {
			return ack
		}
	}
	m.of.seen[e.Kind] = true
	close(m.dead)
	return dies
}

func TestDeliveryCut(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprintf("DLV-2 DLV-3 SAFE-3 planners die where a delivery bounces, before it is stored: %v; those who are to know are told once", before), func(t *testing.T) {
			t.Parallel()
			w, r := gitWorld(t), newRemote(t)
			w.agent(events.Agent{Name: "idle"}, "\nturns:\n  - when: {turn: 1}\n    text: Nothing to do.\n")
			w.start(events.Gatekeeper, events.Executor, events.Toolrunner, events.Persister)
			first := w.start(events.Planner)
			w.registerAddress("queue/leads", events.AddressSpec{})
			w.addItem("hello", events.WorkSpec{Title: "Say hello"})
			first.stop()
			c := delivers("idle", r, "")
			c.Dispatch.Deliver.Oversight = "queue/leads"
			died := w.dieAt(before, func() { w.work("hello", c) }, func(w *world) {
				w.itemIs("hello", "told", func(s work.State) bool { return isBounced(s) && !s.OwesNotice() })
			})
			s, box := w.item("hello"), w.box("queue/leads")
			if len(died) != 2 || s.Delivery.Code != events.BouncedNothing || len(s.Delivery.Notices) != 2 || s.Delivery.Notices[1].Mail == "" {
				t.Errorf("planners died at %v; %+v", died, s.Delivery)
			}
			if len(box.Pending) != 1 || box.Pending[0].ID != s.Delivery.Notices[1].Mail || !strings.Contains(box.Pending[0].Body, events.BouncedNothing) {
				t.Errorf("the mailbox has %+v", box.Pending)
			}
		})
	}
	t.Run("DLV-2 PERS-12b SAFE-3 planners die after each phase and after each event of the merge queue: each is done once, and the work lands once", func(t *testing.T) {
		t.Parallel()
		cutDelivery(t, false)
	})
}

// dieAt does something, and has a planner die at each kind of event of a delivery and of a merge queue that follows, until
// the end has come. It returns these kinds.
func (w *world) dieAt(before bool, do func(), end func(*world)) map[events.Kind]bool {
	w.t.Helper()
	of := &deaths{seen: map[events.Kind]bool{}}
	items, queues := w.ports.WorkLog, w.ports.QueueLog
	dies := func(k events.Kind) bool {
		return strings.HasPrefix(string(k), "delivery.") || strings.HasPrefix(string(k), "queue.")
	}
	begin := func() (*hosted, chan struct{}) {
		dead := make(chan struct{})
		w.ports.WorkLog, w.ports.QueueLog = mortal{items, of, dead, dies, before}, mortal{queues, of, dead, dies, before}
		h := w.start(events.Planner)
		w.ports.WorkLog, w.ports.QueueLog = items, queues
		return h, dead
	}
	whole := *w
	done := make(chan struct{})
	h, dead := begin()
	do()
	go func() {
		defer close(done)
		end(&whole)
	}()
	for {
		select {
		case <-dead:
			h.stop()
			h, dead = begin()
		case <-done:
			of.mu.Lock() // the last event may be seen before its planner has died of it
			defer of.mu.Unlock()
			return of.seen
		}
	}
}

// cutDelivery delivers an item while planners die at each event of its delivery.
func cutDelivery(t *testing.T, before bool) {
	w, r := gitWorld(t), newRemote(t)
	deliverers(t, w, "alice=good")
	w.start(events.Gatekeeper, events.Executor, events.Toolrunner, events.Persister)
	first := w.start(events.Planner)
	w.addQueue("main", r, "alice", "grep -q good alice.txt")
	w.addItem("hello", events.WorkSpec{Title: "Say hello"})
	first.stop()
	died := w.dieAt(before, func() { w.work("hello", delivers("alice", r, "main")) }, func(w *world) { w.itemIs("hello", "released", isReleased) })
	if got := w.went("hello"); got != delivered {
		t.Errorf("got %s", got)
	}
	if got := w.queued("main"); got != "created enqueued taken landed" {
		t.Errorf("the queue: %s", got)
	}
	if len(died) != 10 {
		t.Errorf("planners died at %v", died)
	}
	s := w.item("hello")
	runs, err := os.ReadDir(filepath.Join(w.dir, "work", "run"))
	if err != nil || len(runs) != 2 || s.Delivery.Landed != r.at("main") {
		t.Errorf("%d runs, %v; landed at %s, main is at %s", len(runs), err, s.Delivery.Landed, r.at("main"))
	}
}
