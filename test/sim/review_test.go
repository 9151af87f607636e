package sim

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// smallReview is the small world whose work another agent reviews, behind two commands: it fails the first claim, and
// passes the second one when it is asked once more, because its model declined at first.
func smallReview(first string) Scene {
	s := small(first, first)
	r := &s.Runs[0]
	r.Steps, r.Checked = r.Steps[:1], true
	place := func(claim int) string { return events.CheckPlace(claim, len(checkNames)+1) }
	r.Reviewer = "agent-" + kidOf(r.ID, place(1), 1)
	id, autonomy, budget, retries := r.ID, r.Autonomy, r.Budget, r.Retries
	for claim := 1; claim <= mostClaims; claim++ {
		verdict := `{"verdict":"pass","reasons":[]}`
		if claim == 1 {
			verdict = `{"verdict":"fail","reasons":["it is wrong"]}`
		}
		for attempt := 1; attempt <= events.MaxChildAttempts; attempt++ {
			s.Runs = append(s.Runs, SceneRun{ID: kidOf(id, place(claim), attempt), Kid: true, Autonomy: autonomy, Budget: budget, Retries: retries,
				Refuses: claim == 2 && attempt == 1, Verdict: verdict, Steps: []SceneStep{{ID: "step-1"}}})
		}
	}
	return s
}

// reviews reports whether a review is the next check of the claim that is open.
func (l *ledger) reviews(d events.ChildRef) bool {
	c := l.claimed(d.Step)
	return c.open && d.Call == events.CheckPlace(c.claim, c.passed+1)
}

// judged reports whether the last reviewer of a claim has ended with this verdict; one that gave none has failed it.
func (a *audit) judged(runID string, d events.CheckResult, pass bool) bool {
	var last *kidAudit
	verdict := false
	for id, k := range a.kids {
		if k.parent != runID || k.step != d.Step || k.call != events.CheckPlace(d.Claim, d.Check) || last != nil && last.attempt > k.attempt {
			continue
		}
		v, err := events.ReadVerdict(a.w.play.Scene.run(id).Verdict)
		last, verdict = k, err == nil && v.Verdict == events.VerdictPass && a.w.state[id].Status == events.Completed
	}
	if last == nil || !last.over {
		return false
	}
	a.w.tale.counts[map[bool]string{true: "reviews passed", false: "reviews failed"}[pass]]++
	return verdict == pass
}

func TestEveryOperationReview(t *testing.T) {
	t.Run("PLUS-10 SUB-4 SAFE-7 a crash or a duplicate at operations of a run that another agent reviews: its verdict decides, once, for the claim that it was about", func(t *testing.T) {
		plays, passed, failed := 0, 0, 0
		someOf(t, smallReview("put"), 39, func(out Outcome) {
			plays++
			passed += out.Counts["reviews passed"]
			failed += out.Counts["reviews failed"]
		})
		if plays < 10 || passed < plays || failed < plays {
			t.Errorf("%d plays, in which reviewers passed %d claims and failed %d", plays, passed, failed)
		}
		t.Logf("%d plays, in which reviewers passed %d claims and failed %d", plays, passed, failed)
	})
}
