package gate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// anyMore ends the pattern of a grant for all commands that begin in one way.
const anyMore = " *"

// standing are the grants that a call of a run may rest on at a time; known is false where those of its session still
// have to be read.
func (l Policy) standing(s run.State, now time.Time) (all []events.GrantUse, known bool) {
	for _, g := range s.Grants(now) {
		all = append(all, events.GrantUse{Grant: g})
	}
	session, _ := s.Created.GrantSession()
	if session == "" || l.Grants == nil {
		return all, true
	}
	of, known := l.Grants(session)
	for _, g := range of {
		if g.Scope == events.GrantSession && g.Session == session && now.Before(g.Until) {
			all = append(all, g)
		}
	}
	return all, known
}

// granted judges an action that a rule asks about by the grants that stand. Where they answer every rule that asks it
// is allowed, and used are those that it rests on, one for each rule.
func granted(rules guard.Set, name string, a guard.Action, input json.RawMessage,
	standing []events.GrantUse) (v guard.Verdict, used []events.GrantUse) {
	v = rules.JudgeGranted(a, func(rule string) bool {
		for _, g := range standing {
			if g.Rule == rule && g.Tool == name && g.RuleHash == rules.AskHash(rule) && covers(g.Allowance, a, input) {
				used = append(used, g)
				return true
			}
		}
		return false
	})
	if v.Action != guard.Allow {
		return v, nil
	}
	if len(used) > 0 {
		v.Rule = used[0].Rule
	}
	return v, used
}

// offer is what an approval of an action can allow for later calls, or nil: only what a rule asks about, and what a
// person can read in full.
func offer(rule string, rules guard.Set, name string, a guard.Action, input json.RawMessage) *events.Allowance {
	hash := rules.AskHash(rule)
	text := readable(a, input)
	if hash == "" || !clear(a) || text == "" || len(text) > events.MaxPattern {
		return nil
	}
	return &events.Allowance{Rule: rule, RuleHash: hash, Tool: name, Pattern: text, Action: actionHash(a, input)}
}

// clear reports whether all that an action does is in its text.
func clear(a guard.Action) bool {
	unknown := func(argv []string) bool {
		return slices.ContainsFunc(argv, func(w string) bool { return strings.Contains(w, guard.Unknown) })
	}
	return a.Unclear == "" && !slices.ContainsFunc(a.Commands, unknown) && !slices.ContainsFunc(a.Loose, unknown)
}

// readable is the text that names an action: its command, its paths, or all its arguments.
func readable(a guard.Action, input json.RawMessage) string {
	if text := command(input); text != "" {
		return text
	}
	if len(a.Paths) > 0 {
		return strings.Join(a.Paths, ", ")
	}
	var compact bytes.Buffer
	if json.Compact(&compact, input) != nil {
		return ""
	}
	return compact.String()
}

// command is the shell text of a call's arguments, empty where they have none.
func command(input json.RawMessage) string {
	var args struct {
		Command *string `json:"command"`
	}
	if json.Unmarshal(input, &args) != nil || args.Command == nil {
		return ""
	}
	return strings.TrimSpace(*args.Command)
}

// actionHash is the hash of an action as the rules see it: with the commands of scripts that earlier calls of the run
// wrote, and without the text that is written to a path. What has neither commands nor paths is its arguments.
func actionHash(a guard.Action, input json.RawMessage) string {
	seen := struct {
		Action guard.Action
		Text   string          `json:",omitempty"`
		Input  json.RawMessage `json:",omitempty"`
	}{Action: a, Text: command(input)}
	if seen.Text == "" && len(a.Paths) == 0 {
		seen.Input = input
	}
	b, err := json.Marshal(seen)
	if err != nil {
		return ""
	}
	return digest(b)
}

// covers reports whether a grant is about an action.
func covers(g events.Allowance, a guard.Action, input json.RawMessage) bool {
	if !clear(a) {
		return false
	}
	if g.Action != "" {
		return g.Action == actionHash(a, input)
	}
	return begins(g.Pattern, a, input)
}

// begins reports whether an action is one simple command whose words begin with those of a pattern, and whose text
// does, too: what stands before a command, such as variables, is not covered.
func begins(pattern string, a guard.Action, input json.RawMessage) bool {
	start, ok := strings.CutSuffix(pattern, anyMore)
	words := strings.Fields(start)
	text := command(input)
	if !ok || len(words) == 0 || strings.ContainsAny(start, "*?[]{}\"'`$\\;&|<>()\n") || len(a.Commands) != 1 ||
		len(a.Loose) > 0 || len(a.Commands[0]) < len(words) {
		return false
	}
	return slices.Equal(a.Commands[0][:len(words)], words) && (text == start || strings.HasPrefix(text, start+" "))
}

// grant is what a yes with always gives, or why it cannot. unread is true where the grants of the session, or the
// arguments, have to be read first.
func grant(s run.State, now time.Time, g *run.Gate, r Reply, law Policy) (d *events.Grant, unread bool, no *Refused) {
	refuse := func(code, reason, hint string) (*events.Grant, bool, *Refused) {
		return nil, false, &Refused{code, reason, hint}
	}
	c := s.Open[g.CallID]
	session, _ := s.Created.GrantSession()
	switch {
	case g.Always == nil || c == nil:
		return refuse("not_grantable", fmt.Sprintf("gate %s is about this one action alone", g.ID),
			"approve it without always; inspan gates shows what can be allowed for longer")
	case r.Always == events.GrantSession && (session == "" || law.Grants == nil):
		return refuse("no_session", fmt.Sprintf("run %s works in no session", s.HarnessID), `answer with "always":"run"`)
	}
	d = &events.Grant{ID: g.ID, Run: s.HarnessID, Allowance: *g.Always, Scope: r.Always, By: r.By, At: now.UTC(),
		Until: now.UTC().Add(cmp.Or(r.Term, events.DefaultGrant)), TermMS: r.Term.Milliseconds()}
	has := len(s.Grants(now))
	if r.Always == events.GrantSession {
		all, known := law.Grants(session)
		if !known {
			return nil, true, nil
		}
		d.Session, has = session, len(all)
	}
	if has >= events.MaxGrants {
		return refuse("too_many_grants", fmt.Sprintf("%d grants stand in the %s, which is the limit", has, r.Always),
			"revoke some: inspan grants")
	}
	if r.Pattern == "" {
		return d, false, nil
	}
	d.Pattern, d.Action = r.Pattern, ""
	if c.InputRef != nil || !covers(d.Allowance, law.of(s).Action(d.Tool, c.Input), c.Input) {
		return refuse("bad_pattern", fmt.Sprintf("the pattern %q does not cover what gate %s asks about", shorten(r.Pattern),
			g.ID), `leave pattern out for exactly this action, or name the beginning of the one command and " *", such as "go test *"`)
	}
	return d, false, nil
}

// Revokes reports whether an answer takes a grant back.
func (r Reply) Revokes() bool {
	word := strings.ToLower(strings.TrimSpace(r.Decision))
	return word == "revoke" || word == "revoked"
}

// Revoke takes a grant of a run's own back, or returns a *Refused. A second look at the same answer says nothing, and
// neither does one at a grant that was revoked. One that comes after the end of the grant or of the run is refused, so
// that its author learns that nothing was changed.
func Revoke(s run.State, now time.Time, r Reply) ([]events.Payload, error) {
	if _, refused := Given(s, r); refused != nil {
		return nil, refused
	}
	g := s.Gate(r.Gate)
	switch {
	case s.Took(r.Input) || g.Revoked || g.Grant.Scope != events.GrantRun || g.Grant.Run != s.HarnessID:
		return nil, nil
	case !now.Before(g.Grant.Until):
		return nil, &Refused{"grant_ended", fmt.Sprintf("the grant of gate %s ended at %s", g.ID,
			g.Grant.Until.Format(time.RFC3339)), "nothing to do: it holds no more"}
	case s.Status.Ended():
		return nil, &Refused{"run_ended", fmt.Sprintf("run %s is %s, and its grants ended with it", s.HarnessID, s.Status), "nothing to do"}
	}
	return []events.Payload{&events.GrantRevokedData{Event: "grant_revoked", Revocation: Revocation(r)}}, nil
}

// Revocation is what an answer that revokes says of itself.
func Revocation(r Reply) events.Revocation {
	return events.Revocation{Grant: r.Gate, By: r.By, Assurance: r.Assurance, Reason: r.Reason, ProposalHash: r.Hash,
		Key: r.Key, Signature: r.Signature, Input: r.Input}
}

// Given is the grant that an answer speaks of, or why there is none.
func Given(s run.State, r Reply) (*events.Grant, *Refused) {
	g := s.Gate(r.Gate)
	switch {
	case s.Sequence == 0:
		return nil, &Refused{"unknown_run", "no such run", "inspan grants lists the grants"}
	case g == nil || g.Grant == nil:
		return nil, &Refused{"unknown_grant", fmt.Sprintf("no grant was given at gate %s of run %s", shorten(r.Gate),
			s.HarnessID), "inspan grants lists the grants"}
	case r.Hash != "" && r.Hash != g.Hash:
		return nil, &Refused{"stale_answer", "the answer names another proposal than the gate of the grant",
			"leave proposal_hash out, or read the gate again"}
	}
	return g.Grant, nil
}
