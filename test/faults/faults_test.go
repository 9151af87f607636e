//go:build slow

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/test/robust/report"
)

// rounds is how often each kind of fault comes, in twos.
const roundsEnv = "INSPAN_FAULTS_ROUNDS"

// ackWait of the programme: half of the usual one, so that what a lost process held comes back sooner.
const ackWait = 15 * time.Second

// budget bounds the world of three nodes, for each round.
const budget = 8 * time.Minute

func seedAndRounds(t *testing.T) (uint64, int) {
	t.Helper()
	seed, rounds := uint64(time.Now().UnixNano()), 1
	if s := os.Getenv("INSPAN_ROBUST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("INSPAN_ROBUST_SEED is %q, want a number", s)
		}
		seed = n
	}
	if s := os.Getenv(roundsEnv); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("%s is %q, want a number from 1", roundsEnv, s)
		}
		rounds = n
	}
	return seed, rounds
}

func TestFaults(t *testing.T) {
	seed, rounds := seedAndRounds(t)
	t.Logf("seed %d", seed)
	part := &report.Part{Name: "faults", Title: "Real processes under faults", Seed: seed, Violations: []string{}, Untried: []string{}}
	v := &verdicts{part: part, said: map[string]bool{}}
	bin := binaries(t)
	t.Run("worlds", func(t *testing.T) {
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			cluster(t, bin, seed, rounds, v)
		})
		t.Run("stores", func(t *testing.T) {
			t.Parallel()
			t.Run("power", func(t *testing.T) { power(t, bin, seed, rounds, v) })
			t.Run("full", func(t *testing.T) { full(t, bin, seed, rounds, v) })
		})
	})
	for _, r := range part.Rows {
		t.Logf("%-60s %s  %s", r.What, r.Saw, r.Want)
	}
	for _, u := range part.Untried {
		t.Logf("NOT TRIED: %s", u)
	}
	v.hold(t, seed)
	if err := part.Save(); err != nil {
		t.Fatal(err)
	}
}

// promises are what the programme shows, each with the requirements that begin the words of its violations.
var promises = []string{
	"SAFE-1 what was acknowledged outlives a power cut",
	"SAFE-2 a damaged replica is found and can be made again",
	"SAFE-4 an append is a compare-and-set, whatever happens to the nodes",
	"SAFE-7 once effects happen at most once, idempotent ones under one key",
	"SAFE-8 nothing is begun that was not announced, and no one believes a zombie",
	"SAFE-13 rolling restarts leave no unknown outcome",
	"SAFE-14 a full disk or log is told, loses nothing, and goes on",
	"GATE-9 the first answer to a gate wins, for everybody",
	"GATE-12 a parked run waits through everything",
	"LIFE-10 the nodes agree again after each fault",
	"PERS-15 no taken task and no stored event is lost",
}

// hold gives each promise its verdict, and the test those violations that are of none.
func (v *verdicts) hold(t *testing.T, seed uint64) {
	t.Helper()
	left := v.part.Violations
	for _, p := range promises {
		t.Run(p, func(t *testing.T) {
			id, _, _ := strings.Cut(p, " ")
			var others []string
			for _, x := range left {
				if strings.HasPrefix(x, id+":") {
					t.Errorf("seed %d: %s", seed, x)
				} else {
					others = append(others, x)
				}
			}
			left = others
		})
	}
	for _, x := range left {
		t.Errorf("seed %d: %s", seed, x)
	}
}

// world is the cluster under faults.
type world struct {
	*testing.T
	*fleet
	load   *load
	ctx    context.Context
	v      *verdicts
	chance *rand.Rand
	rounds int
	// healed are the ends of faults, counts how many there were of each kind.
	healed []time.Time
	counts map[string]int
	// woken counts the processes that woke after another had settled their call, damage how flipped bits were found.
	woken  int
	damage map[string]int
	claims *claims
}

// cluster is the world of three nodes with all its faults.
func cluster(t *testing.T, bin string, seed uint64, rounds int, v *verdicts) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rounds)*budget)
	defer cancel()
	w := &world{T: t, fleet: newFleet(t, fleetConfig{bin: bin, nodes: 3, replicas: 2}), ctx: ctx, v: v,
		chance: rand.New(rand.NewPCG(seed, 1)), rounds: rounds, counts: map[string]int{}, damage: map[string]int{}}
	began := time.Now()
	writeAgents(w.fleet)
	for _, n := range w.nodes {
		w.start(n.name)
	}
	setUp(ctx, t, w.fleet, topology.Limits{})
	for _, s := range w.services {
		w.start(s)
	}
	w.load = users(ctx, t, w.fleet, seed)
	for _, k := range []struct {
		kind  string
		width int
	}{{"line", 4}, {"fan", 2}, {"long", 1}, {"ask", 1}, {"step", 1}} {
		w.load.keep(k.kind, k.width)
	}
	w.park(2)
	w.claims = w.claim(ctx, seed)
	if !until(ctx, func() bool { return w.load.ended() > 3 }) {
		t.Fatalf("no run has ended after %s; the services say: %s", time.Since(began), w.words())
	}
	t.Logf("%6s  the load runs", time.Since(began).Round(time.Second))
	for _, p := range []struct {
		name string
		do   func()
	}{
		{"SIGTERM one after the other", w.rolling}, {"kill -9 of services", w.killServices}, {"kill -9 of nodes", w.killNodes},
		{"SIGSTOP", w.pauses}, {"partitions", w.partitions}, {"stores lost", w.wipes}, {"bits flipped", w.flips},
	} {
		if ctx.Err() != nil {
			v.violate("the time of the programme was over before %q", p.name)
			break
		}
		p.do()
		t.Logf("%6s  %-30s %s", time.Since(began).Round(time.Second), p.name, w.progress())
	}
	w.settle()
	t.Logf("%6s  settled: %s", time.Since(began).Round(time.Second), w.progress())
	w.judge()
	t.Logf("%6s  judged", time.Since(began).Round(time.Second))
	if t.Failed() || len(v.part.Violations) > 0 {
		t.Log(w.words())
	}
}

// setUp makes the station, or changes it, with the programme's ack wait.
func setUp(ctx context.Context, t *testing.T, f *fleet, limits topology.Limits) {
	t.Helper()
	conn, err := jet.Connect(ctx, jet.Config{URL: f.url("operator", 0), Name: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Setup().Apply(ctx, stationName, jet.ApplyOptions{Replicas: len(f.nodes), AckWait: ackWait, Limits: limits}); err != nil {
		t.Fatal(err)
	}
}

// park starts runs that wait for a person until the end of the programme (GATE-12).
func (w *world) park(n int) {
	for i := range n {
		chance := rand.New(rand.NewPCG(w.chance.Uint64(), 4))
		w.load.workers.Go(func() { w.load.one("parked", fmt.Sprintf("parked-%d", i), chance) })
	}
}

// words are the last words of all services.
func (w *world) words() string {
	var b strings.Builder
	names := slices.Clone(w.services)
	for _, n := range w.nodes {
		names = append(names, n.name)
	}
	for _, name := range names {
		fmt.Fprintf(&b, "\n%s: %s", name, w.lastWords(name))
	}
	return b.String()
}

func (w *world) progress() string {
	w.load.mu.Lock()
	defer w.load.mu.Unlock()
	ended, acked := 0, 0
	for _, tk := range w.load.tasks {
		if tk.acked {
			acked++
		}
		if !tk.ended.IsZero() {
			ended++
		}
	}
	return fmt.Sprintf("%d tasks taken, %d runs ended, %d answers", acked, ended, len(w.load.answers))
}

func (l *load) ended() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tk := range l.tasks {
		if !tk.ended.IsZero() {
			n++
		}
	}
	return n
}

// fault counts a fault, and notes its end once do has returned.
func (w *world) fault(kind string, do func()) {
	if w.ctx.Err() != nil {
		return
	}
	do()
	w.healed = append(w.healed, time.Now())
	w.counts[kind]++
}

// between is a random time.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.chance.Int64N(int64(most-least)))
}

// rest lets the world go on for a while.
func (w *world) rest(least, most time.Duration) { pause(w.ctx, w.between(least, most)) }

// wholeAgain waits until the nodes agree.
func (w *world) wholeAgain(what string) {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	if !until(ctx, func() bool { return w.whole(ctx) }) {
		w.v.violate("LIFE-10: after %s the nodes did not agree again within a minute", what)
	}
}

// rolling restarts all services with SIGTERM, replica by replica, several times. Nothing but that happens, so not one
// outcome may be unknown (SAFE-13).
func (w *world) rolling() {
	for range 3 * w.rounds {
		for replica := range 2 {
			w.fault("SIGTERM restart of one replica of each service", func() {
				done := make(chan struct{})
				roles := events.Services()
				for _, r := range roles {
					name := fmt.Sprintf("%s.%d", r, replica+1)
					go func() {
						w.stop(name, syscall.SIGTERM)
						w.start(name)
						done <- struct{}{}
					}()
				}
				for range roles {
					<-done
				}
			})
			w.rest(500*time.Millisecond, 1500*time.Millisecond)
		}
	}
	w.closed(w.load.openRuns())
	if n := w.unknowns(); n != 0 {
		w.v.violate("SAFE-13: rolling restarts left %d unknown outcomes", n)
	} else {
		w.v.row("unknown outcomes after rolling restarts", n, "0")
	}
}

// closed waits until runs have ended: a call that was lost is told so within that time.
func (w *world) closed(ids []string) {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	until(ctx, func() bool {
		open := w.load.openRuns()
		return !slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(open, id) })
	})
}

// unknowns counts the calls of ended runs whose outcome no one knows.
func (w *world) unknowns() (n int) {
	w.load.mu.Lock()
	defer w.load.mu.Unlock()
	for _, tk := range w.load.tasks {
		for _, c := range run.All(tk.state.ToolCallHistory) {
			if c.Code == events.OutcomeUnknown {
				n++
			}
		}
	}
	return n
}

// killServices kills each service process once, in any order.
func (w *world) killServices() {
	for range w.rounds {
		names := slices.Clone(w.services)
		w.chance.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			role, _, _ := strings.Cut(name, ".")
			w.fault("kill -9 of a "+role, func() {
				w.stop(name, syscall.SIGKILL)
				w.rest(100*time.Millisecond, 800*time.Millisecond)
				w.start(name)
			})
			w.rest(500*time.Millisecond, 1500*time.Millisecond)
		}
	}
}

// killNodes kills each node once, the leader of the log once more, and then all at the same time.
func (w *world) killNodes() {
	for range w.rounds {
		names := []string{"n1", "n2", "n3"}
		w.chance.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range append(names, "") {
			if name == "" {
				if name = w.leader(w.ctx); name == "" {
					name = "n1"
				}
			}
			w.fault("kill -9 of a NATS node", func() {
				w.stop(name, syscall.SIGKILL)
				w.rest(500*time.Millisecond, 2*time.Second)
				w.start(name)
			})
			w.wholeAgain("kill -9 of " + name)
			w.rest(200*time.Millisecond, time.Second)
		}
		w.fault("kill -9 of all NATS nodes at once", func() {
			for _, name := range names {
				w.signal(name, syscall.SIGSTOP)
			}
			for _, name := range names {
				w.stop(name, syscall.SIGKILL)
			}
			for _, name := range names {
				w.start(name)
			}
		})
		w.wholeAgain("kill -9 of all nodes")
	}
}

// settle ends the load: no new runs, the parked ones are answered, and all are followed to their end.
func (w *world) settle() {
	w.load.stop()
	parked := 0
	w.load.mu.Lock()
	for _, tk := range w.load.tasks {
		if tk.kind == "parked" && len(tk.state.Waiting()) == 1 {
			parked++
		}
	}
	w.load.mu.Unlock()
	w.v.row("runs parked at a gate through all faults", parked, "2")
	if parked != 2 {
		w.v.violate("GATE-12: %d of 2 parked runs wait at their gate after all faults", parked)
	}
	close(w.load.answerParks)
	done := make(chan struct{})
	go func() { w.load.workers.Wait(); close(done) }()
	known, since := 0, time.Now()
	for look := time.NewTicker(time.Second); ; {
		select {
		case <-look.C: // a busy machine is slow, and goes on
			if now := w.load.heard(); now > known {
				known, since = now, time.Now()
			}
			if time.Since(since) < still && w.ctx.Err() == nil {
				continue
			}
		case <-done:
		}
		look.Stop()
		break
	}
	w.load.quit()
	<-done
}

// still is how long a station may say nothing while runs are not over, before it is judged.
const still = 90 * time.Second

// heard counts the events that the station said were stored.
func (l *load) heard() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, evs := range l.received {
		n += len(evs)
	}
	return n
}
