// Package conformance compares the memory station, which most tests and the simulator stand on, with the NATS servers
// that it is a model of.
//
// Promises: what a server did and the model cannot do, with all the faults it knows, fails the test. What the model
// needed a fault for is written in a table with the reason, and counted.
package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
)

// patience is how long a test waits for what must happen.
const patience = 5 * time.Minute

// terms of the stations that are compared.
type terms struct{ ackWait, lease time.Duration }

// short terms keep the tests short, quick ones even shorter. A loaded machine may miss them, which is a reason of the
// table and no fault.
var (
	short = terms{ackWait: 700 * time.Millisecond, lease: 800 * time.Millisecond}
	quick = terms{ackWait: 350 * time.Millisecond, lease: 400 * time.Millisecond}
)

// side is one station of the comparison.
type side struct {
	name     string
	station  string
	journals []kernel.Journal // one per replica
	inbox    kernel.Inbox
	timers   kernel.Timers
	blobs    kernel.Blobs
	kv       kernel.KV
	leases   kernel.Leases
	refusals kernel.Refusals
	publish  func(ctx context.Context, subject string, data []byte, header map[string]string) error
	terms    terms
	n        atomic.Uint64
}

// journal returns another replica each time.
func (s *side) journal() kernel.Journal { return s.journals[s.n.Add(1)%uint64(len(s.journals))] }

// replicated says that reads may come from a replica that is behind.
func (s *side) replicated() bool { return len(s.journals) > 1 }

func onModel(t *testing.T, w terms) (*side, *mem.Station) {
	t.Helper()
	return modelOf(t, "s1", w)
}

func modelOf(t *testing.T, station string, w terms) (*side, *mem.Station) {
	t.Helper()
	m, err := mem.New(station, mem.Config{AckWait: w.ackWait, LeaseTerm: w.lease, DrainGrace: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return &side{name: "model", station: station, journals: []kernel.Journal{m.Journal()}, inbox: m.Inbox(), timers: m.Timers(), blobs: m.Blobs(),
		kv: m.KV(topology.StateBucket), leases: m.Leases(), refusals: m.Refusals(), publish: m.Publish, terms: w}, m
}

// onServer does not wait for the disk: what is compared is what is said, not what survives.
func onServer(t *testing.T, w terms) *side {
	t.Helper()
	c := jettest.Connect(t, jettest.Server(t, func(cfg *natsserver.Config) { cfg.LazySync = true }), jet.Config{Name: t.Name()})
	return sideOf("one server", w, jettest.Station(t, c, "s1", jet.ApplyOptions{AckWait: w.ackWait, LeaseTerm: w.lease}))
}

func sideOf(name string, w terms, seen ...*jet.Station) *side {
	s := &side{name: name, station: seen[0].Name(), inbox: seen[0].Inbox(), timers: seen[0].Timers(), blobs: seen[0].Blobs(),
		kv: seen[0].KV(topology.StateBucket), leases: seen[0].Leases(), refusals: seen[0].Refusals(), publish: seen[0].Publish, terms: w}
	for _, st := range seen {
		s.journals = append(s.journals, st.Journal())
	}
	return s
}

// within returns a context with a limit that a sound server never comes near.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// chance returns the dice of a test and prints their seed.
func chance(t *testing.T, part uint64) *rand.Rand {
	t.Helper()
	seed := seedOf(t)
	t.Logf("seed %d (INSPAN_ROBUST_SEED=%d throws the same dice)", seed, seed)
	return rand.New(rand.NewPCG(seed, part))
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	if given := os.Getenv("INSPAN_ROBUST_SEED"); given != "" {
		seed, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatalf("INSPAN_ROBUST_SEED is %q: want a number", given)
		}
		return seed
	}
	return uint64(time.Now().UnixNano())
}

// tally counts what was compared. It is safe for concurrent use.
type tally struct {
	mu sync.Mutex
	// Guarded by mu: outcomes by side and kind, differences by side and reason, and what nothing allows.
	outcomes, allowed map[string]int
	violations        []string
	compared          int
}

func newTally() *tally { return &tally{outcomes: map[string]int{}, allowed: map[string]int{}} }

// saw counts an outcome.
func (c *tally) saw(s *side, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcomes[s.name+": "+what]++
}

func (c *tally) agreed(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compared += n
}

// allow counts a difference that the table has a reason for; any other is a violation, and the answer is false.
func (c *tally) allow(s *side, reason, format string, args ...any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range allowed {
		if a.reason == reason && (a.on == anywhere || s.replicated()) {
			c.allowed[s.name+": "+reason]++
			return true
		}
	}
	c.violations = append(c.violations, fmt.Sprintf("%s: %s: %s", s.name, reason, fmt.Sprintf(format, args...)))
	return false
}

func (c *tally) violate(s *side, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, s.name+": "+fmt.Sprintf(format, args...))
}

// tell fails the test with the violations and logs the rest.
func (c *tally) tell(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("%d compared; outcomes: %s; allowed: %s", c.compared, figures(c.outcomes), figures(c.allowed))
	for i, v := range c.violations {
		if i == 10 {
			t.Errorf("and %d more", len(c.violations)-i)
			break
		}
		t.Error(v)
	}
}

func figures(m map[string]int) string {
	var all []string
	for what, n := range m {
		all = append(all, fmt.Sprintf("%s %d", what, n))
	}
	sort.Strings(all)
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}
