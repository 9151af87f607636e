package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Times of a listener.
const (
	// pullExpiry is how long the server keeps a request for messages, pullHeartbeat how often it says so meanwhile.
	pullExpiry    = 10 * time.Second
	pullHeartbeat = time.Second
	// pullLost is the silence after which a request is taken for lost.
	pullLost = 3 * pullHeartbeat
	// pullRetry is the wait after the server refused a request.
	pullRetry = 250 * time.Millisecond
	// singlePulls is how many requests for one message each stand side by side at a consumer that is asked for single
	// messages, and singleExpiry how long the server keeps one. It says nothing about such a request until then, so
	// that this, too, bounds how long a lost one goes unnoticed.
	singlePulls  = 8
	singleExpiry = pullLost
	// handBack is how long a delivered message waits for a worker before another instance gets it.
	handBack = time.Second
	// quick is how recently a handler must have finished for messages to be asked for ahead of free workers.
	quick = 50 * time.Millisecond
	// beat is how often a listener looks at its clocks.
	beat = 200 * time.Millisecond
	// flushWait is how long a listener that ends waits for the server to take note.
	flushWait = 2 * time.Second
)

// inbox delivers what the roles of a station hear.
type inbox struct {
	c       *Conn
	station string
	// withoutLog leaves out the consumers of the log.
	withoutLog bool
	// always has the consumers that are received from also while the station is halted, and no other.
	always bool
}

var _ kernel.Inbox = inbox{}

// Listen implements kernel.Inbox. Messages are asked for as workers get free, so an instance that is busy leaves them
// to the others; what was delivered and cannot begin soon is handed back. After ctx ended, handlers may go on for
// the drain grace of the connection; then their context ends. A consumer that is missing, deleted or without a
// leader is waited for.
func (in inbox) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context,
	kernel.Message)) error {
	if workers <= 0 {
		return fmt.Errorf("listen as %s: %d workers, want at least 1", role, workers)
	}
	l := &listener{
		c: in.c, workers: workers, receive: receive,
		in:   make(chan *nats.Msg, 4*workers+1024), // more than is ever asked for, with room for words of the server
		done: make(chan struct{}, workers),         // one place per handler
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	l.work = work
	for _, p := range pullsOf(in.consumers(role)) {
		if err := l.subscribe(ctx, p); err != nil {
			l.unsubscribe()
			return fmt.Errorf("listen as %s: %w", role, err)
		}
	}
	l.run(ctx)
	l.drain(cancel)
	return nil
}

// consumers are those that a role is delivered from.
func (in inbox) consumers(role events.Service) []topology.Consumer {
	return slices.DeleteFunc(topology.Consumers(in.station, role), func(c topology.Consumer) bool {
		return c.Always != in.always || in.withoutLog && c.Stream == topology.Log(in.station)
	})
}

// listener is one call of Listen. Its fields belong to the goroutine of run.
type listener struct {
	c       *Conn
	workers int
	receive func(context.Context, kernel.Message)
	work    context.Context
	pulls   []*pull
	in      chan *nats.Msg
	done    chan struct{}

	busy    int
	waiting []waitingMessage
	// finished is when a handler last finished.
	finished time.Time
}

type waitingMessage struct {
	message
	since time.Time
}

// pull is what is asked of one consumer with answers to one inbox.
//
// A consumer of single messages has several pulls, each with a request for one message at a time. The account of the
// streams passes on the answer to a request, and takes an empty message for the end of the answer: what follows it on
// the same request is lost until its ack wait is over. Behind a request for one message nothing follows.
type pull struct {
	subject string
	inbox   string
	sub     *nats.Subscription
	// single says that it asks for one message at a time, place its number among the pulls of its consumer, from 0.
	single bool
	place  int
	// asked is how many messages the server still owes us, as far as we know.
	asked int
	// received is when the server last said anything, notBefore when it may be asked again, epoch the connection on
	// which it was asked.
	received, notBefore time.Time
	epoch               uint64
}

// pullsOf returns what to ask of some consumers.
func pullsOf(consumers []topology.Consumer) []*pull {
	var pulls []*pull
	for _, c := range consumers {
		n := 1
		if c.Single {
			n = singlePulls
		}
		for place := range n {
			pulls = append(pulls, &pull{subject: apiPrefix + "CONSUMER.MSG.NEXT." + c.Stream + "." + c.Name, single: c.Single,
				place: place})
		}
	}
	return pulls
}

// subscribe makes the inbox of a pull and adds it to those of the listener.
func (l *listener) subscribe(ctx context.Context, p *pull) (err error) {
	p.inbox = l.c.nc.NewInbox()
	if p.sub, err = l.c.nc.ChanSubscribe(p.inbox, l.in); err != nil {
		return err
	}
	l.pulls = append(l.pulls, p)
	if err := l.c.subscribed(ctx, p.inbox); errors.Is(err, ErrDenied) {
		return fmt.Errorf("%w: connect with the inbox prefix of the role", err)
	}
	return nil
}

func (l *listener) run(ctx context.Context) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	now := time.Now()
	for ctx.Err() == nil { // select takes any case that is ready, and nothing is begun after the end
		l.begin()
		l.ask(now)
		select {
		case <-ctx.Done():
			return
		case m := <-l.in:
			now = time.Now()
			l.take(m, now)
		case <-l.done:
			now = time.Now()
			l.busy--
			l.finished = now
		case now = <-tick.C:
			l.look(now)
		}
	}
}

// begin starts handlers while there are workers.
func (l *listener) begin() {
	for l.busy < l.workers && len(l.waiting) > 0 {
		m := l.waiting[0].message
		l.waiting[0] = waitingMessage{}
		l.waiting = l.waiting[1:]
		l.busy++
		go func() {
			defer func() { l.done <- struct{}{} }()
			l.receive(l.work, m)
		}()
	}
}

// ask tops up what is asked of each consumer to the number of free workers, and a little more while handlers are quick.
func (l *listener) ask(now time.Time) {
	room := l.workers - l.busy - len(l.waiting)
	if now.Sub(l.finished) < quick {
		room += l.workers / 4
	}
	if room <= 0 {
		return
	}
	for _, p := range l.pulls {
		want := p.request(room)
		if want.Batch <= 0 || now.Before(p.notBefore) {
			continue
		}
		body, _ := json.Marshal(want) // plain numbers
		if err := l.c.nc.PublishRequest(p.subject, p.inbox, body); err != nil {
			p.asked, p.notBefore = 0, now.Add(pullRetry)
			continue
		}
		if p.asked == 0 {
			p.received, p.epoch = now, l.c.connections()
		}
		p.asked += want.Batch
	}
}

// pullRequest asks a consumer for messages.
type pullRequest struct {
	Batch   int           `json:"batch"`
	Expires time.Duration `json:"expires"`
	// Heartbeat is none for a single message: it would be the one answer that is passed on.
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
}

// request returns what to ask for where there is room for so many messages more; nothing has a batch of 0.
func (p *pull) request(room int) pullRequest {
	switch {
	case p.single && (p.asked > 0 || p.place >= room), p.asked > room/2:
		return pullRequest{}
	case p.single:
		return pullRequest{Batch: 1, Expires: singleExpiry}
	}
	return pullRequest{Batch: room - p.asked, Expires: pullExpiry, Heartbeat: pullHeartbeat}
}

// lost is the silence after which the request is taken for lost.
func (p *pull) lost() time.Duration {
	if p.single {
		return singleExpiry + pullHeartbeat
	}
	return pullLost
}

// take sorts what came: a message, or a word of the server about a request.
func (l *listener) take(m *nats.Msg, now time.Time) {
	for _, p := range l.pulls {
		if p.sub != m.Sub {
			continue
		}
		p.received = now
		if status := m.Header.Get("Status"); status != "" && len(m.Data) == 0 && m.Reply == "" {
			p.status(m, status, now)
			return
		}
		p.asked = max(0, p.asked-1)
	}
	got, err := newMessage(l.c.nc, m)
	if err != nil {
		l.c.cfg.Log.Warn().Err(err).Str("subject", m.Subject).Msg("message dropped")
		return
	}
	l.waiting = append(l.waiting, waitingMessage{message: got, since: now})
}

// status takes note of a word of the server about a request.
func (p *pull) status(m *nats.Msg, status string, now time.Time) {
	if status == "100" { // a heartbeat
		return
	}
	if left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")); err == nil {
		p.asked = max(0, p.asked-left) // this request ran out; others may stand
		return
	}
	// No consumer, no leader, or not this one any more: nothing is owed.
	p.asked, p.notBefore = 0, now.Add(pullRetry)
}

// look hands back what waits too long and gives up requests that were lost.
func (l *listener) look(now time.Time) {
	for len(l.waiting) > 0 && now.Sub(l.waiting[0].since) > handBack {
		_ = l.waiting[0].Nak(0) // if it is lost, the ack wait does the same
		l.waiting[0] = waitingMessage{}
		l.waiting = l.waiting[1:]
	}
	for _, p := range l.pulls {
		if p.asked > 0 && (now.Sub(p.received) > p.lost() || p.epoch != l.c.connections()) {
			p.asked = 0
		}
	}
}

// drain takes no more, hands back what did not begin, and waits for the handlers.
func (l *listener) drain(cancel context.CancelFunc) {
	l.unsubscribe()
	// After the server has taken note of that, all it ever sent is here.
	_ = l.c.nc.FlushTimeout(flushWait)
	for {
		select {
		case m := <-l.in:
			l.take(m, time.Time{})
			continue
		default:
		}
		break
	}
	for _, m := range l.waiting {
		_ = m.Nak(0)
	}
	grace := time.AfterFunc(l.c.cfg.DrainGrace, cancel)
	defer grace.Stop()
	for ; l.busy > 0; l.busy-- {
		<-l.done
	}
	_ = l.c.nc.FlushTimeout(flushWait) // acks that are lost with the connection lead to another look
}

// unsubscribe lets the subscriptions go once what is on its way has come.
func (l *listener) unsubscribe() {
	for _, p := range l.pulls {
		_ = p.sub.Drain() // it fails only on a closed connection, where it is gone anyway
	}
}
