package planner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/resolve"
	"github.com/inspan/inspan/services/planner/sessions"
	"github.com/inspan/inspan/services/planner/tasks"
)

// anybody knows one agent.
type anybody struct{}

func (anybody) Agent(_ context.Context, name string) (events.Agent, error) {
	return events.Agent{Name: name, Model: "scripted/x", Digest: strings.Repeat("0", 64)}, nil
}
func (anybody) Names(context.Context) ([]string, error) { return []string{"a"}, nil }
func (l letter) Subject() string                        { return l.subject }
func (l letter) Data() []byte                           { return []byte(l.body) }
func (l letter) Header(string) string                   { return "" }
func (l letter) Seq() uint64                            { return l.seq }
func (l letter) Time() time.Time                        { return time.Unix(1, 0) }
func (l letter) Deliveries() uint64                     { return 1 }
func (l letter) Ack(context.Context) error              { return nil }
func (l letter) Nak(time.Duration) error                { return nil }
func (l letter) Working() error                         { return nil }
func task(id, session, more string) letter {
	return letter{events.TaskSubject("s1"), `{"id":"` + id + `","agent":"a","task":"do ` + id + `","session_id":"` + session + `"` + more + `}`, 1}
}
func control(seq uint64, session, body string) letter {
	return letter{events.SessionSubject("s1", session), body, seq}
}

// letter is a message of an outsider.
type letter struct {
	subject, body string
	seq           uint64
}

// shaky is the log of the sessions and their rows, which fail or are behind when they are told to.
type shaky struct {
	kernel.KV
	log kernel.Journal
	// full has the next append refused. failRow is returned by the next swap of a row, after doing it where done is
	// set.
	full    bool
	failRow error
	done    bool
	// behind has the next question for the last event answered as before that event.
	behind bool
	// meanwhile happens before the next read of a row, which is the first of a change.
	meanwhile func()
	// swapping happens before the next swap of a row.
	swapping func()
}

var errCut = errors.New("the planner died here")

func (s *shaky) Swap(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if do := s.swapping; do != nil {
		s.swapping = nil
		do()
	}
	fail, done := s.failRow, s.done
	s.failRow, s.done = nil, false
	if fail == nil || done {
		now, err := s.KV.Swap(ctx, key, value, revision)
		if fail == nil {
			return now, err
		}
	}
	return 0, fail
}

func (s *shaky) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if do := s.meanwhile; do != nil {
		s.meanwhile = nil
		do()
	}
	return s.KV.Load(ctx, key)
}

// Append implements kernel.Journal.
func (s *shaky) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if s.full {
		s.full = false
		return kernel.Ack{Outcome: kernel.Full}
	}
	return s.log.Append(ctx, e)
}

// Read implements kernel.Journal.
func (s *shaky) Read(ctx context.Context, id string, after uint64) ([]kernel.Record, bool, error) {
	return s.log.Read(ctx, id, after)
}

// Last implements kernel.Journal.
func (s *shaky) Last(ctx context.Context, id string) (kernel.Record, bool, error) {
	if s.behind {
		s.behind = false
		return kernel.Record{}, false, nil
	}
	return s.log.Last(ctx, id)
}

// desk is a planner over stores in memory.
type desk struct {
	t    *testing.T
	st   *mem.Station
	kv   *shaky
	role *Role
	// ago is how long ago the events of sessions happen.
	ago time.Duration
	// older is what is known of planners of an older version.
	older error
	// damage is what the station has lost.
	damage error
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, st: st, kv: &shaky{KV: st.KV(topology.SessionBucket), log: st.JournalFor(events.SessionAggregate)}}
	d.again()
	return d
}

// again is the same station with a planner that has forgotten everything.
func (d *desk) again() {
	d.t.Helper()
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: d.st.JournalOf(events.Planner), Entropy: rand.Reader})
	if err != nil {
		d.t.Fatal(err)
	}
	log, err := session.NewLedger(session.LedgerConfig{Station: "s1", By: events.Planner, Journal: d.kv, Snapshots: session.View().Snapshots(d.kv), Entropy: rand.Reader,
		Now: func() time.Time { return time.Now().Add(-d.ago) }})
	if err != nil {
		d.t.Fatal(err)
	}
	if d.role, err = assemble(d.t, Config{Ledger: l, Timers: d.st.Timers(), Intake: tasks.Config{Damage: func() error { return d.damage }}},
		assembly{made: resolve.Config{Agents: anybody{}, Blobs: d.st.Blobs(), Sessions: true}, sessions: &sessions.Log{Ledger: log, Rows: d.kv,
			Older: func(context.Context) error { return d.older }}}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) receive(m letter) error { return d.role.Input(d.t.Context(), m) }

func (d *desk) must(m letter) {
	d.t.Helper()
	if err := d.receive(m); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) refused(m letter, code string) *kernel.Refusal {
	d.t.Helper()
	err := d.receive(m)
	r, ok := errors.AsType[*kernel.Refusal](err)
	if !ok || r.Code != code {
		d.t.Fatalf("got %v, want %s", err, code)
	}
	return r
}

// row is what people see of the session, which is what its log says.
func (d *desk) row() events.Session {
	d.t.Helper()
	var e events.Session
	b, err := d.kv.KV.Get(d.t.Context(), session.View().Key("s"))
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return e
}

// log is the session folded by a planner that knows nothing, and the position of its last event.
func (d *desk) log() (session.State, uint64) {
	d.t.Helper()
	l, err := session.NewLedger(session.LedgerConfig{Station: "s1", By: events.Planner, Journal: d.kv.log, Entropy: rand.Reader})
	if err != nil {
		d.t.Fatal(err)
	}
	s, position, err := l.State(d.t.Context(), "s")
	if err != nil {
		d.t.Fatal(err)
	}
	return s, position
}

func (d *desk) session() events.Session {
	s, _ := d.log()
	return s.Session
}

// take has another planner take the lock for a run, which writes no row.
func (d *desk) take(id string) {
	d.t.Helper()
	l, err := session.NewLedger(session.LedgerConfig{Station: "s1", By: events.Planner, Journal: d.kv.log, Entropy: rand.Reader})
	if err == nil {
		_, err = l.Write(d.t.Context(), "s", func(s session.State, now time.Time) ([]events.Payload, error) {
			next, err := session.Take(s, session.Ask{Session: "s", Run: id, Agent: "a", Limit: time.Hour}, nil, now)
			return next.Changes(), err
		})
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// drop has another planner take the lock of a run away.
func (d *desk) drop(id string) {
	d.t.Helper()
	l, err := session.NewLedger(session.LedgerConfig{Station: "s1", By: events.Planner, Journal: d.kv.log, Entropy: rand.Reader})
	if err == nil {
		_, err = l.Write(d.t.Context(), "s", func(s session.State, now time.Time) ([]events.Payload, error) {
			return session.Drop(s, id, now).Changes(), nil
		})
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// put stores a row as versions without logs did.
func (d *desk) put(e events.Session) {
	d.t.Helper()
	b, err := json.Marshal(e)
	if err == nil {
		err = d.kv.KV.Put(d.t.Context(), session.View().Key("s"), b)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) state(id string) run.State {
	d.t.Helper()
	s, err := d.role.cfg.Ledger.Fresh(d.t.Context(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

func (d *desk) stop(id string) error {
	return d.receive(letter{events.ControlSubject("s1", id), `{"action":"stop"}`, 100})
}

func (d *desk) runs() []string {
	d.t.Helper()
	parts, _, err := history.Load(d.t.Context(), d.st.Blobs(), d.session().History, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	var ids []string
	for _, p := range parts {
		ids = append(ids, p.Run)
	}
	return ids
}
