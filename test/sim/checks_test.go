package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
)

// checkNames are the commands of the acceptance checks of a run that has them; mostClaims is how often its agent may
// call a step done.
var checkNames = []string{"first", "second"}

const mostClaims = 3

// checks draws which runs have acceptance checks, and how often the second of them fails before it passes.
func (s *Scene) checks(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0xc4ec5))
	for i := range s.Runs {
		s.Runs[i].Checked, s.Runs[i].Unfit = rng.IntN(4) == 0, rng.IntN(mostClaims)
	}
	for i := range s.Runs {
		s.Runs[i].Stray, s.Runs[i].Judged = rng.IntN(3) == 0, rng.IntN(2) == 0
	}
}

// smallChecks is the small world with acceptance checks, of which one fails once.
func smallChecks(first, second string) Scene {
	s := small(first, second)
	s.Runs[0].Checked, s.Runs[0].Unfit = true, 1
	return s
}

// smallJudged is the small world with checks of which a person makes the last.
func smallJudged(first string) Scene {
	s := smallChecks(first, first)
	s.Runs[0].Steps, s.Runs[0].Judged = s.Runs[0].Steps[:1], true
	return s
}

// smallChecksInGit is the small world of a run in git with checks, behind which something changes the files where stray.
func smallChecksInGit(first string, stray bool) Scene {
	s := smallGit(first)
	s.Runs[0].Checked, s.Runs[0].Stray = true, stray
	return s
}

// checkouts are the repositories that checks read: each has the files that the harness found, and what strays made.
type checkouts struct{ b *toolbox }

func (checkouts) Files(context.Context, string, string, func(string) bool, func(gitwork.File) error) error {
	return nil
}

func (checkouts) Standing(context.Context, string, string) (gitwork.Standing, error) {
	return gitwork.Standing{}, nil
}

func (c checkouts) TreeOf(_ context.Context, dir, _ string, _ func(string) bool) (string, error) {
	return c.b.treeOf(dir), nil
}

// treeOf stands for the content of a workspace.
func (b *toolbox) treeOf(dir string) string {
	return fmt.Sprintf("%040x", 1<<40+b.strays[filepath.Base(dir)])
}

// strayed changes the files of a run behind its back, once.
func (b *toolbox) strayed(runID, dir string) {
	if r := b.w.play.Scene.run(runID); r != nil && r.Stray && b.strays[filepath.Base(dir)] == 0 {
		b.strays[filepath.Base(dir)]++
	}
}

// hasChecks reports whether a run of the scene has acceptance checks.
func (s Scene) hasChecks() bool {
	for _, r := range s.Runs {
		if r.Checked {
			return true
		}
	}
	return false
}

func (r SceneRun) accept() *events.Accept {
	if !r.Checked {
		return nil
	}
	a := &events.Accept{MaxAttempts: mostClaims}
	for _, name := range checkNames {
		a.Checks = append(a.Checks, events.Check{Kind: events.CheckCommand, Run: name})
	}
	if r.Judged {
		a.Checks = append(a.Checks, events.Check{Kind: events.CheckSchema, Schema: json.RawMessage(`{"type":"object"}`)},
			events.Check{Kind: events.CheckPerson, Name: "person"})
	}
	if r.Reviewer != "" {
		a.Checks = append(a.Checks, events.Check{Kind: events.CheckReview, Agent: r.Reviewer, Rubric: "it is right"})
	}
	return a
}

// verdicts are how often each check of a run was carried out, and how often it passed.
type verdicts struct{ made, passed map[string]int }

// check carries out the command of a check.
func (r room) check(ctx context.Context, l *life, command string, out io.Writer) (sandbox.Exit, error) {
	w := l.p.w
	v := l.step(ctx, opWorld, false, "check %s of %s", command, r.id)
	if ctx.Err() != nil {
		return sandbox.Exit{}, context.Cause(ctx)
	}
	if v != made {
		return sandbox.Exit{}, errTrouble
	}
	all := w.tools.checks[r.id]
	if all.made == nil {
		all = verdicts{map[string]int{}, map[string]int{}}
		w.tools.checks[r.id] = all
	}
	fmt.Fprintln(out, "it ran")
	if all.made[command]++; command == checkNames[1] && all.made[command] <= w.play.Scene.run(r.id).Unfit {
		return sandbox.Exit{Code: 1}, nil
	}
	all.passed[command]++
	return sandbox.Exit{}, nil
}

// claimAudit is what the audit knows of the claims of a step.
type claimAudit struct {
	claim, passed int
	open, failed  bool
	tree          string
}

// accepted holds PLUS-10: a step is over only when all of its checks have passed, one after the other, on one tree, since
// its last turn; a result counts for the claim that it was made for, and is that of a command that ran; no turn is taken
// while checks are open.
func (a *audit) accepted(runID string, l *ledger, p events.Payload) string {
	checks := 0
	if set := a.w.play.Scene.run(runID).accept(); set != nil {
		checks = len(set.Checks)
	}
	checked := checks > 0
	switch d := p.(type) {
	case *events.StepClaimedData:
		c := l.claimed(d.Step)
		if !checked || l.steps[d.Step] != events.StepAllowed || c.open || d.Claim != c.claim+1 || d.Claim > mostClaims {
			return fmt.Sprintf("claim %d after %+v", d.Claim, c)
		}
		*c = claimAudit{claim: d.Claim, open: true}
		a.w.tale.counts["claims"]++
	case *events.CheckPassedData:
		a.w.tale.counts["checks passed"]++
		l.passes[d.Name]++
		l.trees[d.GitTree] = true
		if d.CheckKind == events.CheckPerson {
			a.w.tale.counts["steps that a person accepted"]++
		}
		if g := l.gates[d.Gate]; d.CheckKind == events.CheckPerson && (g == nil || g.answer != events.GateApproved ||
			g.opened.Step != d.Step || g.opened.Call != events.CheckPlace(d.Claim, d.Check)) {
			return "a check passed that no person has approved"
		}
		if d.CheckKind == events.CheckReview && !a.judged(runID, d.CheckResult, true) {
			return "a check passed that no reviewer has passed"
		}
		if n := a.w.tools.checks[runID].passed[d.Name]; d.CheckKind == events.CheckCommand && l.passes[d.Name] > n {
			return fmt.Sprintf("check %s passed %d times, and no more than %d commands of it did", d.Name, l.passes[d.Name], n)
		}
		c := l.claimed(d.Step)
		if c.passed++; c.passed == checks {
			defer func() { c.open = false }()
		}
		return c.result(d.CheckResult, c.passed)
	case *events.CheckFailedData:
		a.w.tale.counts["checks failed"]++
		if d.CheckKind == events.CheckReview && !a.judged(runID, d.CheckResult, false) {
			return "a check failed that no reviewer has failed"
		}
		c := l.claimed(d.Step)
		fault := c.result(d.CheckResult, c.passed+1)
		c.open, c.failed = false, true
		return fault
	case *events.TurnFinishedData:
		c := l.claimed(d.Step)
		if c.open {
			return "a turn while checks are open"
		}
		c.failed, c.passed = false, 0
	case *events.StepFinishedData:
		if c := l.claimed(d.Step); checked && l.plan[d.Step].Kind == "" && (c.open || c.failed || c.passed < checks) {
			return fmt.Sprintf("it is over with its checks at %+v", c)
		}
	case *events.StepFailedData:
		if c := l.claimed(d.Step); d.FinishReason == events.FinishUnverified {
			a.w.tale.counts["steps unverified"]++
			st := l.plan[d.Step]
			once := st.Kind != "" || st.Flow.Checks() // one that only checks has one claim
			if c.claim < mostClaims && !once || !c.failed {
				return fmt.Sprintf("unverified with its checks at %+v", c)
			}
		}
	case *events.RunCompletedData:
		if checked != (len(d.Verified) > 0) {
			return fmt.Sprintf("%d checks vouch for it", len(d.Verified))
		}
	default:
	}
	return ""
}

// result holds that a result is that of the check that is next, on the tree of those before it.
func (c *claimAudit) result(d events.CheckResult, next int) string {
	if !c.open || d.Claim != c.claim || d.Check != next || c.tree != "" && d.Tree != "" && d.Tree != c.tree {
		return fmt.Sprintf("check %d of claim %d on tree %.8s where %+v", d.Check, d.Claim, d.Tree, c)
	}
	c.tree = d.Tree
	return ""
}

func (l *ledger) claimed(step string) *claimAudit {
	if l.claims[step] == nil {
		l.claims[step] = &claimAudit{}
	}
	return l.claims[step]
}
