package kerneltest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Post is a station under examination.
type Post struct {
	Station string
	// Journal may say every kind of event of runs, Other every kind of event of CounterAggregate.
	Journal, Other kernel.Journal
	Inbox          kernel.Inbox
	// Timers are those of runs, TimersFor gives those of any aggregates.
	Timers    kernel.Timers
	TimersFor func(aggregate string) kernel.Timers
	// Publish says something as an outsider and returns once it is stored. header may be nil.
	Publish func(ctx context.Context, subject string, data []byte, header map[string]string) error
	// AckWait of the station; one to two seconds or less keep the exam short.
	AckWait time.Duration
}

// Inbox examines deliveries. open is called for each part and returns a station on which nothing was said yet.
func Inbox(t *testing.T, open func(t *testing.T) Post) {
	t.Helper()
	for _, part := range []struct {
		name string
		exam func(*testing.T, Post)
	}{
		{"DEPL-2 EVT-15 a message comes again until it is acknowledged, the same each time", comesAgain},
		{"DEPL-2 each role receives its kinds of events, in order, and no other", receivesItsKinds},
		{"DISP-1 DEPL-2 inputs reach the role that receives them, with headers", receivesInputs},
		{"DEPL-2 a message handed back comes after the delay asked for", nakDelay},
		{"DEPL-2 a message that is worked on does not come again", worksLong},
		{"SAFE-4 DEPL-2 a word about an earlier delivery counts for the message", oldWords},
		{"DEPL-2 two listeners share the work, each message is handled once", sharesWork},
		{"DEPL-2 never more handlers than workers, and as many where there is work", boundsWorkers},
		{"SAFE-13a a drain waits for the handlers, and what they acknowledged does not come again", drains},
		{"EVT-9 an event that is copied says how many events its run will have, one that is said now does not", saysWhole},
		{"SAFE-13 DEPL-2 what a listener left behind comes to the next", inherits},
		{"SAFE-6 DEPL-2 an event of another aggregate is not taken for an event of a run", receivesRunsAlone},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.exam(t, open(t))
		})
	}
}

// received is one delivery as a handler saw it.
type received struct {
	subject, data, header string
	seq, deliveries       uint64
	time                  time.Time
	msg                   kernel.Message
	at                    time.Time
	// done is closed by the exam when the handler may return.
	done chan struct{}
}

// listen starts a listener whose handlers report each delivery and return when the exam closes done. stop ends the
// listener and waits for it.
func listen(t *testing.T, p Post, role events.Service, workers int) (in <-chan received, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	deliveries := make(chan received, 4096) // more than any exam says
	ended := make(chan error, 1)
	go func() {
		ended <- p.Inbox.Listen(ctx, role, workers, func(_ context.Context, m kernel.Message) {
			h := received{subject: m.Subject(), data: string(m.Data()), header: m.Header("Inspan-Token"), seq: m.Seq(),
				deliveries: m.Deliveries(), time: m.Time(), msg: m, at: time.Now(), done: make(chan struct{})}
			deliveries <- h
			select {
			case <-h.done:
			case <-t.Context().Done(): // the exam failed before it came to this one
			}
		})
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := await(t, ended, "Listen as %s to return after its context ended", role); err != nil {
				t.Errorf("listen as %s: got %v, want nil after a drain", role, err)
			}
		})
	}
	t.Cleanup(stop)
	return deliveries, stop
}

// ack acknowledges and lets the handler return.
func (h received) ack(t *testing.T) {
	t.Helper()
	if err := h.msg.Ack(within(t)); err != nil {
		t.Errorf("ack of %s: %v", h.subject, err)
	}
	close(h.done)
}

// say appends one event to a run of its own and returns its position.
func say(t *testing.T, p Post, runID string, kind events.Kind) kernel.Record {
	t.Helper()
	b := (&chain{run: runID}).next(t, kind, 20)
	return kernel.Record{Seq: mustStore(t, p.Journal, kernel.Entry{ID: runID, Kind: kind, Bytes: b}), Bytes: b}
}

func comesAgain(t *testing.T, p Post) {
	id := unique("run")
	ev := say(t, p, id, events.CallAllowed)
	in, _ := listen(t, p, events.Toolrunner, 2)
	var first received
	for n := uint64(1); n <= 3; n++ {
		h := await(t, in, "delivery %d of an event no one acknowledged (ack wait %s)", n, p.AckWait)
		if n == 1 {
			first = h
		}
		if h.deliveries != n {
			t.Errorf("delivery %d says it is delivery %d", n, h.deliveries)
		}
		if want := events.RunEventSubject(p.Station, id, events.CallAllowed); h.subject != want {
			t.Errorf("got subject %q, want %q", h.subject, want)
		}
		if h.data != string(ev.Bytes) || h.seq != ev.Seq {
			t.Errorf("delivery %d: got position %d and %d bytes, want position %d and the bytes stored", n, h.seq, len(h.data),
				ev.Seq)
		}
		if h.time.IsZero() || !h.time.Equal(first.time) {
			t.Errorf("delivery %d: got time %s, want %s as on the first", n, h.time, first.time)
		}
		if n == 3 {
			h.ack(t)
			break
		}
		close(h.done)
	}
	other := unique("run")
	say(t, p, other, events.CallAllowed)
	h := await(t, in, "the next event")
	if h.subject != events.RunEventSubject(p.Station, other, events.CallAllowed) || h.deliveries != 1 {
		t.Errorf("after the ack: got delivery %d of %s, want the first of the next event", h.deliveries, h.subject)
	}
	h.ack(t)
}

func receivesItsKinds(t *testing.T, p Post) {
	for _, w := range events.Registry() {
		say(t, p, unique("run"), w.Kind)
	}
	// Each role receives one of these two: once it comes, all before it came.
	say(t, p, "last-"+unique("run"), events.RunResumed)
	say(t, p, "last-"+unique("run"), events.CallAllowed)
	var roles sync.WaitGroup
	for _, role := range events.Services() {
		receives := topology.SubscriptionsOf(role)
		var want []events.Kind
		for _, w := range append(slices.Clone(events.Registry()), events.Type{Kind: events.RunResumed},
			events.Type{Kind: events.CallAllowed}) {
			if receives.All || slices.Contains(receives.Events, w.Kind) {
				want = append(want, w.Kind)
			}
		}
		in, _ := listen(t, p, role, 1)
		roles.Go(func() {
			var got []events.Kind
			for len(got) < len(want) {
				select {
				case h := <-in:
					sub, _ := events.ParseRunSubject(h.subject)
					got = append(got, events.Kind(sub.Rest[1]+"."+sub.Rest[2]))
					h.ack(t)
				case <-time.After(patience):
					t.Errorf("%s received %q, want %q", role, got, want)
					return
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s received %q, want %q", role, got, want)
			}
		})
	}
	roles.Wait()
}

func receivesInputs(t *testing.T, p Post) {
	id := unique("run")
	for _, c := range []struct {
		subject string
		role    events.Service
	}{
		{events.TaskSubject(p.Station), events.Planner},
		{events.TaskSubject(p.Station) + ".project", events.Planner},
		{events.ControlSubject(p.Station, id), events.Planner},
		{events.GateSubject(p.Station, id, "g-1"), events.Gatekeeper},
		{events.GateSubject(p.Station, id, "g-1") + ".anna", events.Gatekeeper},
	} {
		data := unique("data")
		if err := p.Publish(within(t), c.subject, []byte(data), map[string]string{"Inspan-Token": "t-" + data}); err != nil {
			t.Fatalf("publish on %s: %v", c.subject, err)
		}
		in, stop := listen(t, p, c.role, 1)
		h := await(t, in, "%s to hear %s", c.role, c.subject)
		if h.subject != c.subject || h.data != data || h.header != "t-"+data || h.deliveries != 1 {
			t.Errorf("%s: got delivery %d of %q, data %q, header %q; want the first of %q, %q, %q", c.role, h.deliveries,
				h.subject, h.data, h.header, c.subject, data, "t-"+data)
		}
		h.ack(t)
		stop()
	}
}

func nakDelay(t *testing.T, p Post) {
	say(t, p, unique("run"), events.CallAllowed)
	in, _ := listen(t, p, events.Toolrunner, 2)
	for _, delay := range []time.Duration{0, p.AckWait / 2, 2 * p.AckWait} {
		h := await(t, in, "a delivery")
		asked := time.Now()
		if err := h.msg.Nak(delay); err != nil {
			t.Fatalf("nak: %v", err)
		}
		close(h.done)
		again := await(t, in, "the delivery after a nak of %s", delay)
		if took := again.at.Sub(asked); took < delay*9/10 {
			t.Errorf("nak of %s: came again after %s, too early", delay, took)
		}
		if again.deliveries != h.deliveries+1 {
			t.Errorf("nak of %s: got delivery %d, want %d", delay, again.deliveries, h.deliveries+1)
		}
		if err := again.msg.Nak(0); err != nil {
			t.Fatalf("nak: %v", err)
		}
		close(again.done)
	}
	await(t, in, "the last delivery").ack(t)
}

func worksLong(t *testing.T, p Post) {
	say(t, p, unique("run"), events.CallAllowed)
	in, _ := listen(t, p, events.Toolrunner, 4)
	h := await(t, in, "a delivery")
	tick := time.NewTicker(p.AckWait / 5)
	defer tick.Stop()
	begin, last := time.Now(), time.Now()
	for time.Since(begin) < 3*p.AckWait {
		select {
		case <-tick.C:
			if err := h.msg.Working(); err != nil {
				t.Fatalf("working: %v", err)
			}
			last = time.Now()
		case again := <-in:
			close(again.done)
			close(h.done)
			t.Fatalf("came again %s after a sign of life, the ack wait is %s", time.Since(last), p.AckWait)
		}
	}
	h.ack(t)
}

func sharesWork(t *testing.T, p Post) {
	const n = 200
	var want []string
	for range n {
		id := unique("run")
		say(t, p, id, events.CallAllowed)
		want = append(want, events.RunEventSubject(p.Station, id, events.CallAllowed))
	}
	a, _ := listen(t, p, events.Toolrunner, 4)
	b, _ := listen(t, p, events.Toolrunner, 4)
	// One of each is held until the other has one too: neither can take everything.
	first := await(t, a, "a message for the first listener")
	second := await(t, b, "a message for the second listener, while the first is at work")
	got := []string{first.subject, second.subject}
	first.ack(t)
	second.ack(t)
	for len(got) < n {
		select {
		case h := <-a:
			got = append(got, h.subject)
			h.ack(t)
		case h := <-b:
			got = append(got, h.subject)
			h.ack(t)
		case <-time.After(patience):
			t.Fatalf("%d of %d messages came", len(got), n)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d deliveries, want each of the %d messages once", len(got), n)
	}
}

func boundsWorkers(t *testing.T, p Post) {
	const workers, n = 5, 40
	for range n {
		say(t, p, unique("run"), events.CallAllowed)
	}
	in, _ := listen(t, p, events.Toolrunner, workers)
	var held []received
	for len(held) < workers {
		held = append(held, await(t, in, "%d handlers at the same time", workers))
	}
	for done := 0; done < n; done++ {
		select {
		case h := <-in:
			t.Fatalf("handler %d began while %d were at work: %s", len(held)+1, workers, h.subject)
		default:
		}
		h := held[0]
		held = held[1:]
		h.ack(t)
		if done+workers < n {
			held = append(held, await(t, in, "the next handler after one was done"))
		}
	}
}

func drains(t *testing.T, p Post) {
	say(t, p, unique("run"), events.CallAllowed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	under := make(chan kernel.Message)
	release := make(chan struct{})
	ended := make(chan error, 1)
	var finished bool // guarded by the order: written before the handler returns, read after Listen did
	go func() {
		ended <- p.Inbox.Listen(ctx, events.Toolrunner, 2, func(ctx context.Context, m kernel.Message) {
			under <- m
			<-release
			finished = m.Ack(context.WithoutCancel(ctx)) == nil
		})
	}()
	await(t, under, "a handler to begin")
	cancel()
	// What comes after the drain began belongs to the next listener.
	next := unique("run")
	say(t, p, next, events.CallAllowed)
	select {
	case err := <-ended:
		t.Fatalf("Listen returned (%v) while a handler was at work", err)
	case <-time.After(p.AckWait / 4):
	}
	close(release)
	if err := await(t, ended, "Listen to return once the handler is done"); err != nil {
		t.Errorf("listen: got %v, want nil after a drain", err)
	}
	if !finished {
		t.Error("the handler's ack got an error during the drain, want none")
	}
	in, _ := listen(t, p, events.Toolrunner, 1)
	h := await(t, in, "the message after the drain")
	if want := events.RunEventSubject(p.Station, next, events.CallAllowed); h.subject != want {
		t.Errorf("the next listener got %q, want %q: an acknowledged message came again", h.subject, want)
	}
	h.ack(t)
}

func inherits(t *testing.T, p Post) {
	var want []string
	for i := range 6 {
		id := fmt.Sprintf("%s-%d", unique("run"), i)
		say(t, p, id, events.CallAllowed)
		want = append(want, events.RunEventSubject(p.Station, id, events.CallAllowed))
	}
	in, stop := listen(t, p, events.Toolrunner, 2)
	for range 2 {
		close(await(t, in, "a delivery to the listener that leaves").done) // neither ack nor nak
	}
	left := make(chan struct{})
	var letGo sync.WaitGroup
	letGo.Go(func() { // those taken while stopping are let go too
		for {
			select {
			case h := <-in:
				close(h.done)
			case <-left:
				return
			}
		}
	})
	stop()
	close(left)
	letGo.Wait()
	next, _ := listen(t, p, events.Toolrunner, 2)
	got := map[string]bool{}
	for len(got) < len(want) {
		h := await(t, next, "%d messages left behind, %d came", len(want), len(got))
		got[h.subject] = true
		h.ack(t)
	}
	for _, subject := range want {
		if !got[subject] {
			t.Errorf("%s was lost with the listener that had it", subject)
		}
	}
}

// oldWords hands a message back by its first delivery while the second is handled, and keeps it away by the first.
func oldWords(t *testing.T, p Post) {
	say(t, p, unique("run"), events.CallAllowed)
	in, _ := listen(t, p, events.Toolrunner, 4)
	first := await(t, in, "a delivery")
	close(first.done)
	second := await(t, in, "the delivery after the ack wait")
	if err := first.msg.Nak(0); err != nil {
		t.Fatalf("nak: %v", err)
	}
	third := await(t, in, "the delivery after the nak of the first")
	if took := third.at.Sub(second.at); took > p.AckWait*9/10 {
		t.Errorf("it came %s later, by the ack wait and not by the nak", took)
	}
	close(second.done)
	tick := time.NewTicker(p.AckWait / 5)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < 2*p.AckWait; {
		select {
		case <-tick.C:
			if err := first.msg.Working(); err != nil {
				t.Fatalf("working: %v", err)
			}
		case again := <-in:
			close(again.done)
			t.Fatalf("it came again as delivery %d in spite of the signs of life of the first", again.deliveries)
		}
	}
	if err := first.msg.Ack(within(t)); err != nil {
		t.Fatalf("ack: %v", err)
	}
	if err := third.msg.Working(); err != nil {
		t.Errorf("working after the ack: got %v, no one is told that it is too late", err)
	}
	close(third.done)
}

func saysWhole(t *testing.T, p Post) {
	id := unique("run")
	c := &chain{run: id}
	seq := mustStore(t, p.Journal, kernel.Entry{ID: id, Kind: events.CallAllowed, Bytes: c.next(t, events.CallAllowed, 20),
		Whole: 12})
	mustStore(t, p.Journal, kernel.Entry{ID: id, Kind: events.CallAllowed, Head: seq, Bytes: c.next(t, events.CallAllowed,
		20)})
	in, _ := listen(t, p, events.Toolrunner, 2)
	for range 2 {
		h := await(t, in, "an event")
		want := ""
		if h.seq == seq {
			want = "12"
		}
		if got := h.msg.Header(kernel.WholeHeader); got != want {
			t.Errorf("the event at %d: got %q, want %q", h.seq, got, want)
		}
		h.ack(t)
	}
}

func receivesRunsAlone(t *testing.T, p Post) {
	id := unique("both")
	in, _ := listen(t, p, events.Toolrunner, 2)
	all, _ := listen(t, p, events.Persister, 2)
	b := (&chain{run: id}).next(t, events.CallAllowed, 20)
	// of a counter, stored as what both roles receive of runs
	mustStore(t, p.Other, kernel.Entry{ID: id, Kind: events.CallAllowed, Bytes: b})
	say(t, p, id, events.CallAllowed)
	for who, from := range map[events.Service]<-chan received{events.Toolrunner: in, events.Persister: all} {
		h := await(t, from, "the event of the run as %s", who)
		if want := events.RunEventSubject(p.Station, id, events.CallAllowed); h.subject != want {
			t.Errorf("%s received %q, want %q alone", who, h.subject, want)
		}
		h.ack(t)
	}
}
