package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// station is the name of the station of every play.
const station = "sim"

// Play says what is played.
type Play struct {
	Seed uint64
	// Trouble is what may go wrong; see Trouble.
	Trouble Trouble
	// Scene is what the users want.
	Scene Scene
	// Together puts all roles of a replica into one process, with shared pages.
	Together bool
	// Alone is one process of each role: what one leaves undone when it dies waits until it starts again, and no other
	// has it in memory.
	Alone bool
	// Inject makes certain operations the last of their process, by their number in the play; a play with injections
	// has no other trouble and always goes on with what waited longest.
	Inject map[int]verdict
	// Tell keeps the story.
	Tell bool
}

// Outcome is what came of a play.
type Outcome struct {
	// Violation is empty where all rules held.
	Violation string
	Story     string
	// Digest of the story; kept also where the story is not.
	Digest uint64
	// Ops is the number of operations, Counts what happened by kind.
	Ops    int
	Counts map[string]int
	// Merges are the operations of the deliveries in which a child was merged.
	Merges []int
}

// Limits of a play.
const (
	replicas   = 2
	mostEvents = 60_000
	// mostPeace is the virtual time after the trouble by which everything must have come to its end.
	mostPeace = 6 * time.Hour
)

// world is one play under way. Its fields are used by the play's own goroutine alone, but for those below mu.
type world struct {
	play   Play
	rng    *rand.Rand
	st     *mem.Station
	clock  *mem.Hand
	begin  time.Time
	tools  *toolbox
	procs  []*proc
	tale   *tale
	audit  *audit
	person *person

	parked []*op
	ops    int
	events int
	serial int
	// opsOf are the numbers of the operations of each delivery, merging the deliveries in which a child is merged.
	opsOf   map[string][]int
	merging map[string]bool
	// fault is what the next operation on the log suffers.
	fault  mem.Fault
	behind int
	// seen counts the events of each run that were judged, told all that were stored by then.
	seen  map[string]int
	told  int
	state map[string]run.State
	peace bool
	// neverFires are the timers that were lost.
	neverFires map[string]bool
	// peaceAt is when the trouble ended.
	peaceAt time.Time
	// overtaken is how many events the session had when the trouble ended, before what was still on its way arrived: no one
	// waited for that any more, and no one hears of it.
	overtaken int
	// lingered: time passed after all was done.
	lingered bool
	// hints are events that were not overheard yet.
	hints []hint
	// asked are the questions that hooks were asked.
	asked []asking

	mu sync.Mutex
	// arrived are operations that wait to be chosen, guarded by mu.
	arrived []*op
}

// Run plays a play to its end.
func Run(t *testing.T, p Play) (out Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p)
		out = w.perform()
	})
	return out
}

func newWorld(t *testing.T, p Play) *world {
	w := &world{play: p, rng: rand.New(rand.NewPCG(p.Seed, 0x5eed)), begin: time.Now(), seen: map[string]int{}, state: map[string]run.State{}, neverFires: map[string]bool{},
		opsOf: map[string][]int{}, merging: map[string]bool{}}
	w.clock = mem.NewHand(w.begin)
	st, err := mem.New(station, mem.Config{Clock: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	w.st = st
	w.tale = newTale(w, p.Tell)
	w.audit = newAudit(w)
	w.tools = newToolbox(w)
	w.person = newPerson(w)
	st.SetFaults(mem.Faults{
		Append: func(uint64, kernel.Entry) mem.Fault { return w.fault },
		Read:   func(uint64, string) (int, error) { return w.behind, nil },
		Get:    func(_ uint64, in mem.Store, _ string) (int, error) { return w.recordsBehind(in), nil },
		Last:   func(uint64, string) (int, error) { return w.behind, nil },
		Fire:   func(_ uint64, run, name string) []time.Duration { return w.fires(run, name) },
	})
	w.procs = newProcs(t, w)
	if err := st.KV("config").Put(context.Background(), topology.ChildKeyKey, []byte(childKey)); err != nil {
		t.Fatal(err)
	}
	for name, agent := range p.Scene.agents() {
		if err := st.KV("config").Put(context.Background(), "agent."+name, agent); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// perform plays until everything has ended or a rule is broken.
func (w *world) perform() Outcome {
	for _, p := range w.procs {
		p.start()
	}
	for w.audit.broken == "" && w.turn() {
	}
	w.shutdown()
	if w.audit.broken == "" {
		w.audit.final()
	}
	if w.audit.broken != "" {
		w.tale.line("", "RULE BROKEN: "+w.audit.broken)
	}
	return Outcome{Violation: w.audit.broken, Story: w.tale.text(), Digest: w.tale.digest(), Ops: w.ops, Counts: w.tale.counts, Merges: w.merges()}
}

// turn makes one thing happen. It is false once there is nothing more to come.
func (w *world) turn() bool {
	w.settle()
	if w.events++; w.events > mostEvents {
		w.audit.breaks("the play does not end: %d events; %s", w.events, w.standing())
		return false
	}
	if !w.peace && w.play.Trouble.over(w) {
		w.makePeace()
	}
	if w.trouble() {
		return true
	}
	choices := w.choices()
	if len(choices) == 0 {
		return w.idle()
	}
	if w.play.Inject == nil && w.rng.IntN(w.play.Trouble.rush()) == 0 {
		w.jump([]time.Duration{time.Millisecond, 100 * time.Millisecond, 2 * time.Second, 17 * time.Second, 40 * time.Second}[w.rng.IntN(5)])
		return true
	}
	i := 0
	if w.play.Inject == nil {
		i = w.rng.IntN(len(choices))
	}
	choices[i]()
	return true
}

// settle waits until every goroutine of the play waits, takes in what they want to do next, and judges the new events.
func (w *world) settle() {
	synctest.Wait()
	w.mu.Lock()
	fresh := w.arrived
	w.arrived = nil
	w.mu.Unlock()
	// They arrived in an order that the Go scheduler chose; who they are decides instead.
	slices.SortStableFunc(fresh, func(a, b *op) int {
		if a.p.index != b.p.index {
			return a.p.index - b.p.index
		}
		if c := strings.Compare(a.task, b.task); c != 0 {
			return c
		}
		return strings.Compare(a.what, b.what)
	})
	w.parked = append(w.parked, fresh...)
	w.parked = slices.DeleteFunc(w.parked, func(o *op) bool { return o.gone.Load() })
	w.news()
	w.whisper()
}

// hint is an event that may be overheard.
type hint struct {
	run   string
	event kernel.Record
}

// whisper lets new events be overheard. What that sets going has come to rest before anything else happens: else a
// machine with much to do would decide which is first.
func (w *world) whisper() {
	all := w.hints
	w.hints = nil
	for _, h := range all {
		for _, p := range w.procs {
			p.hint(h.run, h.event)
		}
	}
	if len(all) > 0 {
		synctest.Wait()
	}
}

// news judges the events that were stored since the last time.
func (w *world) news() {
	n := w.st.Events()
	if n == w.told {
		return
	}
	w.told = n
	var unseen []unjudged
	for _, id := range w.st.Runs() {
		if w.play.Scene.run(id) == nil {
			w.audit.breaks("there is a run %s that no one asked for", id)
			return
		}
		unseen = append(unseen, w.unseen(id, "")...)
	}
	unseen = append(unseen, w.unseen(kernel.Key(events.WorkAggregate, theItem), "")...)
	unseen = append(unseen, w.unseen(kernel.Key(events.AgentAggregate, theBox), "")...)
	for _, id := range rank(w.audit.grove.logs) {
		unseen = append(unseen, w.unseen(kernel.Key(events.WorkspaceAggregate, id), id)...)
	}
	slices.SortFunc(unseen, func(a, b unjudged) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, u := range unseen {
		if w.seen[u.key]++; u.workspace != "" {
			w.audit.workspace(u.workspace, u.Record)
			continue
		}
		switch u.key {
		case kernel.Key(events.WorkAggregate, theItem):
			w.audit.worked(u.Record)
			continue
		case kernel.Key(events.AgentAggregate, theBox):
			w.audit.mailed(u.Record)
			continue
		}
		w.audit.event(u.key, u.Record)
		next, err := w.state[u.key].Apply(u.Bytes)
		if err != nil {
			w.audit.breaks("run %s: the log does not fold: %v", u.key, err)
			return
		}
		w.state[u.key] = next
		w.hints = append(w.hints, hint{u.key, u.Record})
	}
}

// unjudged is an event that was not judged yet, of a run or of a workspace.
type unjudged struct {
	key, workspace string
	kernel.Record
}

// unseen are the events of one log that were not judged.
func (w *world) unseen(key, workspace string) (all []unjudged) {
	for _, r := range w.st.Log(key)[w.seen[key]:] {
		all = append(all, unjudged{key, workspace, r})
	}
	return all
}

// choices are all things that could happen now, those that waited longest first.
func (w *world) choices() []func() {
	var all []func()
	if s := w.play.Scene; s.Agent || s.branches() { // in others nothing is urgent
		if act := w.person.next(); len(w.person.urgent) > 0 {
			return []func(){act}
		}
	}
	for _, o := range w.parked {
		if !o.p.stalled {
			all = append(all, func() { w.release(o, w.verdictFor(o)) })
		}
	}
	for _, role := range events.Services() {
		ready := w.st.Ready(role)
		for i := range ready {
			if i >= w.play.Trouble.window() {
				break
			}
			for _, p := range w.procs {
				if p.takes(role) {
					all = append(all, func() { w.deliver(role, i, ready[i], p) })
					if w.play.Inject != nil {
						break
					}
				}
			}
		}
	}
	if act := w.person.next(); act != nil {
		all = append(all, act)
	}
	return all
}

// release lets an operation go on with a verdict.
func (w *world) release(o *op, v verdict) {
	i := slices.Index(w.parked, o)
	w.parked = slices.Delete(w.parked, i, i+1)
	w.opsOf[o.task] = append(w.opsOf[o.task], w.ops)
	w.merging[o.task] = w.merging[o.task] || strings.HasPrefix(o.what, events.GitMerge)
	w.ops++
	w.tale.op(o, v)
	w.fault, w.behind = v.fault(), v.behind()
	if v.kills() {
		o.p.crash(o)
	}
	o.answer <- v
	synctest.Wait()
	w.fault, w.behind = mem.None, 0
}

func (w *world) deliver(role events.Service, i int, m mem.Waiting, p *proc) {
	msg, ok := w.st.Take(role, i)
	if !ok {
		return
	}
	w.serial++
	w.tale.deliver(p, m)
	p.receive(role, msg, fmt.Sprintf("d%07d", w.serial))
}

// idle lets time pass until something happens. It is false where nothing ever will, or all is as it must be at the end.
func (w *world) idle() bool {
	if w.peace && w.done() {
		return w.lingers()
	}
	if w.peace && w.clock.Now().Sub(w.peaceAt) > mostPeace {
		w.audit.breaks("%s after the trouble ended the runs stand still: %s", mostPeace, w.standing())
		return false
	}
	step, from := time.Millisecond, w.clock.Now()
	for {
		if at, ok := w.clock.Next(); ok {
			step = max(min(step, at.Sub(w.clock.Now())), time.Millisecond)
		}
		w.wait(step)
		if w.stirring() || w.clock.Now().Sub(w.peaceAt) > mostPeace {
			w.tale.line("time", w.clock.Now().Sub(from).String()+" pass")
			return true
		}
		step = min(2*step, 5*time.Second)
	}
}

// stirring reports whether there is something to choose.
func (w *world) stirring() bool {
	w.settle()
	if w.trouble() {
		return true
	}
	return len(w.choices()) > 0
}

// jump lets time pass while there is something to do.
func (w *world) jump(d time.Duration) {
	w.tale.line("time", d.String()+" pass, with work under way")
	w.wait(d)
}

// wait lets time pass, for everybody, in slices shorter than any term.
func (w *world) wait(d time.Duration) {
	for d > 0 {
		slice := min(d, 2*time.Second)
		<-time.After(slice)
		synctest.Wait()
		w.clock.Advance(slice)
		d -= slice
	}
}

// done reports whether there is nothing left to do.
func (w *world) done() bool {
	for _, role := range events.Services() {
		if w.st.Pending(role) > 0 {
			return false
		}
	}
	for _, name := range w.st.TimersSet() {
		if id, kids := strings.CutSuffix(name, ".run.children"); kids && w.state[id].Status.Ended() {
			continue
		}
		if name == theItem+"."+topology.WorkTimers+".binding" && w.audit.item.closed {
			continue // nobody holds it any more
		}
		if strings.HasSuffix(name, ".run.checkpoint") {
			continue // it is set again for as long as its run waits for somebody
		}
		if !strings.HasSuffix(name, ".run.deadline") && !w.neverFires[name] {
			return false
		}
	}
	return w.person.content() && len(w.parked) == 0
}

// standing says in a few words where everything stands.
func (w *world) standing() string {
	var b strings.Builder
	for _, id := range w.st.Runs() {
		s := w.state[id]
		fmt.Fprintf(&b, "run %s %s #%d; ", id, s.Status, s.Sequence)
	}
	for _, role := range events.Services() {
		fmt.Fprintf(&b, "%s has %d; ", role, w.st.Pending(role))
	}
	fmt.Fprintf(&b, "%d operations wait, timers %v", len(w.parked), w.st.TimersSet())
	return b.String()
}

// makePeace ends all trouble: what is dead starts again, what stands still goes on.
func (w *world) makePeace() {
	w.peace, w.peaceAt = true, w.clock.Now()
	w.overtaken = len(w.st.Log(kernel.Key(events.SessionAggregate, theSession)))
	w.st.Land()
	w.tale.line("peace", "the trouble ends")
	for _, p := range w.procs {
		p.stalled = false
		if !p.running() {
			p.start()
		}
	}
}

// shutdown ends every process, so that the play leaves nothing behind.
func (w *world) shutdown() {
	for _, p := range w.procs {
		p.crash(nil)
	}
	for range 100 {
		synctest.Wait()
		w.mu.Lock()
		rest := w.arrived
		w.arrived = nil
		w.mu.Unlock()
		rest = append(rest, w.parked...)
		w.parked = nil
		if len(rest) == 0 {
			break
		}
		for _, o := range rest {
			o.answer <- died
		}
	}
	if w.play.Scene.Follow != "" {
		w.wait(drainTime + 5*time.Second) // the dead give their workspaces back in vain
	}
	for _, p := range w.procs {
		p.wait()
	}
}
