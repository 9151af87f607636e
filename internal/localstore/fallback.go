package localstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Primary is the station whose log may go away. All fields but Notify are needed.
type Primary struct {
	Journal  kernel.Journal
	Inbox    kernel.Inbox
	Timers   kernel.Timers
	Blobs    kernel.Blobs
	Refusals kernel.Refusals
	// Connected is quick: false means that the primary cannot answer. May be nil.
	Connected func() bool
	// Answers returns nil where the primary takes requests at the moment. It should not take longer than a second.
	Answers func(ctx context.Context) error
	// Notify is called with every branch that begins or ends. It must be quick.
	Notify func(Notice)
}

// Notice is news about the branch of a run.
type Notice struct {
	Run string
	// Status the branch has now.
	Status Status
	// Events on it that are stored here, and those of them that are in the primary log.
	Events, Home int
	// Reason says why it began, or why it was refused.
	Reason string
}

// Fallback gives the ports of a station that goes on while its log is away. There may be no other writer of the
// station: what is decided here while the log cannot be asked would not be known to it. See docs/adr/0010.
//
// A run is on a branch from the first event that the log did not confirm. Its events are stored here, with positions
// from localSeq on, and delivered to the roles of this process. Before anything else is said or read of that run once
// the log answers, its branch is brought home: event by event, at the very place where it was forked. Where another
// event stands there the rest of the branch is refused, for good, and a dead letter tells.
type Fallback struct {
	local   *Station
	primary Primary
	// every is how often Run looks whether a branch can be brought home.
	every time.Duration

	mu sync.Mutex
	// lanes are the runs that somebody works on; guarded by mu.
	lanes map[string]*lane
	// away says that the primary did not answer when last asked; guarded by mu.
	away bool
	// open are the runs that may have an open branch; guarded by mu.
	open map[string]bool
	// objects is held while objects are brought home.
	objects sync.Mutex
}

// lane lets one at a time work on the branch of a run.
type lane struct {
	mu sync.Mutex
	// users is guarded by Fallback.mu.
	users int
}

// NewFallback puts a local station in front of a primary. Whoever uses it calls Settle before its roles start, and Run
// beside them.
func NewFallback(ctx context.Context, local *Station, p Primary) (*Fallback, error) {
	if local == nil || p.Journal == nil || p.Inbox == nil || p.Timers == nil || p.Blobs == nil || p.Refusals == nil ||
		p.Answers == nil {
		return nil, errors.New("a fallback needs a local station, and a journal, an inbox, timers, blobs, refusals and a sign of life of the primary")
	}
	f := &Fallback{local: local, primary: p, every: 250 * time.Millisecond, lanes: map[string]*lane{},
		open: map[string]bool{}}
	left, err := local.Branches(ctx, BranchOpen)
	for _, b := range left {
		f.open[b.Run] = true
	}
	return f, err
}

func (f *Fallback) setOpen(run string, open bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.open, run); open {
		f.open[run] = true
	}
}

// lock keeps everybody else from a run until the function returned is called.
func (f *Fallback) lock(run string) (unlock func()) {
	f.mu.Lock()
	l := f.lanes[run]
	if l == nil {
		l = &lane{}
		f.lanes[run] = l
	}
	l.users++
	f.mu.Unlock()
	l.mu.Lock()
	return func() {
		l.mu.Unlock()
		f.mu.Lock()
		defer f.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(f.lanes, run)
		}
	}
}

// answerWait is how long a sign of life is waited for.
const answerWait = time.Second

// reach asks the primary for a sign of life, also where ctx has ended: what was done is kept in any case.
func (f *Fallback) reach(ctx context.Context) error {
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWait)
	defer cancel()
	err := f.primary.Answers(ask)
	f.mu.Lock()
	f.away = err != nil
	f.mu.Unlock()
	return err
}

// primaryAway reports whether the primary was away when last asked, and still is.
func (f *Fallback) primaryAway(ctx context.Context) error {
	f.mu.Lock()
	away := f.away
	f.mu.Unlock()
	if !away && (f.primary.Connected == nil || f.primary.Connected()) {
		return nil
	}
	return f.reach(ctx)
}

// Append implements kernel.Journal.
func (f *Fallback) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if ack, no := refused(ctx, events.RunAggregate, e); no {
		return ack
	}
	e.Aggregate = events.RunAggregate
	defer f.lock(e.ID)()
	b, err := f.current(ctx, e.ID)
	if err != nil {
		return kernel.Ack{Outcome: kernel.Unknown, Err: err}
	}
	if b != nil {
		return f.extend(e, b)
	}
	head, err := f.home(ctx, e.Head)
	if err != nil {
		return outcome(err)
	}
	e.Head = head
	why := f.primaryAway(ctx)
	if why == nil {
		ack := f.primary.Journal.Append(ctx, e)
		if ack.Outcome != kernel.Unknown {
			return ack
		}
		if why = f.reach(ctx); why == nil {
			return ack
		}
	}
	return f.fork(e, why)
}

// errAway means that the events asked for are in a log that cannot be reached.
var errAway = errors.New("the station's log is away: what is asked of it waits until it is back")

// current returns the branch of a run if it has one that cannot be brought home at the moment, else nil.
func (f *Fallback) current(ctx context.Context, run string) (*branch, error) {
	f.mu.Lock()
	open := f.open[run]
	f.mu.Unlock()
	if !open {
		return nil, nil
	}
	b, err := f.local.openBranch(ctx, run)
	if err != nil || b == nil {
		return nil, err
	}
	if f.reach(ctx) != nil {
		return b, nil
	}
	if err = f.settle(ctx, b); err == nil {
		return nil, nil
	}
	if f.reach(ctx) != nil {
		return b, nil
	}
	return nil, err // the primary is there: nothing may be said beside it
}

// localSeq is the first of the positions that the local store gives while the station's log is away. They are greater
// than all positions of the log, say nothing about the order of both, and mean nothing to another process.
const localSeq uint64 = 1 << 62

func isLocal(seq uint64) bool { return seq >= localSeq }

// Position implements kernel.Renumberer: events on a branch that can be brought home have the positions of the log from
// then on, those that were refused have none. What is known of a run from its branch is so compared with the log before
// it is used.
func (f *Fallback) Position(ctx context.Context, run string, given uint64) (now uint64, ok bool, err error) {
	if !isLocal(given) {
		return given, true, nil
	}
	defer f.lock(run)()
	b, err := f.current(ctx, run)
	if err != nil || b != nil {
		return given, true, err
	}
	now, err = f.home(ctx, given)
	if _, refused := errors.AsType[errConflict](err); refused {
		return 0, false, nil
	}
	return now, true, err
}

// home turns the position of an event into that in the primary log. It is an errConflict where the event never came
// there.
func (f *Fallback) home(ctx context.Context, seq uint64) (uint64, error) {
	if !isLocal(seq) {
		return seq, nil
	}
	var at uint64
	err := f.local.store.view(ctx, func(t *tx) (err error) {
		at, err = homeAt(t, seq-localSeq)
		return err
	})
	if err != nil {
		return 0, err
	}
	if at == 0 {
		return 0, errConflict{}
	}
	return at, nil
}

// Read implements kernel.Journal. While a run is on a branch only the events of that branch can be read.
func (f *Fallback) Read(ctx context.Context, run string, after uint64) ([]kernel.Record, bool, error) {
	defer f.lock(run)()
	b, err := f.current(ctx, run)
	if err != nil {
		return nil, false, err
	}
	if b != nil {
		if after != b.fork && !isLocal(after) {
			return nil, false, fmt.Errorf("read run %s after %d: %w", run, after, errAway)
		}
		return f.local.readBranch(ctx, b, after)
	}
	if isLocal(after) {
		if after, err = f.comeDown(ctx, run, after); err != nil {
			return nil, false, err
		}
	}
	if err := f.primaryAway(ctx); err != nil {
		return nil, false, fmt.Errorf("read run %s: %w: %w", run, errAway, err)
	}
	evs, more, err := f.primary.Journal.Read(ctx, run, after)
	if err != nil {
		_ = f.reach(ctx) // whoever asks next need not wait as long
	}
	return evs, more, err
}

// comeDown finds where a reader goes on that knows a run up to a local position. For one that read refused events that
// is where they were forked off: what it reads there does not fit, so it reads the whole run again.
func (f *Fallback) comeDown(ctx context.Context, run string, after uint64) (uint64, error) {
	at, err := f.home(ctx, after)
	if _, refused := errors.AsType[errConflict](err); !refused {
		return at, err
	}
	row, ok, err := f.local.branchOf(ctx, after-localSeq, run)
	if err == nil && !ok {
		return after, nil // of no run here: nothing is behind it
	}
	return row.Fork, err
}

// branchOf returns the branch of an event of a run, of any where run is empty. ok is false where there is none.
func (s *Station) branchOf(ctx context.Context, seq uint64, run string) (row branchRow, ok bool, err error) {
	err = s.store.view(ctx, func(t *tx) error {
		_, id, there, err := eventAt(t, seq)
		if err != nil || !there || id == 0 {
			return err
		}
		row, err = branchAt(t, id)
		ok = run == "" || row.Run == run
		return err
	})
	return row, ok, err
}

// Last implements kernel.Journal.
func (f *Fallback) Last(ctx context.Context, run string) (kernel.Record, bool, error) {
	defer f.lock(run)()
	b, err := f.current(ctx, run)
	if err != nil {
		return kernel.Record{}, false, err
	}
	if b != nil {
		return f.local.lastOf(ctx, b)
	}
	if err := f.primaryAway(ctx); err != nil {
		return kernel.Record{}, false, fmt.Errorf("last event of run %s: %w: %w", run, errAway, err)
	}
	return f.primary.Journal.Last(ctx, run)
}

// Listen implements kernel.Inbox: a role receives from the primary and, while runs are on branches, what is said there.
// Each of them has its own workers.
func (f *Fallback) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context,
	kernel.Message)) error {
	both, stop := context.WithCancel(ctx)
	defer stop()
	local := make(chan error, 1) // it never waits for us
	go func() {
		local <- f.local.Inbox().Listen(both, role, workers, func(ctx context.Context, m kernel.Message) {
			if f.void(ctx, m.Seq()) {
				_ = m.Ack(ctx) // in memory; it never fails
				return
			}
			receive(ctx, m)
		})
	}()
	err := f.primary.Inbox.Listen(ctx, role, workers, receive)
	stop()
	return errors.Join(err, <-local)
}

// void reports whether a delivery is of a branch that has ended: it came home, where it is delivered by the primary, or
// it was refused.
func (f *Fallback) void(ctx context.Context, seq uint64) bool {
	if !isLocal(seq) {
		return false // a timer
	}
	row, ok, err := f.local.branchOf(ctx, seq-localSeq, "")
	return err == nil && (!ok || row.Status != BranchOpen)
}

// Set implements kernel.Timers. A timer that was set while the primary was away fires here.
func (f *Fallback) Set(ctx context.Context, run, name string, at time.Time, after uint64) error {
	if f.primaryAway(ctx) == nil {
		err := f.primary.Timers.Set(ctx, run, name, at, after)
		if err == nil || f.reach(ctx) == nil {
			return err
		}
	}
	return f.local.Timers().Set(context.WithoutCancel(ctx), run, name, at, after)
}

// objects are the blobs of a Fallback.
type objects struct{ f *Fallback }

// Blobs returns the object store: what is put while the primary is away is kept here until it is brought home.
func (f *Fallback) Blobs() kernel.Blobs { return objects{f} }

// Put implements kernel.Blobs.
func (o objects) Put(ctx context.Context, kind string, data []byte) (events.Ref, error) {
	if o.f.primaryAway(ctx) == nil {
		ref, err := o.f.primary.Blobs.Put(ctx, kind, data)
		if err == nil || o.f.reach(ctx) == nil {
			return ref, err
		}
	}
	return o.f.local.Blobs().Put(context.WithoutCancel(ctx), kind, data)
}

// Get implements kernel.Blobs.
func (o objects) Get(ctx context.Context, ref events.Ref) ([]byte, error) {
	b, err := o.f.local.Blobs().Get(ctx, ref)
	if err == nil {
		return b, nil
	}
	if why := o.f.primaryAway(ctx); why != nil {
		return nil, fmt.Errorf("object %s: %w: %w", ref.SHA256, errAway, why)
	}
	return o.f.primary.Blobs.Get(ctx, ref)
}

var (
	_ kernel.Renumberer = (*Fallback)(nil)
	_ kernel.Inbox      = (*Fallback)(nil)
	_ kernel.Timers     = (*Fallback)(nil)
	_ kernel.Blobs      = objects{}
)
