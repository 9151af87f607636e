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
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// anybody knows one agent.
type anybody struct{}

func (anybody) Agent(_ context.Context, name string) (events.Agent, error) {
	return events.Agent{Name: name, Model: "scripted/x", Digest: strings.Repeat("0", 64)}, nil
}
func (anybody) Names(context.Context) ([]string, error) { return []string{"a"}, nil }
func (anybody) Model(string) (llm.Model, string, error) { return nil, "x", nil }
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

// shaky is a store of sessions that fails or is behind when it is told to.
type shaky struct {
	kernel.KV
	// fail is returned by the next Swap, after doing it where done is set; old is what the next reads answer.
	fail error
	done bool
	old  []byte
	// meanwhile happens before the next read.
	meanwhile func()
}

var errCut = errors.New("the planner died here")

func (s *shaky) Swap(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	fail, done := s.fail, s.done
	s.fail, s.done = nil, false
	if fail == nil || done {
		now, err := s.KV.Swap(ctx, key, value, revision)
		if fail == nil {
			return now, err
		}
	}
	return 0, fail
}

func (s *shaky) Get(ctx context.Context, key string) ([]byte, error) {
	b, _, err := s.Load(ctx, key)
	return b, err
}

func (s *shaky) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if do := s.meanwhile; do != nil {
		s.meanwhile = nil
		do()
	}
	if old := s.old; old != nil {
		s.old = nil
		return old, 1, nil
	}
	return s.KV.Load(ctx, key)
}

// desk is a planner over stores in memory.
type desk struct {
	t    *testing.T
	st   *mem.Station
	kv   *shaky
	role *Role
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, st: st, kv: &shaky{KV: st.KV(topology.SessionBucket)}}
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
	if d.role, err = New(Config{Station: "s1", Ledger: l, Timers: d.st.Timers(), Agents: anybody{}, Models: anybody{}, Sessions: d.kv, Blobs: d.st.Blobs()}); err != nil {
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

func (d *desk) session() events.Session {
	d.t.Helper()
	var e events.Session
	b, err := d.kv.KV.Get(d.t.Context(), SessionKey("s"))
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return e
}

func (d *desk) put(e events.Session) {
	d.t.Helper()
	b, err := json.Marshal(e)
	if err == nil {
		err = d.kv.KV.Put(d.t.Context(), SessionKey("s"), b)
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
