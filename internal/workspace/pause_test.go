package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// TestPauses stops the owner for longer than its lease before each of its operations in turn: reads of the record, the
// upload of a snapshot, the word about it. Another takes over, works and is at work when the owner wakes up and goes on
// with what it was about to do.
func TestPauses(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		l := newLab(t)
		b := l.at("b", nil)
		var other *Visit
		var theirs map[string]string
		var before Record
		f := &fate{at: at}
		f.asleep = func() {
			l.kill("a")
			v, err := b.Enter(t.Context(), demo, "r1")
			if err != nil {
				t.Fatal(err)
			}
			become(t, v.Dir(), map[string]string{"b": "of the other"})
			v.Touch(true)
			if err := v.Settle(t.Context(), "c9"); err != nil {
				t.Fatal(err)
			}
			other, before = v, l.record(demo)
			if theirs, err = filesOf(v.Dir()); err != nil {
				t.Fatal(err)
			}
		}
		_, broken, err := work(t, l.at("a", f), 1)
		if f.n < at {
			if at < 18 {
				t.Fatalf("only %d operations: there are not so few", f.n)
			}
			return
		}
		t.Run(fmt.Sprintf("WS-3 WS-13 SAFE-8 an owner that slept before operation %d finds that it was lost, and changes nothing", at), func(t *testing.T) {
			var busy *BusyError
			if !errors.Is(err, ErrLost) && !errors.As(err, &busy) {
				t.Errorf("it went on: %v", err)
			}
			if broken != nil {
				broken.Leave()
			}
			now, errNow := filesOf(other.Dir())
			if errNow != nil || !maps.Equal(now, theirs) {
				t.Errorf("the other's files are %v, they were %v; %v", now, theirs, errNow)
			}
			if rec := l.record(demo); rec.Owner != "b" || rec.Fence != before.Fence || rec.Snapshot != before.Snapshot {
				t.Errorf("the record is %+v, it was %+v", rec, before)
			}
			other.Leave()
			v, err := b.Enter(t.Context(), demo, "r1")
			if err != nil {
				t.Fatal(err)
			}
			v.Touch(true)
			if err := v.Settle(t.Context(), "c10"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPausesOfTheSecond does the same to the one that takes over: it sleeps before each operation of its restore.
func TestPausesOfTheSecond(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		l := newLab(t)
		if _, _, err := work(t, l.at("a", nil), 1); err != nil {
			t.Fatal(err)
		}
		l.kill("a")
		c := l.at("c", nil)
		var other *Visit
		f := &fate{at: at}
		f.asleep = func() {
			l.kill("b")
			v, err := c.Enter(t.Context(), demo, "r1")
			if err != nil {
				t.Fatal(err)
			}
			if got := stateOf(t, v.Dir()); got != len(states)-1 {
				t.Errorf("the third has state %d", got)
			}
			become(t, v.Dir(), map[string]string{"c": "of the third"})
			v.Touch(true)
			if err := v.Settle(t.Context(), "c9"); err != nil {
				t.Fatal(err)
			}
			other = v
		}
		v, err := l.at("b", f).Enter(t.Context(), demo, "r1")
		if f.n < at {
			if at < 6 {
				t.Fatalf("only %d operations: there are not so few", f.n)
			}
			return
		}
		t.Run(fmt.Sprintf("WS-3 WS-13 who slept before operation %d of its restore keeps nothing, and says nothing of what it read", at), func(t *testing.T) {
			var busy *BusyError
			switch {
			case v == nil && !errors.As(err, &busy):
				t.Errorf("got %v, want a BusyError", err)
			case v != nil:
				become(t, v.Dir(), map[string]string{"b": "too late"})
				v.Touch(false)
				if err := v.Settle(t.Context(), "late"); !errors.Is(err, ErrLost) {
					t.Errorf("what it read counts: %v", err)
				}
				v.Touch(true)
				if err := v.Settle(t.Context(), "late"); !errors.Is(err, ErrLost) {
					t.Errorf("what it did counts: %v", err)
				}
				v.Leave()
			}
			if rec := l.record(demo); rec.Owner != "c" {
				t.Errorf("%+v", rec)
			}
			if now, err := filesOf(other.Dir()); err != nil || !maps.Equal(now, map[string]string{"c": "of the third"}) {
				t.Errorf("%v %v", now, err)
			}
		})
	}
}

// TestStores takes the object store away from one that is at work.
func TestStores(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"away": errors.New("no responders"), "full": kernel.ErrFull} {
		t.Run("WS-3 SAFE-15 a store that is "+name+" keeps nothing new and loses nothing old, and later all is kept", func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			s := &store{Blobs: l.st.Blobs()}
			a := l.at("a", nil, func(c *Config) { c.Blobs = s })
			if _, _, err := work(t, a, 1); err != nil {
				t.Fatal(err)
			}
			before := l.record(demo)
			v, err := a.Enter(t.Context(), demo, "r1")
			if err != nil {
				t.Fatal(err)
			}
			become(t, v.Dir(), states[1])
			v.Touch(true)
			s.fault = fault
			for range 2 {
				if err := v.Settle(t.Context(), "c5"); !errors.Is(err, fault) || errors.Is(err, ErrLost) || errors.Is(err, ErrUnkept) {
					t.Fatalf("got %v, want what is wrong with the store", err)
				}
			}
			if now := l.record(demo); now.Snapshot != before.Snapshot || len(now.Packs) != len(before.Packs) {
				t.Errorf("the record is %+v, it was %+v", now, before)
			}
			s.fault = nil
			if err := v.Settle(t.Context(), "c5"); err != nil {
				t.Fatal(err)
			}
			v.Leave()
			l.kill("a")
			other, err := l.at("b", nil).Enter(t.Context(), demo, "r1")
			if err != nil || stateOf(t, other.Dir()) != 1 {
				t.Errorf("%v, state %d", err, stateOf(t, other.Dir()))
			}
		})
	}
}

// store is an object store that may take nothing.
type store struct {
	kernel.Blobs
	fault error
}

func (s *store) Put(ctx context.Context, kind string, data []byte) (events.Ref, error) {
	if s.fault != nil {
		return events.Ref{}, s.fault
	}
	return s.Blobs.Put(ctx, kind, data)
}
