//go:build slow

package faults

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// The agents of the load. Inputs differ by step, so that a call whose outcome is unknown is not asked for again.
const (
	lineScript = `
turns:
  - when: {turn: 1}
    calls:
      - {name: note_read, input: {what: "{{step}} {{turn}}", ms: 20}}
      - {name: note_once, input: {what: "{{step}} {{turn}}", ms: 150}}
  - when: {turn: 2}
    calls:
      - {name: note_idempotent, input: {what: "{{step}} {{turn}}", ms: 150}}
      - {name: note_reconcilable, input: {what: "{{step}} {{turn}}", ms: 150}}
  - when: {turn: 3}
    text: done
`
	fanScript = `
turns:
  - when: {turn: 1}
    calls:
      - {name: note_once, input: {what: "{{step}}", ms: 100}}
      - {name: note_idempotent, input: {what: "{{step}}", ms: 100}}
  - when: {turn: 2}
    text: done
`
	longScript = `
turns:
  - when: {turn: 1}
    calls:
      - {name: note_once, input: {what: "{{step}}", ms: 4000}}
      - {name: note_idempotent, input: {what: "{{step}}", ms: 4000}}
      - {name: note_reconcilable, input: {what: "{{step}}", ms: 4000}}
  - when: {turn: 2}
    text: done
`
	noteTools = "tools: [note_read, note_idempotent, note_reconcilable, note_once]\n"
	askGuard  = "guards:\n  - {id: careful, tool: note_once, action: ask, reason: a person decides}\n"
)

// writeAgents puts the agents and their scripts where the services look.
func writeAgents(f *fleet) {
	for name, script := range map[string]string{"line": lineScript, "fan": fanScript, "long": longScript, "asker": fanScript} {
		guards := ""
		if name == "asker" {
			guards = askGuard
		}
		f.write("agents/"+name+".prompt", "---\nname: "+name+"\nmodel: scripted/"+name+"\n"+noteTools+guards+"---\nWork.\n")
		f.write("scripts/"+name+".yaml", script)
	}
}

// kinds of runs.
var kinds = map[string]func() events.Task{
	"line": func() events.Task { return events.Task{Agent: "line", Plan: chain("a", "b")} },
	"fan": func() events.Task {
		p := chain("root")
		for _, id := range []string{"w1", "w2", "w3"} {
			p.Steps = append(p.Steps, events.TaskStep{ID: id, Description: id, Needs: []string{"root"}})
		}
		p.Steps = append(p.Steps, events.TaskStep{ID: "join", Description: "join", Needs: []string{"w1", "w2", "w3"}})
		return events.Task{Agent: "fan", Plan: p}
	},
	"long": func() events.Task { return events.Task{Agent: "long"} },
	"ask":  func() events.Task { return events.Task{Agent: "asker"} },
	"step": func() events.Task {
		p := chain("a")
		p.Steps[0].Critical = true
		return events.Task{Agent: "fan", Plan: p}
	},
	"parked": func() events.Task {
		p := chain("a", "b")
		p.Steps[1].Critical = true
		return events.Task{Agent: "fan", Plan: p}
	},
}

// chain is a plan of steps one after the other.
func chain(ids ...string) *events.TaskPlan {
	p := &events.TaskPlan{}
	for i, id := range ids {
		st := events.TaskStep{ID: id, Description: id}
		if i > 0 {
			st.Needs = []string{ids[i-1]}
		}
		p.Steps = append(p.Steps, st)
	}
	return p
}

// task is what the load knows of one run.
type task struct {
	id, kind string
	sent     time.Time
	// acked says that the station took it; ended is when the client saw its end, with the state it saw.
	acked bool
	ended time.Time
	state run.State
}

// load is the users of a station and what they were told.
type load struct {
	t       *testing.T
	clients []*client.Client
	chance  *rand.Rand
	// stop ends the making of new runs, quit the following of those that are.
	stop, quit  context.CancelFunc
	making      context.Context
	following   context.Context
	workers     sync.WaitGroup
	began       time.Time
	answerParks chan struct{}

	mu sync.Mutex
	// All below is guarded by mu.
	tasks    []*task
	received map[string]map[uint64][32]byte
	answers  []answer
	troubles map[string]int
}

// users connects a load to a fleet.
func users(ctx context.Context, t *testing.T, f *fleet, seed uint64) *load {
	t.Helper()
	l := &load{t: t, chance: rand.New(rand.NewPCG(seed, 2)), received: map[string]map[uint64][32]byte{}, began: time.Now(),
		answerParks: make(chan struct{}), troubles: map[string]int{}}
	l.making, l.stop = context.WithCancel(ctx)
	l.following, l.quit = context.WithCancel(ctx)
	for i := range 2 {
		st := f.connect(ctx, fmt.Sprintf("client.%d", i+1), i)
		c, err := operator.On(st.conn, stationName)
		if err != nil {
			t.Fatal(err)
		}
		l.clients = append(l.clients, c)
		stop, err := st.SubscribeRepublished(l.receive)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	t.Cleanup(func() { l.stop(); l.quit(); l.workers.Wait() })
	return l
}

// seat is a station as one part of a fleet sees it.
type seat struct {
	*jet.Station
	conn *jet.Conn
}

// connect makes a connection of a part that has wires of its own.
func (f *fleet) connect(ctx context.Context, part string, first int) seat {
	f.t.Helper()
	conn, err := jet.Connect(ctx, jet.Config{URL: f.url(part, first), Name: part})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(conn.Close)
	st, err := conn.Station(stationName)
	if err != nil {
		f.t.Fatal(err)
	}
	return seat{st, conn}
}

// hear notes an event that the station said was stored.
func (l *load) receive(runID string, r kernel.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.received[runID] == nil {
		l.received[runID] = map[uint64][32]byte{}
	}
	l.received[runID][r.Seq] = sha256.Sum256(r.Bytes)
}

// keep has width runs of a kind under way until stop.
func (l *load) keep(kind string, width int) {
	for w := range width {
		seed := l.chance.Uint64()
		l.workers.Go(func() {
			chance := rand.New(rand.NewPCG(seed, 3))
			for n := 0; l.making.Err() == nil; n++ {
				l.one(kind, fmt.Sprintf("%s-%d-%d", kind, w, n), chance)
				pause(l.making, time.Duration(chance.Int64N(int64(breath))))
			}
		})
	}
}

// breath is the longest that a user waits before the next task.
const breath = 1200 * time.Millisecond

// one sends a task and follows its run to its end.
func (l *load) one(kind, id string, chance *rand.Rand) {
	k := kinds[kind]()
	k.ID, k.Task, k.Session = id, "work", id
	tk := &task{id: id, kind: kind, sent: time.Now()}
	l.mu.Lock()
	l.tasks = append(l.tasks, tk)
	l.mu.Unlock()
	c := l.clients[chance.IntN(len(l.clients))]
	for {
		ctx, cancel := context.WithTimeout(l.following, answerWait)
		_, err := c.Start(ctx, k)
		cancel()
		if err == nil {
			break
		}
		if _, stored := errors.AsType[*client.SilentError](err); stored {
			l.mu.Lock()
			tk.acked = true
			l.mu.Unlock()
			continue // given again, it starts nothing new
		}
		l.trouble(err) // a task that was refused, because the station is full, is given again
		if pause(l.following, 200*time.Millisecond); l.following.Err() != nil {
			return
		}
	}
	l.mu.Lock()
	tk.acked = true
	l.mu.Unlock()
	l.follow(c, tk, chance)
}

// follow watches a run until it has ended, and does what a person would where one is asked for.
func (l *load) follow(c *client.Client, tk *task, chance *rand.Rand) {
	answered := map[string]bool{}
	for l.following.Err() == nil {
		for item, err := range c.Watch(l.following, tk.id, 0) {
			if err != nil {
				l.trouble(err)
				break
			}
			s := item.State
			l.mu.Lock()
			tk.state = s
			if s.Status.Ended() {
				tk.ended = time.Now()
			}
			l.mu.Unlock()
			switch waiting := s.Waiting(); {
			case s.Status.Ended():
				return
			case len(waiting) > 0 && !answered[waiting[0].ID]:
				answered[waiting[0].ID] = true
				l.decide(c, tk, waiting[0].ID, len(answered) == 1, chance)
			case s.Status == events.Paused && !answered[fmt.Sprint(s.Sequence)]:
				answered[fmt.Sprint(s.Sequence)] = true
				l.resume(c, tk.id)
			}
		}
		pause(l.following, 200*time.Millisecond)
	}
}

// trouble counts what a client was told, by the words of its innermost cause.
func (l *load) trouble(err error) {
	if l.following.Err() != nil {
		return
	}
	words := ""
	if refused, ok := errors.AsType[*client.RefusedError](err); ok {
		words = "refused " + refused.Code
	} else {
		for cause := err; cause != nil; cause = errors.Unwrap(cause) {
			words = cause.Error()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.troubles[words]++
}

// answerWait is how long a client waits for what comes of an answer.
const answerWait = 20 * time.Second

func (l *load) resume(c *client.Client, runID string) {
	for l.following.Err() == nil {
		ctx, cancel := context.WithTimeout(l.following, answerWait)
		_, err := c.Control(ctx, runID, events.Control{Action: "resume"})
		cancel()
		refused, ok := errors.AsType[*client.RefusedError](err)
		if err == nil || ok && refused.Code == "bad_move" {
			return
		}
		l.trouble(err)
		pause(l.following, 200*time.Millisecond)
	}
}

// decide answers a gate as people do: one of them, two that agree, two that do not, or late. The first gate of a run is
// answered in one of these ways, those after it with yes; a parked run is answered at the end.
func (l *load) decide(c *client.Client, tk *task, gate string, first bool, chance *rand.Rand) {
	decisions := []string{"approve"}
	switch {
	case tk.kind == "parked":
		select {
		case <-l.answerParks:
		case <-l.following.Done():
			return
		}
	case first:
		switch chance.IntN(4) {
		case 0:
			decisions = []string{"approve", "reject"}
		case 1:
			decisions = []string{"approve", "approve", "reject"}
		case 2:
			pause(l.following, 3*time.Second)
		}
	}
	var people sync.WaitGroup
	for i, d := range decisions {
		people.Go(func() { l.answer(l.clients[i%len(l.clients)], tk.id, gate, fmt.Sprintf("person%d", i), d) })
	}
	people.Wait()
}

// answer is one person's answer to a gate and what they were told, with the times of both.
type answer struct {
	run, gate, by, decision string
	asked, told             time.Time
	// winner is "by status" of the gate as this person learned it, "" where they did not. silent says that the answer
	// was stored and nothing more was learned.
	winner string
	silent bool
}

// answer gives one person's answer. Who says yes and hears nothing says it again.
func (l *load) answer(c *client.Client, runID, gate, by, decision string) {
	for l.following.Err() == nil {
		a := answer{run: runID, gate: gate, by: by, decision: decision}
		err := l.say(c, &a)
		l.mu.Lock()
		l.answers = append(l.answers, a)
		l.mu.Unlock()
		if err == nil || decision == "reject" {
			return
		}
		l.trouble(err)
		pause(l.following, 500*time.Millisecond)
	}
}

func (l *load) say(c *client.Client, a *answer) error {
	ctx, cancel := context.WithTimeout(l.following, answerWait)
	defer cancel()
	say := c.Gates().Approve
	if a.decision == "reject" {
		say = c.Gates().Reject
	}
	a.asked = time.Now()
	defer func() { a.told = time.Now() }()
	s, err := say(ctx, client.Decision{Run: a.run, Gate: a.gate, By: a.by})
	_, a.silent = errors.AsType[*client.SilentError](err)
	if _, refused := errors.AsType[*client.RefusedError](err); refused {
		s, err = l.settled(ctx, c, a.run, a.gate)
	}
	if err == nil {
		a.winner = winner(s, a.gate)
	}
	return err
}

// settled reads a run until the gate has its answer: a refusal may come before the replica that is read has it.
func (l *load) settled(ctx context.Context, c *client.Client, runID, gate string) (run.State, error) {
	for {
		s, err := c.State(ctx, runID)
		if err == nil && winner(s, gate) != "" {
			return s, nil
		}
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
	}
}

// winner of a gate, "" while it waits.
func winner(s run.State, gate string) string {
	g := s.Gate(gate)
	if g == nil || g.Status == run.GatePending {
		return ""
	}
	return g.By + " " + string(g.Status)
}

// openRuns are those that were taken and have not ended, parked ones aside.
func (l *load) openRuns() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, tk := range l.tasks {
		if tk.acked && tk.ended.IsZero() && tk.kind != "parked" {
			ids = append(ids, tk.id)
		}
	}
	return ids
}
