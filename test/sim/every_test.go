package sim

import (
	"fmt"
	"testing"

	"github.com/inspan/inspan/internal/mailbox"
)

// everyPlay is the small world, played in one order: what waited longest goes on first.
func everyPlay(first, second string, inject map[int]verdict) Play {
	return everyIn(small(first, second), inject)
}

func everyIn(s Scene, inject map[int]verdict) Play { return Play{Scene: s, Inject: inject} }

// faults are what is injected: a crash on either side of an operation, a message that is delivered again because its
// acknowledgement was lost, an append whose answer was lost.
var faults = []verdict{before, after, again}

// pairs of effect classes that the two calls of the small world have.
var classes = [][2]string{{"pay", "put"}, {"note", "pay"}, {"put", "note"}, {"look", "pay"}}

func TestEveryOperation(t *testing.T) {
	t.Run("SAFE-7 GATE-12 TOOL-22 a crash or a duplicate at every fifth operation: note, then pay", func(t *testing.T) {
		plays := 0
		someOf(t, small("note", "pay"), 5, func(Outcome) { plays++ })
		if plays < 40 {
			t.Errorf("only %d plays: the small world is not what it was", plays)
		}
		t.Logf("%d plays", plays)
	})
	t.Run("SAFE-7 GATE-12 TOOL-22 a crash or a duplicate at operations: pay, then put", func(t *testing.T) {
		plays := 0
		someOf(t, small("pay", "put"), 13, func(Outcome) { plays++ })
		if plays < 19 {
			t.Errorf("only %d plays: the small world is not what it was", plays)
		}
	})
}

func TestEveryOperationDirect(t *testing.T) {
	for _, c := range classes[:2] {
		t.Run(fmt.Sprintf("LIFE-14 C30 a crash or a duplicate at operations of a direct run: %s, then %s", c[0], c[1]), func(t *testing.T) {
			plays, direct := 0, 0
			someOf(t, smallDirect(c[0], c[1]), 7, func(out Outcome) {
				plays++
				direct += out.Counts["direct runs"]
			})
			if plays < 20 || direct < plays {
				t.Errorf("only %d plays with %d direct runs", plays, direct)
			}
			t.Logf("%d plays", plays)
		})
	}
}

func TestEveryOperationGit(t *testing.T) {
	t.Run("GIT-10 GATE-13 SAFE-7 a crash or a duplicate at operations of a run in git: nothing is pushed that no one approved, or told that is not so", func(t *testing.T) {
		plays, pushed := 0, 0
		someOf(t, smallGit("put"), 19, func(out Outcome) {
			plays++
			pushed += out.Counts["deliveries pushed"]
		})
		if plays < 23 || pushed < plays/2 {
			t.Errorf("only %d plays, in %d of which something was pushed", plays, pushed)
		}
		t.Logf("%d plays, %d pushed", plays, pushed)
	})
}

// someOf plays a scene with a fault at one operation in so many. The robustness programme plays every fault at every
// operation of the small world, and many more of the others (TestShareOfPairs, TestShareOfWorlds); TestEveryWorld plays
// all of each.
func someOf(t *testing.T, s Scene, stride int, next func(out Outcome)) {
	t.Helper()
	for i, v := range faults {
		for at := i * stride / len(faults); ; at += stride {
			out := must(t, everyIn(s, map[int]verdict{at: v}))
			if at >= out.Ops {
				break
			}
			next(out)
		}
	}
}

// troubled is a play of a small world in random trouble, in every other one with one process of each role.
func troubled(s Scene, seed uint64) Play {
	return Play{Seed: seed, Trouble: troubleOf(seed), Scene: s, Together: seed%3 == 0, Alone: seed%2 == 0}
}

func TestWorldsInTrouble(t *testing.T) {
	t.Run("SAFE-3 SAFE-7 SUB-8 small worlds in random trouble, with two processes of each role and with one", func(t *testing.T) {
		all, counts := worlds(), map[string]int{}
		for i, name := range rank(all) {
			out := must(t, troubled(all[name], uint64(i)))
			for k, n := range out.Counts {
				counts[k] += n
			}
		}
		for seed := uint64(200); seed < 230; seed += 2 { // a planner dies between a child's plan and its first step
			must(t, troubled(all["children"], seed))
		}
		if counts["crash before"]+counts["crash after"] < len(all) {
			t.Errorf("only %d crashes in %d worlds", counts["crash before"]+counts["crash after"], len(all))
		}
	})
}

// worlds are small worlds of what runs may have beside the kernel, each with what must come up in its plays.
func worlds() map[string]Scene {
	all := map[string]Scene{
		"trees kept at the ends of calls": smallTrees("pay", "put", atCalls),
		"trees kept at the ends of steps": smallTrees("note", "put", atSteps),
		"hooks that interrupt":            smallHooks("pay", "put"),
		"calls of a server":               smallServer("pay", "put"),
		"acceptance checks":               smallChecks("pay", "put"),
		"acceptance checks in git":        smallChecksInGit("put", false),
		"acceptance checks of a person":   smallJudged("put"),
		"children":                        smallChildren("pay", "put", false),
		"a direct child":                  smallFamily("pay", "put", false, true),
		"a call given away":               smallDelegation("pay", "put", false, false),
		"a call given to the background":  smallDelegation("pay", "put", true, false),
		"a call given away, and a stop":   smallDelegation("put", "put", false, true),
		"a control flow":                  smallFlow("pay", "put"),
		"agents woken while they wait":    smallWake("pay", "put"),
		"a step that only checks":         smallCheckStep("pay", "put"),
		"children, and a stop":            smallChildren("pay", "put", true),
		"checkpoints by the clock":        smallDream("put", "note"),
		"a direct run":                    smallDirect("pay", "put"),
		"a direct run, and a note":        smallDirect("note", "pay"),
		"a run in git":                    smallGit("put"),
		"reviews of another agent":        smallReview("put"),
		"grants of a tree":                smallTreeGrants(),
		"an approval that is escalated":   smallEscalation("put"),
		"an answer that is interrupted":   smallCuts("pay", "put"),
		"a work item":                     smallWork("pay", "put", false),
		"a work item, and a clearing":     smallWork("put", "put", true),
		"a named agent":                   smallAgent("pay", "", true),
		"a named agent that hands off":    smallAgent("pay", mailbox.Handoff, true),
		"a named agent that is stopped":   smallAgent("put", mailbox.Stop, true),
	}
	for name, s := range worktrees() {
		all["children in worktrees: "+name] = s
	}
	return all
}

func TestEveryOperationTrees(t *testing.T) {
	for _, when := range []string{atCalls, atSteps} {
		t.Run("WS-13 SAFE-8 a crash or a duplicate at operations of a run whose workspace follows it, kept at the end of each "+when, func(t *testing.T) {
			plays, restored := 0, 0
			someOf(t, smallTrees("pay", "put", when), 13, func(out Outcome) {
				plays++
				restored += out.Counts["trees restored"]
			})
			if plays < 20 || restored == 0 {
				t.Errorf("only %d plays, with %d trees restored", plays, restored)
			}
			t.Logf("%d plays, %d trees restored", plays, restored)
		})
	}
}

func TestEveryOperationChecks(t *testing.T) {
	t.Run("PLUS-10 SAFE-7 a crash or a duplicate at operations of a run with acceptance checks: no step is over that its checks do not vouch for", func(t *testing.T) {
		plays, failed := 0, 0
		someOf(t, smallChecks("pay", "put"), 23, func(out Outcome) {
			plays++
			failed += out.Counts["checks failed"]
		})
		if plays < 11 || failed < plays {
			t.Errorf("only %d plays, in which %d checks failed", plays, failed)
		}
		t.Logf("%d plays, %d failed checks", plays, failed)
	})
}

func TestEveryOperationDelivery(t *testing.T) {
	t.Run("PLUS-10 SAFE-7 a crash or a duplicate at operations between the checks of a run and its delivery: only files that were checked are pushed", func(t *testing.T) {
		plays, pushed := map[bool]int{}, map[bool]int{}
		for _, stray := range []bool{false, true} {
			someOf(t, smallChecksInGit("put", stray), 17, func(out Outcome) {
				plays[stray]++
				pushed[stray] += out.Counts["checked deliveries pushed"]
			})
		}
		if plays[true] < 15 || pushed[false] == 0 || pushed[true] > 0 {
			t.Errorf("%v plays with %v pushes", plays, pushed)
		}
	})
}

func TestEveryOperationJudged(t *testing.T) {
	t.Run("PLUS-10 GATE-8 a crash or a duplicate at operations of a run that a person judges: no step is over without a yes to these very files", func(t *testing.T) {
		plays, done := 0, 0
		someOf(t, smallJudged("put"), 17, func(out Outcome) {
			plays++
			done += out.Counts["steps that a person accepted"]
		})
		if plays < 15 || done < plays/2 {
			t.Errorf("%d plays, in which a person accepted %d steps", plays, done)
		}
	})
}

func TestEveryOperationHooks(t *testing.T) {
	t.Run("GUARD-2 GUARD-3 GUARD-9 a crash or a duplicate at operations of a run that hooks interrupt at every point: nothing goes past one", func(t *testing.T) {
		plays, let := 0, 0
		someOf(t, smallHooks("pay", "put"), 31, func(out Outcome) {
			plays++
			let += out.Counts["hooks that let go on"]
		})
		if plays < 18 || let < 4*plays {
			t.Errorf("only %d plays, with %d hooks that let go on", plays, let)
		}
		t.Logf("%d plays, %d hooks that let go on", plays, let)
	})
}

func TestEveryOperationServer(t *testing.T) {
	t.Run("SAFE-7 TOOL-22 a crash or a duplicate at operations of a run whose calls a server carries out", func(t *testing.T) {
		plays, servers := 0, 0
		someOf(t, smallServer("pay", "put"), 13, func(out Outcome) {
			plays++
			servers += out.Counts["servers"]
		})
		if plays < 20 || servers < plays {
			t.Errorf("only %d plays, with %d servers", plays, servers)
		}
		t.Logf("%d plays, %d servers", plays, servers)
	})
}
