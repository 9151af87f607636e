package jet_test

import (
	"context"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
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
	kerneltest.Journal(t, func(t *testing.T) kerneltest.Journals {
		_, s := one(t, jet.ApplyOptions{})
		return s.JournalFor
	})
}

func TestInboxExam(t *testing.T) {
	t.Parallel()
	kerneltest.Inbox(t, post)
}

func TestTimersExam(t *testing.T) {
	t.Parallel()
	kerneltest.Timers(t, post)
}

func post(t *testing.T) kerneltest.Post {
	const ackWait = 1500 * time.Millisecond
	_, s := one(t, jet.ApplyOptions{AckWait: ackWait})
	return kerneltest.Post{Station: s.Name(), Journal: s.Journal(), Other: s.JournalFor(kerneltest.CounterAggregate),
		Inbox: s.Inbox(), Timers: s.Timers(), TimersFor: s.TimersFor, Publish: s.Publish, AckWait: ackWait}
}

func TestShelfExam(t *testing.T) {
	t.Parallel()
	kerneltest.KV(t, func(t *testing.T) kernel.KV {
		_, s := one(t, jet.ApplyOptions{})
		return s.KV(topology.StateBucket)
	})
}

func TestRefusalsExam(t *testing.T) {
	t.Parallel()
	kerneltest.Refusals(t, func(t *testing.T) kernel.Refusals {
		_, s := one(t, jet.ApplyOptions{})
		return s.Refusals()
	})
}

func TestLeasesExam(t *testing.T) {
	t.Parallel()
	kerneltest.Leases(t, func(t *testing.T) (kernel.Leases, time.Duration) {
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
