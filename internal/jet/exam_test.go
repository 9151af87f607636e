package jet_test

import (
	"context"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/reactor/reactortest"
	"github.com/inspan/inspan/internal/topology"
)

// one is a station of its own on a server of its own.
func one(t *testing.T, o jet.ApplyOptions) (*jet.Conn, *jet.Station) {
	t.Helper()
	c := jettest.Connect(t, jettest.Server(t), jet.Config{Name: t.Name()})
	return c, jettest.Station(t, c, "s1", o)
}

func TestJournalExam(t *testing.T) {
	t.Parallel()
	reactortest.Journal(t, func(t *testing.T) reactor.Journal {
		_, s := one(t, jet.ApplyOptions{})
		return s.Journal()
	})
}

func TestInboxExam(t *testing.T) {
	t.Parallel()
	reactortest.Inbox(t, post)
}

func TestTimersExam(t *testing.T) {
	t.Parallel()
	reactortest.Timers(t, post)
}

func post(t *testing.T) reactortest.Post {
	const ackWait = 1500 * time.Millisecond
	_, s := one(t, jet.ApplyOptions{AckWait: ackWait})
	return reactortest.Post{Station: s.Name(), Journal: s.Journal(), Inbox: s.Inbox(), Timers: s.Timers(), Publish: s.Publish, AckWait: ackWait}
}

func TestShelfExam(t *testing.T) {
	t.Parallel()
	reactortest.Shelf(t, func(t *testing.T) reactor.Shelf {
		_, s := one(t, jet.ApplyOptions{})
		return s.Shelf(topology.StateBucket)
	})
}

func TestLeasesExam(t *testing.T) {
	t.Parallel()
	reactortest.Leases(t, func(t *testing.T) (reactor.Leases, time.Duration) {
		const term = time.Second
		_, s := one(t, jet.ApplyOptions{LeaseTerm: term})
		return s.Leases(), term
	})
}

// within returns a context with a limit that a sound server never comes near.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
