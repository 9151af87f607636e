package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
)

// before makes a station as versions without logs of workspaces left it: a row and the objects that it names, with
// files in the last state of the play.
func before(t *testing.T, change func(*Record)) *lab {
	t.Helper()
	from, l := newLab(t), newLab(t)
	if _, _, err := work(t, from.at("old", nil), 1); err != nil {
		t.Fatal(err)
	}
	rec := from.record(demo)
	for _, p := range rec.Packs {
		for _, part := range p.Parts {
			data, err := from.st.Blobs().Get(t.Context(), part)
			if err == nil {
				_, err = l.st.Blobs().Put(t.Context(), "tree", data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	rec.Fence = 7
	if change != nil {
		change(&rec)
	}
	l.row(rec)
	l.kill("old")
	return l
}

// row writes a row as an older version does.
func (l *lab) row(rec Record) {
	l.t.Helper()
	rec.Log = nil
	b, err := json.Marshal(rec)
	if err == nil {
		err = l.st.KV(topology.TreeBucket).Put(l.t.Context(), events.TreeKey(rec.Workspace), b)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// kinds are the events of the workspace of the plays.
func (l *lab) kinds() string {
	var all []string
	for _, r := range l.st.Log(kernel.Key(events.WorkspaceAggregate, events.WorkspaceID(demo))) {
		all = append(all, strings.TrimPrefix(string(r.Kind), "workspace."))
	}
	return strings.Join(all, " ")
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	t.Run("WS-3 SAFE-8 a row of an older version is taken over once, with its files, its fence and what its owner had not saved", func(t *testing.T) {
		t.Parallel()
		l := before(t, func(rec *Record) { rec.Unkept = []string{"r0/c9"} })
		a := l.at("a", nil)
		v, err := a.Enter(t.Context(), demo, "r1")
		if err != nil {
			t.Fatal(err)
		}
		if news := v.News(t.Context()); stateOf(t, v.Dir()) != len(states)-1 || v.Fence() != 8 || !strings.Contains(news, "r0/c9") {
			t.Errorf("state %d, fence %d, news %q", stateOf(t, v.Dir()), v.Fence(), news)
		}
		v.Leave()
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := l.at("b", nil).Enter(t.Context(), demo, "r1"); err != nil {
			t.Fatal(err)
		}
		if got := l.kinds(); got != "migrated claimed released claimed" {
			t.Errorf("the log is %s", got)
		}
	})
	for _, done := range []bool{false, true} {
		for at := 1; ; at++ {
			l := before(t, nil)
			f := &fate{at: at, done: done}
			v, err := l.at("a", f).Enter(t.Context(), demo, "r1")
			if f.n < at {
				if at < 8 || err != nil {
					t.Fatalf("only %d operations: there are not so few; %v", f.n, err)
				}
				break
			}
			t.Run(fmt.Sprintf("WS-3 SAFE-8 who takes a row over dies at operation %d of it, done %v: the next one goes on, and it is taken over once", at, done), func(t *testing.T) {
				if v != nil {
					t.Fatal("it came in")
				}
				l.kill("a")
				b := l.at("b", nil)
				v, again := b.Enter(t.Context(), demo, "r1")
				if again != nil {
					t.Fatalf("after %v: %v", err, again)
				}
				if got := l.kinds(); stateOf(t, v.Dir()) != len(states)-1 || strings.Count(got, "migrated") != 1 || !strings.HasPrefix(got, "migrated claimed") {
					t.Errorf("state %d, log %s", stateOf(t, v.Dir()), got)
				}
				l.shows(t)
			})
		}
	}
	t.Run("WS-13 two take it over at once: one log begins, and one of them owns the workspace", func(t *testing.T) {
		t.Parallel()
		for at := 1; at < 12; at++ {
			l := before(t, nil)
			f := &fate{at: at}
			var first error
			f.asleep = func() { _, first = l.at("b", nil).Enter(t.Context(), demo, "r2") }
			_, second := l.at("a", f).Enter(t.Context(), demo, "r1")
			var busy *BusyError
			if f.n >= at && (first == nil) == (second == nil) || first != nil && !errors.As(first, &busy) || second != nil && !errors.As(second, &busy) {
				t.Errorf("at operation %d: %v and %v", at, first, second)
			}
			if got := l.kinds(); strings.Count(got, "migrated") != 1 || strings.Count(got, "claimed") != 1 {
				t.Errorf("at operation %d: %s", at, got)
			}
		}
	})
	t.Run("SAFE-8 nothing is taken over while a toolrunner of an older version lives", func(t *testing.T) {
		t.Parallel()
		l := before(t, nil)
		l.older = treelog.ErrOlderWriter
		a := l.at("a", nil)
		if _, err := a.Enter(t.Context(), demo, "r1"); !errors.Is(err, treelog.ErrOlderWriter) || l.kinds() != "" {
			t.Fatalf("%v, log %s", err, l.kinds())
		}
		l.older = nil
		if _, err := a.Enter(t.Context(), demo, "r1"); err != nil {
			t.Error(err)
		}
	})
	t.Run("SAFE-8 an older toolrunner that writes a row after the log began is found out: no one comes in, and its row stays", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.at("a", nil)
		if _, _, err := work(t, a, 1); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.row(Record{Workspace: demo, Owner: "old", Fence: 2})
		was := l.kinds()
		if _, err := l.at("b", nil).Enter(t.Context(), demo, "r1"); !errors.Is(err, treelog.ErrOlderWriter) {
			t.Errorf("%v", err)
		}
		b, err := l.st.KV(topology.TreeBucket).Get(t.Context(), events.TreeKey(demo))
		if err != nil || !strings.Contains(string(b), `"old"`) || l.kinds() != was {
			t.Errorf("the row is %s, %v; the log %s", b, err, l.kinds())
		}
	})
	t.Run("SAFE-8 an older toolrunner writes a row between the append of a claim and its row: no one comes in", func(t *testing.T) {
		t.Parallel()
		met := false
		for at := 1; at < 10 && !met; at++ {
			l := newLab(t)
			f := &fate{at: at}
			f.asleep = func() {
				if met = l.kinds() == "claimed"; met {
					l.row(Record{Workspace: demo, Owner: "old", Fence: 1})
				}
			}
			if v, err := l.at("a", f).Enter(t.Context(), demo, "r1"); met && (!errors.Is(err, treelog.ErrOlderWriter) || v != nil) {
				t.Errorf("operation %d: %v", at, err)
			}
		}
		if !met {
			t.Error("there is no operation after the claim")
		}
	})
	t.Run("PERS-21 a row that is gone is written again by the next claim; a log that ends before its row gives no claim", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.at("a", nil)
		if _, _, err := work(t, a, 1); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.st.KV(topology.TreeBucket).Delete(t.Context(), events.TreeKey(demo)); err != nil {
			t.Fatal(err)
		}
		b := l.at("b", nil)
		v, err := b.Enter(t.Context(), demo, "r1")
		if err != nil || stateOf(t, v.Dir()) != len(states)-1 {
			t.Fatalf("%v", err)
		}
		l.shows(t)
		s := l.state(demo)
		s.Sequence += 3
		row, err := treelog.Row(s, 99)
		if err == nil {
			err = l.st.KV(topology.TreeBucket).Put(t.Context(), events.TreeKey(demo), row)
		}
		if err != nil {
			t.Fatal(err)
		}
		l.kill("b")
		if _, err := l.at("c", nil).Enter(t.Context(), demo, "r1"); err == nil || !strings.Contains(err.Error(), "events are lost") {
			t.Errorf("%v", err)
		}
	})
}

// shows checks that the row says who owns the workspace, as the log does.
func (l *lab) shows(t *testing.T) {
	t.Helper()
	row, err := l.st.KV(topology.TreeBucket).Get(t.Context(), events.TreeKey(demo))
	if err != nil {
		t.Fatal(err)
	}
	if shown, _, ok := treelog.FromRow(row); !ok || shown.Owner != l.record(demo).Owner || shown.Fence != l.record(demo).Fence {
		t.Errorf("the row is %s, the log says %+v", row, l.record(demo))
	}
}

// TestAppends counts what is written to the station for the calls of a run: an append for each that changes files, as
// there was a write of the row before, and no write for one that only reads.
func TestAppends(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := &counts{KV: l.st.KV(topology.TreeBucket)}
	log, err := treelog.New(treelog.Config{Station: "s1", By: events.Toolrunner, Entropy: zeros{}, Journal: l.st.JournalFor(events.WorkspaceAggregate), Rows: c})
	if err != nil {
		t.Fatal(err)
	}
	a := l.at("a", nil, func(cfg *Config) { cfg.Log = log })
	const calls = 70
	for n := range calls {
		v, err := a.Enter(t.Context(), demo, "r1")
		if err != nil {
			t.Fatal(err)
		}
		become(t, v.Dir(), map[string]string{"a": fmt.Sprint(n / 2)}) // every other call changes nothing
		v.Touch(n%2 == 0)
		if err := v.Settle(t.Context(), fmt.Sprintf("c%d", n)); err != nil {
			t.Fatal(err)
		}
		v.Leave()
	}
	if _, err := a.Ended(t.Context(), demo, "r1"); err != nil {
		t.Fatal(err)
	}
	if got := len(strings.Fields(l.kinds())); got != 1+calls/2+1 || c.writes != 2 {
		t.Errorf("%d events and %d rows, want a claim, %d snapshots and a release, and the row of the claim and of the release", got, c.writes, calls/2)
	}
}
