//go:build slow

package sim

import (
	"maps"
	"slices"
	"testing"
)

// TestEveryWorld plays each small world of worlds with every fault at every operation: what the ordinary tests take a
// sample of.
func TestEveryWorld(t *testing.T) {
	all := worlds()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			plays, counts := 0, map[string]int{}
			someOf(t, all[name], 1, func(out Outcome) {
				plays++
				for k, n := range out.Counts {
					counts[k] += n
				}
			})
			if plays < 200 {
				t.Errorf("only %d plays: the small world is not what it was", plays)
			}
			t.Logf("%d plays, %v", plays, counts)
		})
	}
}
