//go:build slow

package sim

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
)

// TestPairs plays the small world with every pair of faults, at every two operations of it, for each mix of effect
// classes: what TestRobust takes a sample of. Its children have no time limit but that of `go test`.
func TestPairs(t *testing.T) {
	procs := runtime.NumCPU()
	shares := make([]share, procs)
	var wg sync.WaitGroup
	for i := range procs {
		wg.Go(func() {
			shares[i] = child(t, "TestShareOfAllPairs", fmt.Sprint("-seed=", i), fmt.Sprint("-many=", procs), "-test.timeout=0")
		})
	}
	wg.Wait()
	for _, s := range shares {
		if s.Violation != "" {
			t.Error(s.Violation)
		}
	}
	all := sum2(shares)
	t.Logf("%d plays, %d operations, %v", all.Plays, all.Ops, all.Counts)
}

// TestShareOfAllPairs plays every pair whose first fault is this child's.
func TestShareOfAllPairs(t *testing.T) {
	if os.Getenv("INSPAN_SIM_CHILD") == "" {
		return // a child of TestPairs
	}
	s := share{Counts: map[string]int{}}
	try := func(c [2]string, inject map[int]verdict) int {
		out := Run(t, everyPlay(c[0], c[1], inject))
		s.add(out)
		if out.Violation != "" && s.Violation == "" {
			s.Violation = fmt.Sprintf("%s then %s, injected %s: %s", c[0], c[1], injected(inject), out.Violation)
		}
		return out.Ops
	}
	n := 0
	for _, c := range classes {
		ops := try(c, map[int]verdict{})
		for first := range ops {
			for _, v := range faults {
				if n++; n%int(*manyFlag) == int(*seedFlag) {
					continueWith(try, c, first, v)
				}
			}
		}
		fmt.Printf("%s then %s: %d operations, %d plays so far, broken: %q\n", c[0], c[1], ops, s.Plays, s.Violation)
	}
	tell(t, s)
}

// continueWith plays a first fault alone and then with each fault at each later operation.
func continueWith(try func([2]string, map[int]verdict) int, c [2]string, first int, v verdict) {
	ops := try(c, map[int]verdict{first: v})
	for second := first + 1; second < ops; second++ {
		for _, v2 := range faults {
			try(c, map[int]verdict{first: v, second: v2})
		}
	}
}
