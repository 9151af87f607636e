package jet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestSpace(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	c := jettest.Connect(t, jettest.Server(t), jet.Config{})
	if err := c.Setup().Apply(t.Context(), "s1", jet.ApplyOptions{Replicas: 1, Limits: topology.Limits{LogBytes: limit}}); err != nil {
		t.Fatal(err)
	}
	st, err := c.Station("s1")
	if err != nil {
		t.Fatal(err)
	}
	log := func(now time.Time) events.Space {
		t.Helper()
		all, err := st.Space(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.Stream == topology.Log("s1") {
				return s
			}
		}
		t.Fatalf("no log in %+v", all)
		return events.Space{}
	}
	store := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			body := fmt.Appendf(nil, `{"n":%d,"text":"%01000d"}`, i, 0)
			if ack := st.Journal().Append(t.Context(), kernel.Entry{ID: fmt.Sprintf("r%d", i), Kind: events.RunCreated, Bytes: body}); ack.Outcome != kernel.Stored {
				t.Fatalf("%+v", ack)
			}
		}
	}
	began := time.Now()
	store(0, 100)
	t.Run("PLUS-24a the log is measured by its limit, and says nothing of its growth before there is something to go by", func(t *testing.T) {
		s := log(began)
		if s.Limit != limit || s.Messages < 100 || s.Bytes < 100_000 || s.PerDay != 0 || s.Warns() {
			t.Errorf("%+v", s)
		}
	})
	t.Run("PLUS-24a what came in an hour is taken for a twenty-fourth of a day, and what came before the last day for nothing", func(t *testing.T) {
		s := log(began.Add(time.Hour))
		if want := 24 * s.Bytes; s.PerDay < want*9/10 || s.PerDay > want*11/10 {
			t.Errorf("%d bytes grow by %d a day, want about %d", s.Bytes, s.PerDay, want)
		}
		if in, ok := s.FullIn(); !ok || in > 12*time.Hour || !s.Warns() {
			t.Errorf("full in %s, %v", in, ok)
		}
		if s := log(began.Add(30 * time.Hour)); s.PerDay != 0 || s.Warns() {
			t.Errorf("%+v", s)
		}
	})
	t.Run("PLUS-24a of what came before and within the last day, the latter alone is growth", func(t *testing.T) {
		later := time.Now()
		store(100, 125)
		s := log(later.Add(24 * time.Hour))
		if want := s.Bytes / 5; s.PerDay < want*9/10 || s.PerDay > want*11/10 {
			t.Errorf("%d bytes grow by %d a day, want about %d", s.Bytes, s.PerDay, want)
		}
	})
	t.Run("PLUS-24a a warning comes at 80 % of the limit or a week before it is full, at the limit itself too", func(t *testing.T) {
		for _, c := range []struct {
			s    events.Space
			want bool
		}{
			{events.Space{Bytes: 799, Limit: 1000}, false}, {events.Space{Bytes: 800, Limit: 1000}, true}, {events.Space{Bytes: 2000, Limit: 1000, PerDay: 1}, true},
			{events.Space{Bytes: 100, Limit: 1000, PerDay: 128}, false}, {events.Space{Bytes: 100, Limit: 1000, PerDay: 130}, true}, {events.Space{Bytes: 1 << 40, PerDay: 1 << 40}, false},
		} {
			if got := c.s.Warns(); got != c.want {
				t.Errorf("%+v: %v", c.s, got)
			}
		}
	})
}
