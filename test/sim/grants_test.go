package sim

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// grantAudit is what the audit knows of a standing grant of a run.
type grantAudit struct {
	until   time.Time
	revoked bool
	// session is set where it was given for the session.
	session bool
}

// rests holds PLUS-14: what a permission rests on was given in this run before, was not taken back, and has time left.
func (a *audit) rests(l *ledger, d *events.CallAllowedData, at time.Time) string {
	for _, u := range d.Grants {
		if u.Scope == events.GrantSession {
			if fault := a.restsOnSession(u, at); fault != "" {
				return fault
			}
			continue
		}
		switch g := l.grants[u.ID]; {
		case u.Scope != events.GrantRun || g == nil:
			return "it rests on grant " + u.ID + ", which no one gave in this run"
		case g.revoked:
			return "it rests on grant " + u.ID + ", which was taken back"
		case !at.Before(g.until):
			return "it rests on grant " + u.ID + ", whose time was up"
		}
		a.w.tale.counts["calls on a grant"]++
	}
	if c := l.calls[d.Call]; c != nil {
		c.granted = len(d.Grants) > 0
	}
	return ""
}

// revoked holds that a grant is taken back once, by an input that somebody sent.
func (a *audit) revoked(l *ledger, d *events.GrantRevokedData) string {
	g := l.grants[d.Grant]
	if g == nil || g.revoked || a.w.person.answers[d.Input].decision != "revoke" {
		return "grant " + d.Grant + " was not given, was taken back before, or no one took it back"
	}
	g.revoked, l.inputs[d.Input] = true, true
	a.w.tale.counts["grants taken back"]++
	return ""
}

// always approves later calls, too, for the run, and takes that back: before the answer, in between, or after all of it.
func (h *person) always(runID string, g *run.Gate) {
	answer := events.Answer{Decision: "approve", By: "somebody", Always: events.GrantRun, Pattern: "echo pay *",
		For: []string{"", "1m", "5m"}[h.w.rng.IntN(3)]}
	if h.w.play.Scene.run(runID).Kid {
		answer.Always, answer.For = events.GrantSession, ""
	}
	subject := events.GateSubject(station, runID, g.ID)
	for _, a := range []events.Answer{answer, {Decision: "revoke", By: "somebody"}} {
		b, err := json.Marshal(a)
		if err != nil {
			panic(err) // a fault of the simulation itself
		}
		if a.Decision != "revoke" || answer.Always == events.GrantRun {
			h.acts = append(h.acts, act{subject, string(b), a.Decision + " for longer " + g.ID + " of " + runID})
		}
	}
}

// rounds is one run that pays in each of its turns, one call after the other, some of them slowly.
func rounds(seed uint64) Scene {
	r := SceneRun{ID: "r1", Autonomy: 5, Budget: 20, Retries: 2, Asks: true}
	step := SceneStep{ID: "a"}
	for n := 1; n <= 6; n++ {
		step.Turns = append(step.Turns, []SceneCall{{Tool: "pay", N: n, Slow: (seed+uint64(n))%3 == 0, Command: fmt.Sprintf("echo pay %d", n)}})
	}
	r.Steps = []SceneStep{step}
	return Scene{Runs: []SceneRun{r}, Always: true}
}

func TestGrants(t *testing.T) {
	t.Run("PLUS-14 no call passes on a grant of its run that was taken back or has ended, whatever dies", func(t *testing.T) {
		counts := map[string]int{}
		for seed := uint64(1); seed <= 30; seed++ {
			out := must(t, Play{Seed: seed, Trouble: troubleOf(seed), Scene: rounds(seed), Together: seed%3 == 0})
			for what, n := range out.Counts {
				counts[what] += n
			}
		}
		for _, what := range []string{"calls on a grant", "grants taken back"} {
			if counts[what] == 0 {
				t.Errorf("there were no %s in 30 plays: %v", what, counts)
			}
		}
	})
}
