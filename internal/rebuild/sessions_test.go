package rebuild_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// rooms is a station whose sessions have logs and rows.
type rooms struct {
	t    *testing.T
	st   *mem.Station
	rows kernel.KV
	ids  []string
}

func newRooms(t *testing.T, n int) *rooms {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &rooms{t: t, st: st, rows: st.KV(topology.SessionBucket)}
	l, err := session.NewLedger(session.LedgerConfig{Station: "s1", By: events.Planner, Journal: st.JournalFor(events.SessionAggregate), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		id := fmt.Sprint("room", i)
		w.ids = append(w.ids, id)
		written, err := l.Write(t.Context(), id, func(s session.State, now time.Time) ([]events.Payload, error) {
			s, err := session.Take(s, session.Ask{Session: id, Run: "r1", Agent: "a", Limit: time.Minute}, nil, now)
			if err == nil {
				s, _ = session.Keep(s, "r1", "a", s.Fence, now, now)
				s = session.Settle(s, session.End{Session: id, Run: "r1", Fence: s.Fence, Part: events.Ref{SHA256: "ab", Size: 2}, Messages: 2}, now)
			}
			return s.Changes(), err
		})
		var row []byte
		if err == nil {
			row, err = session.View().Row(written.State, written.Head)
		}
		if err == nil {
			err = w.rows.Put(t.Context(), session.View().Key(id), row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *rooms) row(id string) []byte {
	w.t.Helper()
	b, err := w.rows.Get(w.t.Context(), session.View().Key(id))
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		w.t.Fatal(err)
	}
	return b
}

func (w *rooms) rebuild() rebuild.Report {
	w.t.Helper()
	rep, err := rebuild.All(w.t.Context(), rebuild.Config{Journal: w.st.Journal(), State: w.st.KV(topology.StateBucket), Blobs: w.st.Blobs(), Now: time.Now,
		Logged: func(context.Context) ([]string, error) { return nil, nil },
		Sessions: rebuild.Rows{Journal: w.st.JournalFor(events.SessionAggregate), Rows: w.rows,
			Logged: func(context.Context) ([]string, error) { return w.ids, nil }}})
	if err != nil {
		w.t.Fatal(err)
	}
	return rep
}

func TestSessions(t *testing.T) {
	t.Parallel()
	t.Run("DEPL-8 PERS-21 any row of a session that is gone, damaged, old or of an older planner is made again, byte for byte", func(t *testing.T) {
		t.Parallel()
		w := newRooms(t, 5)
		var want [][]byte
		for _, id := range w.ids {
			want = append(want, w.row(id))
		}
		var old events.Session
		if err := json.Unmarshal(want[2], &old); err != nil {
			t.Fatal(err)
		}
		old.Log.Sequence--
		old.Fence = 99
		behind, err := json.Marshal(old)
		if err != nil {
			t.Fatal(err)
		}
		old.Log = nil
		older, err := json.Marshal(old)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.rows.Delete(t.Context(), session.View().Key(w.ids[0])); err != nil {
			t.Fatal(err)
		}
		for i, b := range map[int][]byte{1: []byte("{"), 2: behind, 3: older} {
			if err := w.rows.Put(t.Context(), session.View().Key(w.ids[i]), b); err != nil {
				t.Fatal(err)
			}
		}
		rep := w.rebuild()
		if rep.Sessions[rebuild.Made] != 1 || rep.Sessions[rebuild.Corrected] != 3 || rep.Sessions[rebuild.Same] != 1 || rep.Changed() != 4 || len(rep.Faults) > 0 {
			t.Errorf("%+v", rep)
		}
		for i, id := range w.ids {
			if got := w.row(id); !bytes.Equal(got, want[i]) {
				t.Errorf("%s is %s, was %s", id, got, want[i])
			}
		}
		if rep = w.rebuild(); rep.Sessions[rebuild.Same] != 5 || rep.Changed() != 0 {
			t.Errorf("again: %+v", rep)
		}
	})
	t.Run("PERS-21 the row of a session that was not taken over yet stays, and one whose log is lost is named", func(t *testing.T) {
		t.Parallel()
		w := newRooms(t, 1)
		before := []byte(`{"session_id":"old","fence":3}`)
		if err := w.rows.Put(t.Context(), session.View().Key("old"), before); err != nil {
			t.Fatal(err)
		}
		lost := bytes.ReplaceAll(w.row(w.ids[0]), []byte(w.ids[0]), []byte("lost"))
		if err := w.rows.Put(t.Context(), session.View().Key("lost"), lost); err != nil {
			t.Fatal(err)
		}
		rep := w.rebuild()
		if rep.Sessions[rebuild.None] != 1 || rep.Sessions[rebuild.Same] != 1 || len(rep.Faults) != 1 || rep.Faults[0].Run != "session.lost" || !strings.Contains(rep.Faults[0].Why, "lost") {
			t.Errorf("%+v", rep)
		}
		if !bytes.Equal(w.row("old"), before) || !bytes.Equal(w.row("lost"), lost) {
			t.Errorf("%s, %s", w.row("old"), w.row("lost"))
		}
	})
}
