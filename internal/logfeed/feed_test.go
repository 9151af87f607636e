package logfeed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/logfeed"
	"github.com/inspan/inspan/pkg/events"
)

// open sets a station up and opens a feed of it.
func open(t *testing.T, change func(*logfeed.Config)) (*logfeed.Feed, *jet.Station, *jet.Conn) {
	t.Helper()
	c := jettest.Connect(t, jettest.Server(t), jet.Config{Name: t.Name()})
	st := jettest.Station(t, c, "s1", jet.ApplyOptions{AckWait: ackWait})
	f := feed(t, st, c, change)
	return f, st, c
}

const ackWait = time.Second

// feed opens a feed that runs until the test is over.
func feed(t *testing.T, st *jet.Station, c *jet.Conn, change func(*logfeed.Config)) *logfeed.Feed {
	t.Helper()
	cfg := logfeed.Config{Station: "s1", Log: st, Positions: c.Consumers(), Inputs: st.InboxWithoutLog(), Grace: time.Minute,
		AckWait: ackWait, Every: 10 * time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	f, err := logfeed.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	if err := f.Open(ctx); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		f.Close(context.WithoutCancel(ctx))
	})
	return f
}

func TestInboxExam(t *testing.T) {
	t.Parallel()
	kerneltest.Inbox(t, func(t *testing.T) kerneltest.Post {
		f, s, _ := open(t, nil)
		return kerneltest.Post{Station: s.Name(), Journal: s.Journal(), Other: s.JournalFor(kerneltest.CounterAggregate),
			Inbox: f, Timers: s.Timers(), TimersFor: s.TimersFor, Publish: s.Publish, AckWait: ackWait}
	})
}

// deaf is a log that republishes nothing to its reader from some moment on, and whose reads fail now and then.
type deaf struct {
	logfeed.Log
	mu    sync.Mutex
	deaf  bool
	fails bool
	reads int
}

func (d *deaf) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

func (d *deaf) set(deaf bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf = deaf
}

func (d *deaf) WatchLog(receive func(jet.Logged)) (func(), error) {
	return d.Log.WatchLog(func(e jet.Logged) {
		d.mu.Lock()
		missed := d.deaf
		d.mu.Unlock()
		if !missed {
			receive(e)
		}
	})
}

func (d *deaf) ReadLog(ctx context.Context, after uint64) ([]jet.Logged, bool, error) {
	d.mu.Lock()
	d.reads++
	fails := d.fails && d.reads%3 == 0
	d.mu.Unlock()
	if fails {
		return nil, false, errors.New("no answer")
	}
	return d.Log.ReadLog(ctx, after)
}

// writer appends to a journal, each event to a run of its own.
type writer struct {
	t *testing.T
	j kernel.Journal
	n int
}

func (w *writer) append(k events.Kind) (seq uint64) {
	w.t.Helper()
	w.n++
	ack := w.j.Append(w.t.Context(), kernel.Entry{ID: fmt.Sprint("r", w.n), Kind: k, Bytes: []byte(`{}`)})
	if ack.Outcome != kernel.Stored {
		w.t.Fatalf("%s: %v", ack.Outcome, ack.Err)
	}
	return ack.Seq
}

// listen receives as a role until stop is called. Only what take permits is acknowledged.
func listen(t *testing.T, f *logfeed.Feed, role events.Service, take func(seq uint64) bool) (in <-chan uint64, stop func()) {
	t.Helper()
	got := make(chan uint64, 8192)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	done.Go(func() {
		if err := f.Listen(ctx, role, 1, func(ctx context.Context, m kernel.Message) {
			if !take(m.Seq()) {
				return // its ack wait begins
			}
			if err := m.Ack(ctx); err != nil {
				t.Error(err)
			}
			got <- m.Seq()
		}); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	t.Cleanup(stop)
	return got, stop
}

func want(t *testing.T, in <-chan uint64, seqs ...uint64) {
	t.Helper()
	for _, seq := range seqs {
		select {
		case got := <-in:
			if got != seq {
				t.Fatalf("received %d, want %d", got, seq)
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("waited in vain for %d", seq)
		}
	}
}

// position waits for the position of a role's consumer.
func position(t *testing.T, c *jet.Conn, role events.Service, at uint64) {
	t.Helper()
	for limit := time.Now().Add(5 * time.Minute); ; {
		got, err := c.Consumers().Position(t.Context(), "s1", role)
		if err == nil && got == at {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("the consumer of %s is at %d, want %d: %v", role, got, at, err)
		}
		if err := kernel.Sleep(t.Context(), 5*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

func all(uint64) bool { return true }

func TestFeed(t *testing.T) {
	t.Parallel()
	t.Run("EVT-15 what was not republished to the process is read from the log, in its place", func(t *testing.T) {
		t.Parallel()
		var d *deaf
		f, st, _ := open(t, func(cfg *logfeed.Config) {
			d = &deaf{Log: cfg.Log, fails: true}
			cfg.Log = d
		})
		w := &writer{t: t, j: st.Journal()}
		in, _ := listen(t, f, events.Persister, all)
		want(t, in, w.append(events.CallAllowed))
		d.set(true)
		missed := []uint64{w.append(events.CallAllowed), w.append(events.TurnFinished)}
		d.set(false) // the next one tells that there is a gap
		want(t, in, append(missed, w.append(events.CallAllowed))...)
		d.set(true) // no other one tells: the feed looks for itself
		want(t, in, w.append(events.CallAllowed))
	})
	t.Run("PERF-2 what is republished is not read", func(t *testing.T) {
		t.Parallel()
		var d *deaf
		f, st, _ := open(t, func(cfg *logfeed.Config) {
			d = &deaf{Log: cfg.Log}
			cfg.Log, cfg.Every = d, time.Hour
		})
		roles := len(events.Services())
		for limit := time.Now().Add(5 * time.Minute); d.count() < roles; { // each looks once what was there before
			if time.Now().After(limit) {
				t.Fatalf("%d reads, want one for each role", d.count())
			}
			if err := kernel.Sleep(t.Context(), time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		w := &writer{t: t, j: st.Journal()}
		in, _ := listen(t, f, events.Persister, all)
		for range 50 {
			want(t, in, w.append(events.CallAllowed))
		}
		if got := d.count(); got != roles {
			t.Errorf("the log was read %d times, want %d", got, roles)
		}
	})
	t.Run("DEPL-2 SAFE-13 the consumer of a role is set behind what it has acknowledged, and never beyond what it has not", func(t *testing.T) {
		t.Parallel()
		f, st, c := open(t, nil)
		w := &writer{t: t, j: st.Journal()}
		var mu sync.Mutex
		held := uint64(3)
		in, stop := listen(t, f, events.Toolrunner, func(seq uint64) bool {
			mu.Lock()
			defer mu.Unlock()
			return seq != held
		})
		one, two, three, four := w.append(events.CallAllowed), w.append(events.TurnFinished), w.append(events.CallAllowed), w.append(events.CallAllowed)
		want(t, in, one, four)
		position(t, c, events.Toolrunner, two) // three is open, two is of no concern to it
		position(t, c, events.Planner, four)
		mu.Lock()
		held = 0
		mu.Unlock()
		want(t, in, three) // its ack wait is over
		position(t, c, events.Toolrunner, four)
		stop()
		// A process without a feed goes on behind that.
		five := w.append(events.CallAllowed)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan uint64, 8)
		var done sync.WaitGroup
		done.Go(func() {
			_ = st.Inbox().Listen(ctx, events.Toolrunner, 1, func(ctx context.Context, m kernel.Message) { _ = m.Ack(ctx); got <- m.Seq() })
		})
		want(t, got, five)
		cancel()
		done.Wait()
	})
	t.Run("SAFE-13 a feed goes on where the consumers are", func(t *testing.T) {
		t.Parallel()
		c := jettest.Connect(t, jettest.Server(t), jet.Config{Name: t.Name()})
		st := jettest.Station(t, c, "s1", jet.ApplyOptions{AckWait: ackWait})
		w := &writer{t: t, j: st.Journal()}
		var seqs []uint64
		for range 300 { // more than a page
			seqs = append(seqs, w.append(events.CallAllowed))
		}
		if err := c.Consumers().SetPosition(t.Context(), "s1", events.Toolrunner, seqs[9]); err != nil {
			t.Fatal(err)
		}
		in, _ := listen(t, feed(t, st, c, nil), events.Toolrunner, all)
		want(t, in, seqs[10:]...)
		want(t, in, w.append(events.CallAllowed))
	})
	t.Run("DEPL-2 a role that acknowledges nothing is given no more than its limit, and holds up no other", func(t *testing.T) {
		t.Parallel()
		const most = 32
		f, st, _ := open(t, func(cfg *logfeed.Config) { cfg.AckWait, cfg.MostOpen = time.Hour, most })
		w := &writer{t: t, j: st.Journal()}
		busy, leave := make(chan struct{}), make(chan struct{})
		begun := sync.OnceFunc(func() { close(busy) })
		slow, _ := listen(t, f, events.Toolrunner, func(uint64) bool { begun(); <-leave; return true })
		quick, _ := listen(t, f, events.Persister, all)
		var seqs []uint64
		for range most + 300 {
			seqs = append(seqs, w.append(events.CallAllowed))
		}
		<-busy
		want(t, quick, seqs...)
		if n := f.Pending(events.Toolrunner); n > most+256 {
			t.Errorf("%d events in the hands of a role, the limit is %d and a page", n, most)
		}
		close(leave)
		want(t, slow, seqs...)
	})
}

// slow positions take a while to be set, as those of a log with many subjects do.
type slow struct {
	logfeed.Positions
	mu     sync.Mutex
	rounds int
	spent  time.Duration
}

func (s *slow) SetPosition(ctx context.Context, station string, role events.Service, position uint64) error {
	began := time.Now()
	if err := kernel.Sleep(ctx, 10*time.Millisecond); err != nil {
		return err
	}
	err := s.Positions.SetPosition(ctx, station, role, position)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds++
	s.spent += time.Since(began)
	return err
}

func (s *slow) sum() (int, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rounds, s.spent
}

func TestSlowPositions(t *testing.T) {
	t.Parallel()
	p := &slow{}
	began := time.Now()
	f, st, _ := open(t, func(c *logfeed.Config) {
		p.Positions, c.Positions, c.Every = c.Positions, p, time.Millisecond
	})
	in, stop := listen(t, f, events.Planner, func(uint64) bool { return true })
	defer stop()
	w := &writer{t: t, j: st.Journal()}
	const rounds = 4
	sets := 0
	for sets < rounds*len(events.Services()) {
		w.append(events.RunCreated)
		<-in
		// The more the log holds, the longer a set takes: a few events between two rounds are enough.
		if err := kernel.Sleep(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		sets, _ = p.sum()
	}
	t.Run("positions that take long to be set are set less often, and take a small part of the time", func(t *testing.T) {
		// The last round has not been waited for yet.
		if _, spent := p.sum(); spent > time.Since(began)/(logfeed.StoreShare/2)+spent/rounds*2 {
			t.Errorf("%v of %v in %d sets", spent, time.Since(began), sets)
		}
	})
}
