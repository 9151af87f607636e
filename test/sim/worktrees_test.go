package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// smallWorktrees is the small world of a run in git that leaves a file in its tree and then gives two steps to children in
// worktrees. Each leaves a file: the same one where they clash.
func smallWorktrees(tool string, clash bool) Scene {
	r := SceneRun{ID: "r1", Autonomy: 3, Budget: 40, Retries: 2, Git: true,
		Steps: []SceneStep{{ID: "a", Turns: [][]SceneCall{{{Tool: tool, N: 1}}}}}}
	var kids []SceneRun
	for i, step := range []string{"b", "c"} {
		call := SceneCall{Tool: tool, N: 2 + i}
		if clash {
			call.N = 2
		}
		for attempt := 1; attempt <= events.MaxChildAttempts; attempt++ {
			kids = append(kids, SceneRun{ID: kidAt(r.ID, step, attempt), Kid: true, Git: true, Autonomy: 3, Budget: 10, Retries: 2,
				Steps: []SceneStep{{ID: "step-1", Turns: [][]SceneCall{{call}}}}})
		}
		r.Steps = append(r.Steps, SceneStep{ID: step, Needs: []string{"a"}, Kid: "agent-" + kidAt(r.ID, step, 1), Tree: true})
	}
	return Scene{Runs: append([]SceneRun{r}, kids...)}
}

// again has the first child of the first step that has one fail: the next one begins where it did.
func (s Scene) again() Scene {
	s.Runs[1].Refuses = true
	return s
}

func kidAt(parent, step string, attempt int) string {
	return names.Child(parent, step, "", attempt)
}

// branches reports whether a step of the scene is given to a child in a worktree.
func (s Scene) branches() bool {
	for _, r := range s.Runs {
		for _, st := range r.Steps {
			if st.Tree {
				return true
			}
		}
	}
	return false
}

// disturbs has somebody pause a run as soon as it has a child, and stop it while the work of one is merged, once each and
// before anything else happens, where the scene has that.
func (h *person) disturbs(runID string, s run.State) {
	merging := slices.ContainsFunc(slices.Collect(maps.Values(s.Open)), func(c *run.Call) bool { return c.Tool == events.GitMerge })
	for action, is := range map[string]bool{"pause": h.w.play.Scene.Pauses && len(s.Living()) > 0, "stop": h.w.play.Scene.Stops && merging} {
		if key := action + " " + runID; is && !h.met[key] {
			h.met[key] = true
			h.urgent = append(h.urgent, act{events.ControlSubject(station, runID), fmt.Sprintf(`{"action":%q}`, action), key})
		}
	}
}

var treesFlag = flag.Uint64("worktrees", 3, "TestWorktreesInTrouble: how many seeds")

// worktrees are the small worlds of children in worktrees.
func worktrees() map[string]Scene {
	all := map[string]Scene{
		"siblings":                     smallWorktrees("put", false),
		"siblings, and one fails":      smallWorktrees("pay", false).again(),
		"siblings that clash":          smallWorktrees("put", true),
		"a stop":                       smallWorktrees("put", false),
		"a pause":                      smallWorktrees("pay", false),
		"a branch that somebody moves": smallWorktrees("put", false),
		"a branch that somebody moves once it is merged": smallWorktrees("put", false),
	}
	change := func(name string, do func(*Scene)) {
		s := all[name]
		do(&s)
		all[name] = s
	}
	change("a stop", func(s *Scene) { s.Stops = true })
	change("a pause", func(s *Scene) { s.Pauses = true })
	change("a branch that somebody moves", func(s *Scene) { s.Moves = beforeMerge })
	change("a branch that somebody moves once it is merged", func(s *Scene) { s.Moves = afterMerge })
	return all
}

// count adds up what happened.
func (c counts) add(out Outcome) {
	c["plays"]++
	for k, n := range out.Counts {
		c[k] += n
	}
}

type counts map[string]int

// least fails the test where something came up too rarely to prove anything.
func (c counts) least(t *testing.T, want map[string]int) {
	t.Helper()
	for _, k := range rank(want) {
		if c[k] < want[k] {
			t.Errorf("%q came up %d times, want %d: these plays prove nothing about it", k, c[k], want[k])
		}
	}
	for _, k := range rank(c) {
		t.Logf("%6d %s", c[k], k)
	}
}

func TestWorktreesCalm(t *testing.T) {
	t.Run("SUB-7 GIT-7 GIT-8 without trouble both siblings begin with all of their parent's tree, and the work of both is merged and pushed", func(t *testing.T) {
		all := counts{}
		for seed := range uint64(4) {
			all.add(must(t, Play{Seed: seed, Trouble: Trouble{Events: 1}, Scene: smallWorktrees("put", false), Together: seed%2 == 0}))
		}
		all.least(t, map[string]int{"children merged": 8, "children that began at their commit": 8, "deliveries pushed": 4})
	})
}

func TestEveryOperationWorktrees(t *testing.T) {
	for name, want := range map[string]map[string]int{
		"siblings":                     {"plays": 7, "children merged": 14, "deliveries pushed": 7},
		"siblings, and one fails":      {"plays": 5, "children merged": 10, "children failed": 5},
		"siblings that clash":          {"plays": 5, "children merged": 5, "merges in conflict": 5, "children not merged": 5},
		"a stop":                       {"plays": 5, "runs that stop": 5},
		"a pause":                      {"plays": 5, "children merged": 10, "runs that pause": 5},
		"a branch that somebody moves": {"plays": 5, "children not merged": 5},
		"a branch that somebody moves once it is merged": {"plays": 5, "children merged": 10},
	} {
		t.Run("SUB-7 GIT-7 GIT-8 SAFE-7 a crash or a duplicate at operations of a run with children in worktrees, in any log: "+name, func(t *testing.T) {
			all := counts{}
			someOf(t, worktrees()[name], 179, all.add)
			all.least(t, want)
		})
	}
}

func TestEveryOperationMerge(t *testing.T) {
	for _, name := range []string{"siblings", "a branch that somebody moves once it is merged"} {
		t.Run("GIT-8 SAFE-7 a crash or a duplicate at every operation around the merge of a child: "+name, func(t *testing.T) {
			all := counts{}
			for i, at := range must(t, everyIn(worktrees()[name], map[int]verdict{})).Merges {
				for _, v := range faults[:2] { // TestEveryWorld has all three
					if name == "siblings" || i%2 == 0 {
						all.add(must(t, everyIn(worktrees()[name], map[int]verdict{at: v})))
					}
				}
			}
			all.least(t, map[string]int{"plays": 14, "children merged": 28, "crash before": 7, "crash after": 7})
		})
	}
}

func TestWorktreesInTrouble(t *testing.T) {
	t.Run("SUB-7 GIT-7 GIT-8 SAFE-4 SAFE-7 trouble of every kind around children in worktrees: what is merged is merged once, and what a step says of the tree is so", func(t *testing.T) {
		all := counts{}
		for seed := range *treesFlag {
			all.add(must(t, worktreesOf(seed)))
		}
		all.least(t, map[string]int{"steps branched": int(*treesFlag)}) //nolint:gosec // a small number
	})
}

// worktreesOf is the play of a seed with children in worktrees.
func worktreesOf(seed uint64) Play {
	scenes := worktrees()
	s := scenes[rank(scenes)[seed%uint64(len(scenes))]]
	s.Rude = seed%5 == 4
	return Play{Seed: seed, Trouble: troubleOf(seed), Scene: s, Together: seed%3 == 0}
}
