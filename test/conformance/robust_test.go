//go:build slow

package conformance

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/test/robust/report"
)

// Names of the sides in the report.
const (
	quiet    = "three servers"
	troubled = "three servers in trouble"
)

// TestRobust is the part "honest" of the robust programme. It takes less than 90 seconds on two cores.
func TestRobust(t *testing.T) {
	seed := seedOf(t)
	t.Logf("seed %d (INSPAN_ROBUST_SEED=%d throws the same dice)", seed, seed)
	dice := func(part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part)) }
	c := newTally()
	down := &stepDown{t: t}
	t.Run("SAFE-4 one server", func(t *testing.T) {
		t.Run("lockstep", func(t *testing.T) {
			t.Parallel()
			long := terms{ackWait: time.Minute, lease: time.Minute}
			model, _ := onModel(t, long)
			lockstep(t, model, onServer(t, long), dice(1), 2000, c)
		})
		t.Run("writers", func(t *testing.T) {
			t.Parallel()
			s := onServer(t, short)
			judge(t, write(t, s, dice(2), 6, 400, nil), s, c)
		})
		clocked(t, func(t *testing.T) *side { return onServer(t, short) }, dice, c)
	})
	g := three(t)
	down.g = g
	t.Run("SAFE-4 three servers", func(t *testing.T) {
		t.Run("lockstep", func(t *testing.T) {
			t.Parallel()
			long := terms{ackWait: time.Minute, lease: 15 * time.Second}
			model, _ := modelOf(t, "lockstep", long)
			lockstep(t, model, g.side(t, quiet, "lockstep", long), dice(3), 500, c)
		})
		t.Run("writers", func(t *testing.T) {
			t.Parallel()
			s := g.side(t, quiet, "writers", short)
			judge(t, write(t, s, dice(4), 6, 120, nil), s, c)
		})
		clocked(t, func(t *testing.T) *side { return g.side(t, quiet, "clocked", short) }, dice, c)
	})
	t.Run("SAFE-4 three servers in trouble", func(t *testing.T) { inTrouble(t, g, down, dice, c) })
	save(t, seed, c, down)
}

// clocked compares deliveries, timers and leases.
func clocked(t *testing.T, open func(t *testing.T) *side, dice func(uint64) *rand.Rand, c *tally) {
	t.Run("deliveries, timers, leases", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		deliver(t, s, mail(s.station, dice(5), 96), nil).judge(c)
		judgeAlarms(s, ring(t, s, dice(6), 32, nil), c)
		leases(t, s, c)
	})
}

func inTrouble(t *testing.T, g *cluster, down *stepDown, dice func(uint64) *rand.Rand, c *tally) {
	const each = 150
	stopped, restarted := make(chan struct{}), make(chan struct{})
	writers := g.side(t, troubled, "trouble", short)
	others := g.side(t, troubled, "troubled", short)
	t.Run("writers", func(t *testing.T) {
		t.Parallel()
		judge(t, write(t, writers, dice(7), 6, each, down.troubles("trouble", 6*each, stopped, restarted)), writers, c)
	})
	t.Run("deliveries, timers", func(t *testing.T) {
		t.Parallel()
		deliver(t, others, mail(others.station, dice(8), 64), func() {
			down.all(topology.Log(others.station))
			down.all(topology.In(others.station))
			<-stopped
		}).judge(c)
		judgeAlarms(others, ring(t, others, dice(9), 16, func() {
			for _, h := range topology.AllSubscriptions() {
				for _, family := range h.Timers {
					down.all(topology.Tmr(others.station, family))
				}
			}
		}), c)
	})
	t.Run("stores", func(t *testing.T) {
		t.Parallel()
		registers(t, others, c, 3, 20, restarted)
	})
}

// save writes the report, and fails the test with what nothing allows.
func save(t *testing.T, seed uint64, c *tally, down *stepDown) {
	t.Helper()
	c.tell(t)
	p := report.Part{Name: "honest", Title: "The model of JetStream against one server, three servers and three servers in trouble", Seed: seed}
	p.Add("operations compared", c.compared, "each one as the model does it, or allowed by the table")
	p.Add("leaders that stepped down", down.count, "")
	for _, side := range []string{"model", "one server", quiet, troubled} {
		p.Add("outcomes, "+side, of(side, c.outcomes), "")
	}
	for _, side := range []string{"one server", quiet, troubled} {
		p.Add("differences allowed, "+side, of(side, c.allowed), "only for the reasons of the table")
	}
	p.Violations = c.violations
	if t.Failed() && len(p.Violations) == 0 {
		p.Violate("the test failed: see its output")
	}
	if err := p.Save(); err != nil {
		t.Error(err)
	}
}

// of picks the figures of one side.
func of(side string, all map[string]int) string {
	some := map[string]int{}
	for what, n := range all {
		if rest, ok := strings.CutPrefix(what, side+": "); ok {
			some[rest] = n
		}
	}
	return figures(some)
}
