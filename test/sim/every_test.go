package sim

import (
	"fmt"
	"testing"
)

// everyPlay is the small world, played in one order: what waited longest goes on first.
func everyPlay(first, second string, inject map[int]verdict) Play {
	return Play{Scene: small(first, second), Inject: inject}
}

// faults are what is injected: a crash on either side of an operation, a message that is delivered again because its
// acknowledgement was lost, an append whose answer was lost.
var faults = []verdict{before, after, again}

// every plays the small world with a fault at every operation, and calls next after each with its number of operations.
func every(t *testing.T, first, second string, with map[int]verdict, from int, next func(at int, v verdict, out Outcome)) {
	t.Helper()
	for _, v := range faults {
		for at := from; ; at++ {
			inject := map[int]verdict{at: v}
			for k, w := range with {
				inject[k] = w
			}
			out := must(t, everyPlay(first, second, inject))
			if at >= out.Ops {
				break
			}
			next(at, v, out)
		}
	}
}

// pairs of effect classes that the two calls of the small world have.
var classes = [][2]string{{"pay", "put"}, {"note", "pay"}, {"put", "note"}, {"look", "pay"}}

func TestEveryOperation(t *testing.T) {
	for _, c := range classes[:2] {
		t.Run(fmt.Sprintf("SAFE-7 GATE-12 TOOL-22 a crash or a duplicate at every operation: %s, then %s", c[0], c[1]), func(t *testing.T) {
			plays := 0
			every(t, c[0], c[1], nil, 0, func(int, verdict, Outcome) { plays++ })
			if plays < 200 {
				t.Errorf("only %d plays: the small world is not what it was", plays)
			}
			t.Logf("%d plays", plays)
		})
	}
}
