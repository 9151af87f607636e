package gate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// checkProposal is what a person decides about: that a step is done, with these files and this output.
type checkProposal struct {
	Run     string `json:"run"`
	Step    string `json:"step"`
	Claim   int    `json:"claim"`
	Check   int    `json:"check"`
	Name    string `json:"name"`
	Tree    string `json:"tree"`
	GitTree string `json:"git_tree,omitempty"`
	// Output is the beginning of what the agent says, and OutputHash of all of it.
	Output     string `json:"output"`
	OutputHash string `json:"output_hash"`
}

// maxShown is how much of an output a proposal has, in bytes.
const maxShown = 8 << 10

// askCheck opens the gate at which a person says whether a step is done; nothing where no check of it waits for one, or
// one is asked already. The toolrunner records what the answer comes to, so that it is for the files as they are then.
func askCheck(s run.State, st *run.Step, now time.Time, terms events.GateTerms) []events.Payload {
	check, place, asks := st.Asks()
	if !asks || s.GateFor(st.ID, place) != nil {
		return nil
	}
	c, text := st.Claimed(), s.Said(st.ID)
	proposal, _ := json.Marshal(checkProposal{Run: s.HarnessID, Step: st.ID, Claim: c.Number, Check: c.Passed + 1,
		Name: check.String(), Tree: c.Tree, GitTree: c.GitTree,
		Output: strings.ToValidUTF8(text[:min(len(text), maxShown)], ""), OutputHash: digest([]byte(text))})
	g := open(s, position{step: st.ID, call: place}, proposal, "Is the step done? "+st.Description,
		fmt.Sprintf("acceptance check %d of %d, claim %d of %d, is decided by a person: %s", c.Passed+1, len(c.Checks),
			c.Number,
			c.Most, check), "")
	own := events.GateTerms{Approvers: check.Votes, ExpiresMS: check.Wait().Milliseconds()}
	setTerms(g, now, terms.Strictest(s.Agents[st.AssignedAgent].Gates).Strictest(own))
	return []events.Payload{g}
}

// mayDecide returns why an answer to the gate of a check or of an approval does not count, or nil: where that names who
// decides, it must be one of them, and proven.
func mayDecide(s run.State, g *run.Gate, r Reply) *Refused {
	may := Approvers(s, g)
	switch {
	case len(may) == 0:
		return nil
	case !slices.Contains(may, r.By):
		return &Refused{"not_approver", fmt.Sprintf("gate %s is decided by %s, and not by %q", g.ID,
			strings.Join(may, ", "), shorten(r.By)), "ask one of them to answer (inspan approve --by NAME)"}
	case r.Assurance != events.AssuranceSignature && r.Assurance != events.AssuranceSubject:
		return &Refused{"unproven_answer",
			fmt.Sprintf("gate %s is decided by %s, and the author of this answer is not proven",
				g.ID, strings.Join(may, ", ")), "answer on your own subject (inspan approve --by NAME), or sign the answer"}
	}
	return nil
}

// Approvers are the people whom the check or the approval of a gate names to answer it; none where everybody may who
// may answer gates.
func Approvers(s run.State, g *run.Gate) []string {
	st := s.Step(g.StepID)
	if st == nil {
		return nil
	}
	if g.Scope == events.ScopeCheck {
		if check, _, asks := st.Asks(); asks {
			return check.Approvers
		}
		return nil
	}
	own := approval(st)
	switch {
	case own == nil || g.CallID != "":
		return nil
	case escalated(s, g):
		return slices.Concat(own.Approvers, own.EscalateTo)
	}
	return own.Approvers
}
