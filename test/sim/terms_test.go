package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// people are those who may vote, each on a subject of their own.
var people = []string{"alice", "bob", "carol", "dave", "erin"}

// reply is an answer that somebody means to give. Where by is set it goes to the subject of that person.
type reply struct{ decision, hash, by, edited string }

// delayed is something somebody means to do at a time.
type delayed struct {
	at  time.Time
	act act
}

// termsOf draws how the gates of a run are answered.
func termsOf(rng *rand.Rand) events.GateTerms {
	return events.GateTerms{Approvers: []int{0, 2, 2, 3}[rng.IntN(4)], ExpiresMS: []int64{0, 90_000, 600_000}[rng.IntN(3)],
		OnExpiry: []string{"", events.ExpiryRejects, events.ExpiryFails}[rng.IntN(3)]}
}

// polite is a yes of as many as the gate needs; of those who are rude at times, also to other arguments.
func (h *person) polite(runID string, g *run.Gate) {
	if h.w.play.Scene.Always && g.Always != nil {
		h.always(runID, g)
		return
	}
	yes := reply{decision: "approve"}
	if h.w.play.Scene.Rude && g.CallID != "" && h.w.rng.IntN(2) == 0 {
		yes.edited = h.edit(runID, g)
	}
	if g.Approvers < 2 {
		h.say(runID, g, yes)
		return
	}
	for _, by := range people[:g.Approvers] {
		yes.by = by
		h.say(runID, g, yes)
	}
}

// insist answers a gate that still waits when the trouble is over, whatever was said before.
func (h *person) insist(runID string, g *run.Gate) {
	if g.Approvers < 2 {
		h.say(runID, g, reply{decision: "approve"})
		return
	}
	for _, by := range people {
		if !g.Voted(by) {
			h.say(runID, g, reply{decision: "approve", by: by})
			return
		}
	}
	h.say(runID, g, reply{decision: "reject", by: people[0]})
}

// rude answers a gate up to three times: against itself, twice by one person, for another proposal, with other
// arguments, or after its time.
func (h *person) rude(runID string, g *run.Gate) {
	rng := h.w.rng
	decisions, hashes := []string{"approve", "reject", "approve"}, []string{"", g.Hash, fmt.Sprintf("%064d", 7)}
	for range 1 + rng.IntN(3) {
		r := reply{decision: decisions[rng.IntN(3)], hash: hashes[rng.IntN(3)]}
		if g.Approvers > 1 && rng.IntN(6) > 0 {
			r.by = people[rng.IntN(3)]
		}
		if rng.IntN(3) == 0 || g.CallID != "" && rng.IntN(2) == 0 {
			r.edited = h.edit(runID, g)
		}
		h.say(runID, g, r)
		if last := len(h.acts) - 1; !g.ExpiresAt.IsZero() && rng.IntN(3) == 0 {
			h.later = append(h.later, delayed{g.ExpiresAt.Add(time.Duration(rng.IntN(30)-5) * time.Second), h.acts[last]})
			h.acts = h.acts[:last]
		}
	}
}

// edit returns other arguments for the call that waits; one in four do not fit the tool.
func (h *person) edit(runID string, g *run.Gate) string {
	c := h.w.state[runID].Open[g.CallID]
	if c == nil || h.w.rng.IntN(4) == 0 {
		return `{"n":"edited nonsense"}`
	}
	var n int
	if _, err := fmt.Sscanf(string(c.Input), `{"n":%d`, &n); err != nil {
		return `{"n":"edited nonsense"}`
	}
	return fmt.Sprintf(`{ "n":%d, "why":"a person knows better" }`, n)
}

// due moves to the acts what the time has come for.
func (h *person) due() {
	now := h.w.clock.Now()
	h.later = slices.DeleteFunc(h.later, func(d delayed) bool {
		if now.Before(d.at) {
			return false
		}
		h.acts = append(h.acts, d.act)
		return true
	})
}

// fires says when a timer of a gate fires that is set now: too early, late, twice, or never.
func (w *world) fires(runID, name string) []time.Duration {
	key := runID + "." + name
	delete(w.neverFires, key)
	if w.peace || w.play.Inject != nil || len(name) < 5 || name[:5] != "gate." || w.rng.IntN(100) >= w.play.Trouble.Odd {
		return nil
	}
	kinds := []string{"fires early", "fires early and in time", "fires late", "fires twice", "never fires"}
	i := w.rng.IntN(len(kinds))
	w.tale.counts["gate timer "+kinds[i]]++
	w.tale.line("timer", key+" "+kinds[i])
	switch i {
	case 0:
		return []time.Duration{-30 * time.Second}
	case 1:
		return []time.Duration{-30 * time.Second, 0}
	case 2:
		return []time.Duration{45 * time.Second}
	case 3:
		return []time.Duration{0, 5 * time.Second}
	}
	w.neverFires[key] = true
	return []time.Duration{1000 * time.Hour}
}

// voted holds SAFE-10 of one yes of several: somebody said it, in a name that is proven, who had not said it before.
func (a *audit) voted(runID string, l *ledger, f events.Event, d events.GateAnswer) string {
	g, said := l.gates[d.Gate], a.w.person.answers[d.Input]
	if fault := a.said(runID, g, f, d, "approve"); fault != "" {
		return fault
	}
	if g.opened.Approvers < 2 {
		return "a vote where one answer is enough"
	}
	if fault := g.vote(d, said); fault != "" {
		return fault
	}
	if n := g.votesFor(actionOf(d)); n >= g.opened.Approvers || n != d.Votes {
		return fmt.Sprintf("it says %d votes of %d, there are %d", d.Votes, g.opened.Approvers, n)
	}
	l.inputs[d.Input] = true
	a.w.tale.counts["votes"]++
	return ""
}

// vote counts a yes for one action, of one person, once.
func (g *gateAudit) vote(d events.GateAnswer, said sentAnswer) string {
	if said.by == "" || d.By != said.by || d.Assurance != events.AssuranceSubject {
		return "no one proved to be " + d.By
	}
	if _, twice := g.votes[d.By]; twice {
		return d.By + " voted twice"
	}
	g.votes[d.By] = actionOf(d)
	return ""
}

func (g *gateAudit) votesFor(action string) int {
	n := 0
	for _, v := range g.votes {
		if v == action {
			n++
		}
	}
	return n
}

// actionOf names what an answer is for: the proposal, or what it was edited to.
func actionOf(d events.GateAnswer) string {
	if len(d.EditedInput) == 0 {
		return d.ProposalHash
	}
	return d.ProposalHash + "/" + sum(d.EditedInput)
}

// expired holds SAFE-10: a gate ends by time only when its time is up, and once.
func (a *audit) expired(l *ledger, f events.Event, d *events.GateExpiredData) string {
	g := l.gates[d.Gate]
	switch {
	case g == nil || g.answer != "":
		return "gate " + d.Gate + " is not open"
	case g.opened.ExpiresAt.IsZero() || f.Time.Before(g.opened.ExpiresAt):
		return "gate " + d.Gate + " has time left"
	}
	g.answer = events.GateExpired
	a.w.tale.counts["gates expired"]++
	return ""
}

// noGateOverdue holds that no gate stands open after its time, unless its timer was lost and no one looked again.
func (a *audit) noGateOverdue(id string) {
	s := a.w.state[id]
	for _, g := range s.Waiting() {
		if !g.ExpiresAt.IsZero() && a.w.clock.Now().After(g.ExpiresAt.Add(time.Minute)) && !a.w.neverFires[id+".gate."+g.ID] {
			a.breaks("gate %s of run %s expired at %s and still waits", g.ID, id, g.ExpiresAt.Format(time.RFC3339))
		}
	}
}
