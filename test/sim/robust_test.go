//go:build slow

package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/test/robust/report"
)

// share is what one child process played.
type share struct {
	Plays, Ops int
	Counts     map[string]int
	Violation  string
}

// fromEnv reads a number, or returns what there is without it.
func fromEnv(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, text, err)
	}
	return n
}

// TestRobust is the simulation's part of the programme: INSPAN_SIM_SEEDS seeds from INSPAN_ROBUST_SEED on, and the
// small world with every fault at every operation, and with INSPAN_SIM_PAIRS pairs of them. A play has one processor,
// so each processor of the machine gets a process.
func TestRobust(t *testing.T) {
	first, many := fromEnv(t, "INSPAN_ROBUST_SEED", 1), fromEnv(t, "INSPAN_SIM_SEEDS", 20_000)
	procs := uint64(runtime.NumCPU())
	shares := make([]share, procs)
	var wg sync.WaitGroup
	for i := range procs {
		wg.Go(func() {
			shares[i] = child(t, "TestShareOfSeeds", fmt.Sprint("-seed=", first+i*(many/procs)), fmt.Sprint("-many=", many/procs))
		})
	}
	wg.Wait()
	small := make([]share, procs)
	for i := range procs {
		wg.Go(func() {
			small[i] = child(t, "TestShareOfPairs", fmt.Sprint("-seed=", i+1), fmt.Sprint("-many=", procs))
		})
	}
	wg.Wait()
	others := make([]share, procs)
	for i := range procs {
		wg.Go(func() {
			others[i] = child(t, "TestShareOfWorlds", fmt.Sprint("-seed=", i), fmt.Sprint("-many=", procs))
		})
	}
	wg.Wait()
	p := report.Part{Name: "sim", Title: "Simulation of all roles over a model of JetStream", Seed: first}
	all, every, other := sum2(shares), sum2(small), sum2(others)
	p.Add("seeded plays", all.Plays, fmt.Sprint(many/procs*procs))
	p.Add("operations in them", all.Ops, "")
	p.Add("plays of the small world, every fault at every operation and pairs", every.Plays, "")
	p.Add(fmt.Sprintf("plays of %d other small worlds, faults at operations", len(worlds())), other.Plays, "")
	for _, k := range slices.Sorted(maps.Keys(all.Counts)) {
		p.Add(k, all.Counts[k]+every.Counts[k]+other.Counts[k], "")
	}
	for _, s := range slices.Concat(shares, small, others) {
		if s.Violation != "" {
			p.Violate("%s", s.Violation)
			t.Error(s.Violation)
		}
	}
	p.Add("rules broken", len(p.Violations), "0")
	if err := p.Save(); err != nil {
		t.Error(err)
	}
}

func sum2(all []share) share {
	total := share{Counts: map[string]int{}}
	for _, s := range all {
		total.Plays += s.Plays
		total.Ops += s.Ops
		for k, n := range s.Counts {
			total.Counts[k] += n
		}
	}
	return total
}

// child runs one of the tests below in a process of its own.
func child(t *testing.T, name string, args ...string) share {
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-test.run=^" + name + "$", "-test.timeout=2h"}, args...)...)
	cmd.Env = append(os.Environ(), "INSPAN_SIM_CHILD=1", "GOGC=400", "TMPDIR="+temp(t)) // plays are short and small
	out, err := cmd.CombinedOutput()
	_, rest, found := bytes.Cut(out, []byte("SHARE "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	var s share
	if !found || json.Unmarshal(line, &s) != nil {
		s.Violation = fmt.Sprintf("%s %v: %v: %.2000s", name, args, err, out)
	}
	return s
}

// temp is where plays write the files of workspaces: in memory where the machine has such a place, as they are
// thousands.
func temp(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "inspan-sim-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func tell(t *testing.T, s share) {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("SHARE %s\n", b)
}

func (s *share) add(out Outcome) {
	s.Plays++
	s.Ops += out.Ops
	for k, n := range out.Counts {
		s.Counts[k] += n
	}
}

// TestShareOfSeeds plays the seeds of one child.
func TestShareOfSeeds(t *testing.T) {
	if os.Getenv("INSPAN_SIM_CHILD") == "" {
		return // a child of TestRobust
	}
	s := share{Counts: map[string]int{}}
	for seed := *seedFlag; seed < *seedFlag+*manyFlag && s.Violation == ""; seed++ {
		out := Run(t, playOf(seed))
		s.add(out)
		if out.Violation != "" {
			s.Violation = fmt.Sprintf("seed %d: %s (go test ./test/sim -run Hunt -v -args -seed %d)", seed, out.Violation, seed)
		}
	}
	tell(t, s)
}

// TestShareOfPairs plays the small world with a fault at every operation of this child's share, and with a second fault
// at every later one until its share of INSPAN_SIM_PAIRS plays is used up.
func TestShareOfPairs(t *testing.T) {
	if os.Getenv("INSPAN_SIM_CHILD") == "" {
		return // a child of TestRobust
	}
	n, of, most := 0, int(*manyFlag), int(fromEnv(t, "INSPAN_SIM_PAIRS", 6_000) / *manyFlag)
	s := share{Counts: map[string]int{}}
	try := func(c [2]string, inject map[int]verdict) Outcome {
		out := Run(t, everyPlay(c[0], c[1], inject))
		s.add(out)
		if out.Violation != "" && s.Violation == "" {
			s.Violation = fmt.Sprintf("%s then %s, injected %s: %s", c[0], c[1], injected(inject), out.Violation)
		}
		return out
	}
	for _, c := range classes {
		ops := try(c, map[int]verdict{}).Ops
		for at := range ops {
			for _, v := range faults {
				if n++; n%of == int(*seedFlag)%of {
					try(c, map[int]verdict{at: v})
				}
			}
		}
	}
	// Pairs: a stride that shares no factor with their number visits them in an even scatter.
	c := classes[0]
	ops := try(c, map[int]verdict{}).Ops
	total := ops * ops * len(faults) * len(faults)
	for i := range most {
		k := (i*of + int(*seedFlag)) * 7919 % total
		first, second := k%ops, k/ops%ops
		v1, v2 := faults[k/ops/ops%len(faults)], faults[k/ops/ops/len(faults)%len(faults)]
		if first != second {
			try(c, map[int]verdict{first: v1, second: v2})
		}
	}
	tell(t, s)
}

// TestShareOfWorlds plays this child's share of the other small worlds: about INSPAN_SIM_WORLD plays of each with faults
// at operations in an even scatter, and half as many in random trouble.
func TestShareOfWorlds(t *testing.T) {
	if os.Getenv("INSPAN_SIM_CHILD") == "" {
		return // a child of TestRobust
	}
	s, all, most := share{Counts: map[string]int{}}, worlds(), int(fromEnv(t, "INSPAN_SIM_WORLD", 120))
	for i, name := range rank(all) {
		if i%int(*manyFlag) != int(*seedFlag) {
			continue
		}
		try := func(inject map[int]verdict) Outcome {
			out := Run(t, everyIn(all[name], inject))
			s.add(out)
			if out.Violation != "" && s.Violation == "" {
				s.Violation = fmt.Sprintf("%s, injected %s: %s", name, injected(inject), out.Violation)
			}
			return out
		}
		total := try(map[int]verdict{}).Ops * len(faults)
		for k := 0; k < total; k += max(1, total/most) {
			try(map[int]verdict{k / len(faults): faults[k%len(faults)]})
		}
		for seed := range uint64(most / 2) { //nolint:gosec // a small number
			out := Run(t, troubled(all[name], seed))
			if s.add(out); out.Violation != "" && s.Violation == "" {
				s.Violation = fmt.Sprintf("%s in trouble, seed %d: %s", name, seed, out.Violation)
			}
		}
	}
	tell(t, s)
}

func injected(m map[int]verdict) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%d:%s", k, strings.TrimSpace(words[m[k]])))
	}
	return strings.Join(all, ", ")
}
