// Package guard judges proposed calls by rules.
//
// Promises: the result depends on the rules and the action alone. Among the rules that match, deny wins over ask and
// ask over allow, then the later layer. What can not be judged is asked. A locked rule stays, whatever a later layer
// says. The built-in layer is always there and always first.
package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Action is a proposed call as the guards see it.
type Action struct {
	Tool string
	// Commands are the simple commands found in a shell text.
	Commands [][]string
	// Unclear says why the text can not be judged in full; empty where it can.
	Unclear string
	// Outside are path arguments that leave the workspace.
	Outside []string
}

// The three answers.
const (
	Allow = "allow"
	Ask   = "ask"
	Deny  = "deny"
)

// Verdict is the answer, and the rule that gave it; no rule means that none matched.
type Verdict struct{ Action, Rule, Reason string }

// Set is a rule set in force. It is a value and never changes.
type Set struct {
	rules  []events.Rule
	digest string
}

// ErrRule is wrapped by every error about a rule.
var ErrRule = errors.New("guard rule")

// Build merges the built-in layer and the layers given, in rising order: the same id replaces in place, a new one is
// appended, {id, remove: true} removes; a locked rule can be neither replaced nor removed.
func Build(layers ...[]events.Rule) (Set, error) {
	var rules []events.Rule
	for _, layer := range append([][]events.Rule{Builtin()}, layers...) {
		seen := map[string]bool{}
		for _, r := range layer {
			if err := check(r, seen); err != nil {
				return Set{}, err
			}
			var err error
			if rules, err = merge(rules, r); err != nil {
				return Set{}, err
			}
		}
	}
	b, err := json.Marshal(rules)
	if err != nil {
		return Set{}, fmt.Errorf("%w: %w", ErrRule, err)
	}
	sum := sha256.Sum256(b)
	return Set{rules: rules, digest: hex.EncodeToString(sum[:])}, nil
}

func merge(rules []events.Rule, r events.Rule) ([]events.Rule, error) {
	i := slices.IndexFunc(rules, func(old events.Rule) bool { return old.ID == r.ID })
	switch {
	case i < 0 && r.Remove:
		return rules, nil
	case i < 0:
		return append(rules, r), nil
	case rules[i].Locked:
		return nil, fmt.Errorf("%w %q is locked: a later layer can neither replace nor remove it; choose another id", ErrRule, r.ID)
	case r.Remove:
		return slices.Delete(slices.Clone(rules), i, i+1), nil
	}
	rules = slices.Clone(rules)
	rules[i] = r
	return rules, nil
}

func check(r events.Rule, seen map[string]bool) error {
	fault := ""
	switch {
	case r.ID == "":
		return fmt.Errorf("%w: a rule needs an id", ErrRule)
	case seen[r.ID]:
		fault = "the id is used twice in one layer"
	case r.Remove:
	case r.Action != Allow && r.Action != Ask && r.Action != Deny:
		fault = fmt.Sprintf("action %q: want allow, ask or deny", r.Action)
	case badGlob(r.Tool), badGlobs(r.Match), r.Except != nil && badGlobs(*r.Except):
		fault = "a pattern is not a glob: [ without ] or a \\ at the end"
	case r.Match.PathOutside != "" && r.Match.PathOutside != "workspace":
		fault = fmt.Sprintf("path_outside %q: want workspace", r.Match.PathOutside)
	}
	seen[r.ID] = true
	if fault != "" {
		return fmt.Errorf("%w %q: %s", ErrRule, r.ID, fault)
	}
	return nil
}

func badGlob(p string) bool {
	_, err := path.Match(p, "x")
	return err != nil
}

func badGlobs(m events.Match) bool {
	return slices.ContainsFunc(m.Argv, badGlob) || badGlob(strings.ReplaceAll(m.Glob, "/", ""))
}

// Rules returns the rules in force, in order.
func (s Set) Rules() []events.Rule { return slices.Clone(s.rules) }

// Digest is the hex SHA-256 of the rules in force; equal rules have equal digests.
func (s Set) Digest() string { return s.digest }

// Judge answers an action.
func (s Set) Judge(a Action) Verdict {
	best := Verdict{Action: Allow}
	for _, r := range s.rules {
		if rank(r.Action) < rank(best.Action) || !matches(r, a) {
			continue
		}
		best = Verdict{Action: r.Action, Rule: r.ID, Reason: r.Reason}
	}
	if a.Unclear != "" && best.Action != Deny {
		return Verdict{Action: Ask, Rule: "unclear-shell", Reason: "the command can not be judged: " + a.Unclear}
	}
	return best
}

func rank(action string) int {
	switch action {
	case Deny:
		return 2
	case Ask:
		return 1
	}
	return 0
}

func matches(r events.Rule, a Action) bool {
	if r.Tool != "" {
		if ok, err := path.Match(r.Tool, a.Tool); err != nil || !ok && !inBraces(r.Tool, a.Tool) {
			return err != nil // a pattern that can not be read matches: closed by default
		}
	}
	m := r.Match
	if m.PathOutside != "" && len(a.Outside) == 0 {
		return false
	}
	if !needsCommand(m) {
		return r.Except == nil || !slices.ContainsFunc(a.Commands, func(c []string) bool { return fits(*r.Except, c) })
	}
	return slices.ContainsFunc(a.Commands, func(c []string) bool {
		return fits(m, c) && (r.Except == nil || !fits(*r.Except, c))
	})
}

// inBraces matches "{read,write}".
func inBraces(pattern, tool string) bool {
	inner, ok := strings.CutPrefix(pattern, "{")
	inner, end := strings.CutSuffix(inner, "}")
	return ok && end && slices.Contains(strings.Split(inner, ","), tool)
}

func needsCommand(m events.Match) bool {
	return len(m.Argv) > 0 || len(m.FlagsAny) > 0 || len(m.FlagsAll) > 0 || m.RefspecForce || m.Glob != ""
}
