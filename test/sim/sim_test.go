package sim

import (
	"flag"
	"maps"
	"os"
	"runtime"
	"slices"
	"testing"
)

var (
	seedFlag = flag.Uint64("seed", 0, "play this seed and tell its story")
	manyFlag = flag.Uint64("many", 0, "play so many seeds from -seed on")
	calmFlag = flag.Bool("calm", false, "with -seed: without trouble")
)

// One processor and one play at a time: what two goroutines do between two operations must not depend on which of two
// processors was faster.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// playOf makes the play of a seed.
func playOf(seed uint64) Play {
	return Play{Seed: seed, Trouble: troubleOf(seed), Scene: sceneOf(seed), Together: seed%3 == 0}
}

// calmOf makes the play of a seed without any trouble.
func calmOf(seed uint64) Play {
	p := playOf(seed)
	p.Trouble = Trouble{Events: 1}
	p.Scene.Rude, p.Scene.Leave = false, 0
	return p
}

// must plays and fails the test with the whole story where a rule is broken.
func must(t *testing.T, p Play) Outcome {
	t.Helper()
	out := Run(t, p)
	if out.Violation == "" {
		return out
	}
	p.Tell = true
	again := Run(t, p)
	t.Fatalf("seed %d: %s\nthe story (legend in doc.go; go test ./test/sim -run Seed -seed %d):\n%s", p.Seed, out.Violation, p.Seed, again.Story)
	return out
}

func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		return // only on demand
	}
	p := playOf(*seedFlag)
	if *manyFlag > 0 {
		for seed := *seedFlag; seed < *seedFlag+*manyFlag; seed++ {
			p = playOf(seed)
			if *calmFlag {
				p = calmOf(seed)
			}
			if out := Run(t, p); out.Violation != "" {
				t.Errorf("seed %d: %s", seed, out.Violation)
			}
		}
		return
	}
	if *calmFlag {
		p = calmOf(*seedFlag)
	}
	p.Tell = true
	out := Run(t, p)
	t.Logf("%d operations, %v\n%s", out.Ops, out.Counts, out.Story)
	if out.Violation != "" {
		t.Errorf("seed %d: %s", p.Seed, out.Violation)
	}
}

func TestCalm(t *testing.T) {
	t.Run("LIFE-1 without trouble every run does all that was asked, each effect once", func(t *testing.T) {
		for seed := uint64(1); seed <= 40; seed++ {
			must(t, calmOf(seed))
		}
	})
}

func TestTrouble(t *testing.T) {
	t.Run("SAFE-4 SAFE-7 SAFE-8 GATE-8 GUARD-9 whatever goes wrong, no rule is broken and every run comes to an end", func(t *testing.T) {
		counts := map[string]int{}
		for seed := uint64(1); seed <= 150; seed++ {
			for k, n := range must(t, playOf(seed)).Counts {
				counts[k] += n
			}
		}
		for _, k := range slices.Sorted(maps.Keys(counts)) {
			t.Logf("%6d %s", counts[k], k)
		}
	})
}

func TestSameSeedSameStory(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		p := playOf(seed)
		p.Tell = true
		a, b := Run(t, p), Run(t, p)
		if a.Digest != b.Digest {
			t.Errorf("seed %d gives two stories; they part at:\n%s", seed, parting(a.Story, b.Story))
		}
	}
}

// parting shows the first lines in which two stories differ.
func parting(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from := max(0, i-600)
	return a[from:min(len(a), i+300)] + "\n--- or ---\n" + b[from:min(len(b), i+300)]
}
