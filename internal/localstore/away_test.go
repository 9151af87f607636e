package localstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

var errGone = errors.New("no servers available")

// home is a primary in memory that goes away when told to.
type home struct {
	*mem.Station
	mu sync.Mutex
	// primaryAway: nothing reaches it. vanish: it goes away with the append after so many, once that is stored; -1 is
	// never.
	gone   bool
	vanish int
}

func (h *home) away() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone
}

func (h *home) set(gone bool, vanish int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone, h.vanish = gone, vanish
}

func (h *home) answers(context.Context) error {
	if h.away() {
		return errGone
	}
	return nil
}

// last reports whether this append is the last one that arrives.
func (h *home) last() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.vanish < 0 {
		return false
	}
	h.vanish--
	h.gone = h.vanish < 0
	return h.gone
}

// journal is the log of a home.
type journal struct{ h *home }

func (j journal) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if j.h.away() {
		return kernel.Ack{Outcome: kernel.Unknown, Err: errGone}
	}
	lost := j.h.last()
	ack := j.h.Journal().Append(ctx, e)
	if lost {
		return kernel.Ack{Outcome: kernel.Unknown, Err: errGone}
	}
	return ack
}

func (j journal) Read(ctx context.Context, run string, after uint64) ([]kernel.Record, bool, error) {
	if j.h.away() {
		return nil, false, errGone
	}
	return j.h.Journal().Read(ctx, run, after)
}

func (j journal) Last(ctx context.Context, run string) (kernel.Record, bool, error) {
	if j.h.away() {
		return kernel.Record{}, false, errGone
	}
	return j.h.Journal().Last(ctx, run)
}

// blobs and timers of a home.
type blobs struct{ h *home }

func (b blobs) Put(ctx context.Context, kind string, data []byte) (events.Ref, error) {
	if b.h.away() {
		return events.Ref{}, errGone
	}
	return b.h.Blobs().Put(ctx, kind, data)
}

func (b blobs) Get(ctx context.Context, ref events.Ref) ([]byte, error) {
	if b.h.away() {
		return nil, errGone
	}
	return b.h.Blobs().Get(ctx, ref)
}

type timers struct{ h *home }

func (t timers) Set(ctx context.Context, run, name string, at time.Time, after uint64) error {
	if t.h.away() {
		return errGone
	}
	return t.h.Timers().Set(ctx, run, name, at, after)
}

// fallen is a station with a fallback.
type fallen struct {
	t interface {
		Helper()
		Fatalf(string, ...any)
	}
	home  *home
	path  string
	local *localstore.Station
	f     *localstore.Fallback
	pens  map[events.Service]*runlog.Ledger
	mu    sync.Mutex
	// notices so far, guarded by mu.
	notices []localstore.Notice
}

func newFallen(t *testing.T) *fallen {
	w := &fallen{t: t, home: newHome(t), path: filepath.Join(t.TempDir(), "fallback.bolt")}
	w.restart()
	t.Cleanup(func() { _ = w.local.Close() })
	return w
}

func newHome(t interface{ Fatal(...any) }) *home {
	st, err := mem.New("exam", mem.Config{AckWait: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return &home{Station: st, vanish: -1}
}

// restart is a new process on the same file: nothing of the old one is left in memory.
func (w *fallen) restart() {
	w.t.Helper()
	if w.local != nil {
		if err := w.local.Close(); err != nil {
			w.t.Fatalf("close: %v", err)
		}
	}
	var err error
	if w.local, err = localstore.Open(context.Background(), localstore.Config{Path: w.path, Station: "exam", AckWait: 300 * time.Millisecond}); err != nil {
		w.t.Fatalf("open: %v", err)
	}
	w.f, err = localstore.NewFallback(context.Background(), w.local, localstore.Primary{Journal: journal{w.home}, Inbox: w.home.Inbox(), Timers: timers{w.home},
		Blobs: blobs{w.home}, Refusals: w.home.Refusals(), Answers: w.home.answers, Notify: func(n localstore.Notice) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notices = append(w.notices, n)
		}})
	if err != nil {
		w.t.Fatalf("new fallback: %v", err)
	}
	w.pens = map[events.Service]*runlog.Ledger{}
	pages := runlog.NewPages(0)
	for _, role := range events.Services() {
		w.pens[role], err = runlog.NewLedger(runlog.LedgerConfig{Station: "exam", By: role, Journal: w.f, Pages: pages, Entropy: rand.Reader})
		if err != nil {
			w.t.Fatalf("new ledger: %v", err)
		}
	}
}

// say has the author of each payload say it. What decides twice says the same.
func (w *fallen) say(runID string, payloads ...events.Payload) {
	w.t.Helper()
	for _, p := range payloads {
		if err := w.try(runID, p); err != nil {
			w.t.Fatalf("say %s: %v", p.Kind(), err)
		}
	}
}

func (w *fallen) try(runID string, p events.Payload) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	word, _ := events.Lookup(p.Kind())
	_, err := w.pens[word.Author].Write(ctx, runID, func(run.State, time.Time) ([]events.Payload, error) { return []events.Payload{p}, nil })
	return err
}

func (w *fallen) ctx() context.Context { return context.Background() }

// state is what the roles know of a run.
func (w *fallen) state(runID string) run.State {
	w.t.Helper()
	s, _, err := w.pens[events.Planner].State(context.Background(), runID)
	if err != nil {
		w.t.Fatalf("state: %v", err)
	}
	return s
}

// settle brings home what is here.
func (w *fallen) settle() {
	w.t.Helper()
	if err := w.f.Settle(context.Background()); err != nil {
		w.t.Fatalf("settle: %v", err)
	}
}

// log returns the events that the primary has, having folded them.
func (w *fallen) log(runID string) (evs [][]byte, kinds []events.Kind) {
	w.t.Helper()
	for _, r := range w.home.Log(runID) {
		evs = append(evs, r.Bytes)
	}
	if _, err := run.Fold(run.State{}, evs...); err != nil {
		w.t.Fatalf("the log of the primary does not fold: %v", err)
	}
	return evs, kindsOf(w.t, evs)
}

func kindsOf(t interface {
	Helper()
	Fatalf(string, ...any)
}, evs [][]byte) (kinds []events.Kind) {
	t.Helper()
	for _, b := range evs {
		f, err := events.Decode(b)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		k, err := f.Kind()
		if err != nil {
			t.Fatalf("kind: %v", err)
		}
		kinds = append(kinds, k)
	}
	return kinds
}

// branches lists those of a status, and the events of all of them in order.
func (w *fallen) branches(status localstore.Status) (all []localstore.Branch, evs [][]byte) {
	w.t.Helper()
	all, err := w.local.Branches(context.Background(), status)
	if err != nil {
		w.t.Fatalf("branches: %v", err)
	}
	for _, b := range all {
		records, err := w.local.Evidence(context.Background(), b.ID)
		if err != nil {
			w.t.Fatalf("evidence: %v", err)
		}
		for _, r := range records {
			evs = append(evs, r.Bytes)
		}
	}
	return all, evs
}

// foreign is another writer of the primary, who knows nothing of our branch.
func (w *fallen) foreign(runID string, p events.Payload) {
	w.t.Helper()
	word, _ := events.Lookup(p.Kind())
	pen, err := runlog.NewLedger(runlog.LedgerConfig{Station: "exam", By: word.Author, Journal: w.home.Journal(), Entropy: rand.Reader})
	if err != nil {
		w.t.Fatalf("new ledger: %v", err)
	}
	if _, err := pen.Write(context.Background(), runID, func(run.State, time.Time) ([]events.Payload, error) { return []events.Payload{p}, nil }); err != nil {
		w.t.Fatalf("say %s elsewhere: %v", p.Kind(), err)
	}
}

func (w *fallen) seen() []localstore.Notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notices)
}
