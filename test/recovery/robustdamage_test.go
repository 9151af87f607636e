//go:build slow

package recovery

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/inspan/inspan/test/robust/report"
)

const (
	robustFlips = 1000
	// flippers work side by side.
	flippers = 2
	// wholeEvery flips a station is started whatever the check of the files says.
	wholeEvery = 10
)

// drawn is one bit of one of the specimens.
type drawn struct {
	no, of int
	rel    string
	at     int64
	bit    uint
}

// TestRobustDamage turns a thousand random bits over all files of a store, one at a time.
func TestRobustDamage(t *testing.T) {
	n := seed(t)
	p := report.Part{Name: "damage", Title: "Stores with a flipped bit", Seed: n}
	r := rand.New(rand.NewPCG(n, 1))
	specimens := []*specimen{grow(t, false), grow(t, true)}
	bits := make(chan drawn)
	var mu sync.Mutex
	seen := tally{}
	var workers sync.WaitGroup
	for range flippers {
		workers.Go(func() {
			for d := range bits {
				verdict, why := specimens[d.of].flip(t, d.rel, d.at, d.bit, d.no%wholeEvery == 0)
				mu.Lock()
				seen.add(kindOf(d.rel), verdict)
				if verdict == flipSilent {
					p.Violate("seed %d: flip %d, bit %d of byte %d of %s: nothing reported it: %s", n, d.no, d.bit, d.at, d.rel, why)
				}
				mu.Unlock()
			}
		})
	}
	for i := range robustFlips {
		d := drawn{no: i, of: i % len(specimens)}
		d.rel, d.at, d.bit = specimens[d.of].draw(r)
		bits <- d
	}
	close(bits)
	workers.Wait()
	p.Add("single bits turned, over all files of a store that ended by itself and of one that was killed", robustFlips, fmt.Sprint(robustFlips))
	p.Add("repaired: everything is as it was", seen.count(flipRepaired), "")
	p.Add("reported as lost, and new work refused", seen.count(flipReported), "")
	p.Add("without effect on anything that can be observed", seen.count(flipHarmless), "")
	p.Add("silent: what can be observed differs and nothing reported it", seen.count(flipSilent), "0")
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		p.Add("of these in "+kind, seen.line(kind), "")
	}
	p.Untried = append(p.Untried, "Several flips at once: damage beyond one bit of a message is cut out and reported.")
	if err := p.Save(); err != nil {
		t.Error(err)
	}
	t.Logf("\n%s", seen)
	for _, v := range p.Violations {
		t.Error(v)
	}
}
