package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Limits of a rule set.
const (
	// MaxRules is the most rules of all layers together, the built-in ones included.
	MaxRules = 1000
	// MaxPattern is the longest pattern, in bytes.
	MaxPattern = 1024
	// MaxWords is the most patterns in one list of a match.
	MaxWords = 64
	// MaxAlternatives is the most globs that the braces of one pattern may stand for.
	MaxAlternatives = 256
)

// ErrRule is wrapped by every error about a rule.
var ErrRule = errors.New("guard rule")

// Build merges the built-in layer and the layers given, in rising order: the same id replaces in place, a new one is
// appended, {id, remove: true} removes and is nothing where no such rule is. A locked rule can be neither replaced
// nor removed by a later layer. Errors wrap ErrRule, name the rule and say what to do.
func Build(layers ...[]events.Rule) (Set, error) {
	var entries []entry
	for n, layer := range append([][]events.Rule{Builtin()}, layers...) {
		seen := map[string]bool{}
		for _, r := range layer {
			if err := check(r, seen); err != nil {
				return Set{}, err
			}
			var err error
			if entries, err = merge(entries, entry{Layer: n, Rule: clone(r)}); err != nil {
				return Set{}, err
			}
		}
	}
	if len(entries) > MaxRules {
		return Set{}, fmt.Errorf("%w: %d rules, at most %d; join some of them with braces", ErrRule, len(entries), MaxRules)
	}
	digest, err := digestOf(entries)
	if err != nil {
		return Set{}, err
	}
	return Set{entries: entries, digest: digest}, nil
}

// Bytes are the rules in force with their layers, in canonical form: the same layers give the same bytes, always
// (GUARD-11).
func (s Set) Bytes() ([]byte, error) {
	if s.digest == "" {
		return nil, fmt.Errorf("%w: no rule set", ErrRule)
	}
	return canonical(s.entries)
}

func canonical(entries []entry) ([]byte, error) {
	sorted := slices.SortedFunc(slices.Values(entries), func(a, b entry) int {
		return strings.Compare(a.Rule.ID,
			b.Rule.ID)
	})
	return json.Marshal(sorted)
}

// digestOf hashes the rules with their layers in the order of their ids: all that a verdict depends on.
func digestOf(entries []entry) (string, error) {
	b, err := canonical(entries)
	if err != nil {
		return "", fmt.Errorf("%w: digest: %w", ErrRule, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

func merge(entries []entry, e entry) ([]entry, error) {
	i := slices.IndexFunc(entries, func(old entry) bool { return old.Rule.ID == e.Rule.ID })
	switch {
	case i < 0 && e.Rule.Remove:
		return entries, nil
	case i < 0:
		return append(entries, e), nil
	case entries[i].Rule.Locked:
		return nil, fmt.Errorf("%w %q is locked: a later layer can neither replace nor remove it; choose another id for your rule", ErrRule, e.Rule.ID)
	case e.Rule.Remove:
		return slices.Delete(entries, i, i+1), nil
	}
	entries[i] = e
	return entries, nil
}

func check(r events.Rule, seen map[string]bool) error {
	if r.ID == "" {
		return fmt.Errorf("%w: a rule has no id; give it one of A-Z a-z 0-9 _ and -", ErrRule)
	}
	if seen[r.ID] {
		return fmt.Errorf("%w %q: the id is used twice in one layer; rename or remove one of the two", ErrRule, r.ID)
	}
	seen[r.ID] = true
	if r.Remove {
		return nil
	}
	if r.Action != Allow && r.Action != Ask && r.Action != Deny {
		return fmt.Errorf("%w %q: action %q is unknown; write allow, deny or ask%s", ErrRule, r.ID, short(r.Action),
			meant(r.Action))
	}
	if err := checkPattern(r.Tool); err != nil {
		return fmt.Errorf("%w %q: tool: %w", ErrRule, r.ID, err)
	}
	if err := checkMatch(r.Match); err != nil {
		return fmt.Errorf("%w %q: match: %w", ErrRule, r.ID, err)
	}
	if r.Except == nil {
		return nil
	}
	if empty := !aboutCommands(*r.Except) && r.Except.PathOutside == "" && r.Except.Path == ""; empty {
		return fmt.Errorf("%w %q: an exception without conditions disables the whole rule; remove except, or the rule",
			ErrRule, r.ID)
	}
	if err := checkMatch(*r.Except); err != nil {
		return fmt.Errorf("%w %q: except: %w", ErrRule, r.ID, err)
	}
	return nil
}

func checkMatch(m events.Match) error {
	if m.PathOutside != "" && m.PathOutside != "workspace" {
		return fmt.Errorf("path_outside %q is unknown; write workspace", short(m.PathOutside))
	}
	for _, list := range [][]string{m.Argv, m.FlagsAny, m.FlagsAll} {
		if len(list) > MaxWords {
			return fmt.Errorf("a list has %d entries, at most %d; split the rule", len(list), MaxWords)
		}
	}
	for _, p := range m.Argv {
		if p == "" {
			return errors.New(`argv has an empty pattern; "*" is any one word, "**" any number`)
		}
		if err := checkPattern(p); err != nil {
			return err
		}
	}
	for _, alternatives := range slices.Concat(m.FlagsAny, m.FlagsAll) {
		for flag := range strings.SplitSeq(alternatives, "|") {
			if len(flag) < 2 || flag[0] != '-' || flag == "--" || strings.ContainsAny(flag, "= *") {
				return fmt.Errorf("flag %q can never match; write a flag such as -f or --force, without value and without glob",
					short(flag))
			}
		}
	}
	return errors.Join(checkPattern(m.Path), checkPattern(m.Glob))
}

func short(s string) string {
	const limit = 64
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return s
}

// meant names the action that another word for it, or a slip of the keys, stands for.
func meant(got string) string {
	word := strings.ToLower(strings.TrimSpace(got))
	others := map[string]string{"block": Deny, "forbid": Deny, "reject": Deny, "refuse": Deny, "stop": Deny, "no": Deny,
		"confirm": Ask, "prompt": Ask, "interrupt": Ask, "approve": Ask, "continue": Allow, "permit": Allow, "accept": Allow,
		"yes": Allow}
	near := others[word]
	for _, known := range []string{Allow, Deny, Ask} {
		if near == "" && len(word) <= len(known)+2 && common(word, known) >= len(known)-1 {
			near = known
		}
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (was %s meant?)", near)
}

// common is the length of the longest common subsequence of two short words.
func common(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range len(a) {
		corner := 0
		for j := range len(b) {
			up := row[j+1]
			if a[i] == b[j] {
				row[j+1] = corner + 1
			} else {
				row[j+1] = max(up, row[j])
			}
			corner = up
		}
	}
	return row[len(b)]
}
