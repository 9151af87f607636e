package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// What a handler does with a delivery. "old" is the first delivery that was heard of the same message.
type reaction string

const (
	doAck     reaction = "ack"
	doNak     reaction = "nak"
	doNakLate reaction = "nak with a delay"
	doNothing reaction = "nothing"
	doWork    reaction = "work long, ack"
	doOldAck  reaction = "old ack"
	doOldNak  reaction = "old nak, ack"
	doOldWork reaction = "old working, ack"
)

// sent is one message and what its handlers do, delivery by delivery; the last acknowledges it.
type sent struct {
	subject, data, header string
	say                   func(ctx context.Context, s *side) error
	script                []reaction

	// Guarded by post.mu.
	received []hearing
	first    kernel.Message
	ended    chan struct{} // closed after the last of the script
}

// hearing is one delivery as a handler saw it.
type hearing struct {
	deliveries  uint64
	did         reaction
	began, done time.Time
	wrong       string
}

// script makes up what happens to a message.
func script(d *rand.Rand) []reaction {
	var all []reaction
	for range d.IntN(3) {
		all = append(all, []reaction{doNak, doNakLate, doNothing}[d.IntN(3)])
	}
	ends := []reaction{doAck, doAck, doWork}
	if len(all) > 0 {
		ends = append(ends, doOldAck, doOldNak, doOldWork)
	}
	return append(all, ends[d.IntN(len(ends))])
}

// mail makes up messages of all sorts, the same for each side.
func mail(station string, d *rand.Rand, n int) []*sent {
	var all []*sent
	for i := range n {
		id := fmt.Sprintf("m%d", i)
		m := &sent{script: script(d), ended: make(chan struct{})}
		ev := func(kind events.Kind) {
			m.subject, m.data = events.RunEventSubject(station, id, kind), "event "+id
			m.say = func(ctx context.Context, s *side) error {
				return stored(ctx, s.journal(), kernel.Entry{ID: id, Kind: kind, Bytes: []byte(m.data)})
			}
		}
		input := func(subject string) {
			m.subject, m.data, m.header = subject, "input "+id, "token "+id
			m.say = func(ctx context.Context, s *side) error {
				return s.publish(ctx, m.subject, []byte(m.data), map[string]string{"Inspan-Token": m.header})
			}
		}
		timer := func(name string) {
			m.subject = events.DueSubject(station, id, name)
			m.say = func(ctx context.Context, s *side) error {
				return s.timers.Set(ctx, id, name, time.Now().Add(-time.Second), 0)
			}
		}
		switch i % 8 {
		case 0:
			ev(events.CallAllowed)
		case 1:
			ev(events.StepReady)
		case 2:
			ev(events.CallFinished)
		case 3:
			input(events.TaskSubject(station))
		case 4:
			input(events.ControlSubject(station, id))
		case 5:
			input(events.GateSubject(station, id, "g") + ".anna")
		case 6:
			timer("run.x")
		case 7:
			timer("call.x")
		}
		all = append(all, m)
	}
	return all
}

// stored appends until the event is stored.
func stored(ctx context.Context, j kernel.Journal, e kernel.Entry) error {
	for {
		ack := j.Append(ctx, e)
		if ack.Outcome == kernel.Stored {
			return nil
		}
		if last, ok, err := j.Last(ctx, e.ID); err == nil && ok && string(last.Bytes) == string(e.Bytes) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", ack.Outcome, ack.Err)
		}
	}
}

// post is one episode of deliveries on one side.
type post struct {
	s  *side
	mu sync.Mutex
	// mail is by subject and data; what it points to is guarded by mu.
	mail  map[string]*sent
	stray []string
}

// hear is the handler of all roles.
func (p *post) receive(ctx context.Context, m kernel.Message) {
	began := time.Now()
	p.mu.Lock()
	to := p.mail[m.Subject()+" "+string(m.Data())]
	if to == nil {
		p.stray = append(p.stray, m.Subject())
		p.mu.Unlock()
		return
	}
	if to.first == nil {
		to.first = m
	}
	old, n := to.first, len(to.received)
	h := hearing{deliveries: m.Deliveries(), did: to.script[min(n, len(to.script)-1)], began: began}
	if m.Seq() != old.Seq() || !m.Time().Equal(old.Time()) || m.Header("Inspan-Token") != to.header {
		h.wrong = fmt.Sprintf("position %d, header %q; the first had %d, sent was %q", m.Seq(), m.Header("Inspan-Token"), old.Seq(), to.header)
	}
	to.received = append(to.received, h)
	p.mu.Unlock()
	p.react(ctx, h.did, m, old)
	p.mu.Lock()
	defer p.mu.Unlock()
	to.received[n].done = time.Now()
	if n == len(to.script)-1 {
		close(to.ended)
	}
}

func (p *post) react(ctx context.Context, r reaction, m, old kernel.Message) {
	wait := p.s.terms.ackWait
	work := func(m kernel.Message) {
		tick := time.NewTicker(wait / 5)
		defer tick.Stop()
		for end := time.Now().Add(2 * wait); time.Now().Before(end); <-tick.C {
			_ = m.Working()
		}
	}
	switch r {
	case doAck:
		_ = m.Ack(ctx)
	case doNak:
		_ = m.Nak(0)
	case doNakLate:
		_ = m.Nak(wait / 2)
	case doWork:
		work(m)
		_ = m.Ack(ctx)
	case doOldAck:
		_ = old.Ack(ctx)
	case doOldNak:
		_ = old.Nak(wait / 2) // no one has it back before the ack
		_ = m.Ack(ctx)
	case doOldWork:
		work(old)
		_ = m.Ack(ctx)
	case doNothing:
	}
}

// deliver sends all mail while two listeners of each role hear, and returns when each message has come to its end.
func deliver(t *testing.T, s *side, all []*sent, trouble func()) *post {
	t.Helper()
	p := &post{s: s, mail: map[string]*sent{}}
	for _, m := range all {
		p.mail[m.subject+" "+m.data] = m
	}
	ctx := within(t)
	listening, stop := context.WithCancel(ctx)
	var listeners sync.WaitGroup
	for range 2 {
		for _, role := range []events.Service{events.Planner, events.Gatekeeper, events.Executor, events.Toolrunner} {
			listeners.Go(func() {
				if err := s.inbox.Listen(listening, role, 16, p.receive); err != nil {
					t.Errorf("%s: listen: %v", s.name, err)
				}
			})
		}
	}
	defer listeners.Wait()
	defer stop()
	for i, m := range all {
		if trouble != nil && i == len(all)/2 {
			trouble()
		}
		for err := m.say(ctx, s); err != nil; err = m.say(ctx, s) {
			if ctx.Err() != nil || !s.replicated() {
				t.Fatalf("%s: say %s: %v", s.name, m.subject, err)
			}
		}
	}
	for _, m := range all {
		select {
		case <-m.ended:
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Fatalf("%s: %s was heard %d times only, its script is %q", s.name, m.subject, len(m.received), m.script)
		}
	}
	return p
}

// judge compares what was heard with the scripts.
func (p *post) judge(c *tally) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, subject := range p.stray {
		c.violate(p.s, "heard %s, which no one sent", subject)
	}
	odd := 0
	for _, m := range p.mail {
		odd += p.judgeOne(m, c)
		c.agreed(len(m.received))
	}
	if !p.s.replicated() && odd > len(p.mail)/4 {
		c.violate(p.s, "%d deliveries of %d messages are not as their scripts have it: more than a busy machine explains", odd, len(p.mail))
	}
}

// judgeOne returns how many deliveries needed a reason.
func (p *post) judgeOne(m *sent, c *tally) (odd int) {
	var before uint64
	for i, h := range m.received {
		c.saw(p.s, "heard")
		tell := fmt.Sprintf("%s: delivery %d, after %d; script %q", m.subject, h.deliveries, before, m.script)
		switch {
		case h.wrong != "":
			c.violate(p.s, "%s: %s", tell, h.wrong)
		case h.deliveries <= before:
			c.violate(p.s, "%s: deliveries do not grow", tell)
		case h.deliveries > before+1:
			odd++
			c.allow(p.s, unheard, "%s", tell)
		}
		before = h.deliveries
		if i == 0 {
			continue
		}
		last := m.received[i-1]
		switch {
		case i >= len(m.script):
			odd++
			c.allow(p.s, receivedAgain, "%s", tell)
		case p.wait(last.did) > 0 && h.began.Sub(last.began) < p.wait(last.did)*9/10:
			odd++
			c.allow(p.s, earlyAgain, "%s: %s after %q", tell, h.began.Sub(last.began), last.did)
		}
	}
	return odd
}

// wait is how long a message stays away after a reaction.
func (p *post) wait(r reaction) time.Duration {
	switch r {
	case doNothing:
		return p.s.terms.ackWait
	case doNakLate:
		return p.s.terms.ackWait / 2
	}
	return 0
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	c := newTally()
	seed := chance(t, 8).Uint64()
	atOnce(t, map[string]func(t *testing.T, s *side){
		"SAFE-4 DEPL-2 EVT-15 messages come, come again and stay away as on one server": func(t *testing.T, s *side) {
			deliver(t, s, mail(s.station, rand.New(rand.NewPCG(seed, 8)), 64), nil).judge(c)
		},
		"SAFE-4 DEPL-2 a firing that no one acknowledged is replaced by the next of its name": firingsReplaced,
	})
	c.tell(t)
}

// atOnce does each part on the model and on one server, all at the same time: they wait more than they work.
func atOnce(t *testing.T, parts map[string]func(t *testing.T, s *side)) {
	t.Helper()
	var all sync.WaitGroup
	for name, part := range parts {
		for _, s := range both(t) {
			all.Go(func() { t.Run(name+", "+s.name, func(t *testing.T) { part(t, s) }) })
		}
	}
	all.Wait()
}

// both returns the model and one server.
func both(t *testing.T) []*side {
	t.Helper()
	model, _ := onModel(t, quick)
	return []*side{model, onServer(t, quick)}
}

func firingsReplaced(t *testing.T, s *side) {
	ctx := within(t)
	set := func(run string) {
		t.Helper()
		if err := s.timers.Set(ctx, run, "run.x", time.Now().Add(-time.Second), 0); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		set("unheard")
	}
	type received struct {
		what string
		m    kernel.Message
	}
	in := make(chan received, 64) // more than comes
	listening, stop := context.WithCancel(ctx)
	var listener sync.WaitGroup
	listener.Go(func() {
		_ = s.inbox.Listen(listening, events.Planner, 4, func(_ context.Context, m kernel.Message) {
			run, _, _, _ := events.ParseDue(m.Subject())
			in <- received{fmt.Sprintf("%s %d", run, m.Deliveries()), m}
		})
	})
	defer listener.Wait()
	defer stop()
	var all []string
	receive := func() received {
		t.Helper()
		select {
		case h := <-in:
			all = append(all, h.what)
			return h
		case <-ctx.Done():
			t.Fatalf("waited in vain, heard %q", all)
		}
		panic("not reached")
	}
	_ = receive().m.Ack(ctx)
	set("held")
	receive() // it stays out: no one acknowledges it
	set("held")
	_ = receive().m.Ack(ctx)
	// The first firing would come again after the ack wait, before this one.
	if err := s.timers.Set(ctx, "later", "run.x", time.Now().Add(2*s.terms.ackWait), 0); err != nil {
		t.Fatal(err)
	}
	_ = receive().m.Ack(ctx)
	if want := []string{"unheard 1", "held 1", "held 1", "later 1"}; !slices.Equal(all, want) {
		t.Errorf("heard %q, want %q", all, want)
	}
}
