// Package guard judges proposed calls by rules.
//
// Promises: the verdict depends on the rules and the action alone; there is no clock, no file and no chance in it.
// Among the rules that match, deny wins over ask and ask over allow, then the later layer. What cannot be judged is
// asked, and what goes wrong inside is denied. The built-in layer is always there and always first; a locked rule
// stays, whatever a later layer says.
package guard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/inspan/inspan/pkg/events"
)

// The three answers.
const (
	Allow = "allow"
	Ask   = "ask"
	Deny  = "deny"
)

// Ids of the verdicts that no rule gives. UnclearShell asks about a text that cannot be judged in full, Fault denies
// because the judge itself could not do its work.
const (
	UnclearShell = "unclear-shell"
	Fault        = "guard-fault"
)

// Unknown stands inside a word of a command for text that is only known when the command runs; a word that holds it
// is still exactly one word. Many stands for a part that may become any number of words. A real argument can hold
// neither, because no argument of a program holds a zero byte.
const (
	Unknown = "\x00"
	Many    = "\x00\x00"
)

// Action is a proposed call as the guards see it.
type Action struct {
	Tool string
	// Commands are the simple commands found in a shell text, each as its words. Words may hold Unknown and Many.
	// A redirection that writes a file is the command ">" with the file as its word.
	Commands [][]string
	// Loose are words that may hold commands: those of programs that may run what they are given, and the texts of
	// scripts in other languages. A rule that would deny or ask about what stands among them asks.
	Loose [][]string
	// Unclear says why the text cannot be judged in full; empty where it can.
	Unclear string
	// Paths are the arguments that are paths, as the agent gave them.
	Paths []string
	// Outside are path arguments that leave the workspace, as the agent gave them.
	Outside []string
}

// Verdict is the answer, and the rule that gave it; no rule means that none matched and the action is allowed.
type Verdict struct{ Action, Rule, Reason string }

// Finding is a verdict and what it rests on.
type Finding struct {
	Verdict
	// Layer that the rule came from, 0 for the built-in one; -1 where no rule spoke.
	Layer int
	// Command is the simple command that met the rule; nil where the rule is about the whole call.
	Command []string
}

// Set is a rule set in force. It is a value and never changes. The zero Set was never built and denies everything.
type Set struct {
	entries []entry
	digest  string
}

// entry is a rule and the layer it came from; the built-in layer is 0.
type entry struct {
	Layer int         `json:"layer"`
	Rule  events.Rule `json:"rule"`
}

// Layers returns the layer of each of Rules, 0 for the built-in one.
func (s Set) Layers() []int {
	layers := make([]int, len(s.entries))
	for i, e := range s.entries {
		layers[i] = e.Layer
	}
	return layers
}

// Rules returns the rules in force: the built-in ones first, each replaced one in the place of the one it replaced.
func (s Set) Rules() []events.Rule {
	rules := make([]events.Rule, len(s.entries))
	for i, e := range s.entries {
		rules[i] = clone(e.Rule)
	}
	return rules
}

// Digest is the SHA-256 of the rules in force, 64 hex digits. It does not depend on the order inside a layer, as the
// verdicts do not.
func (s Set) Digest() string { return s.digest }

// Terms returns how the gate of a rule is answered; the zero value where there is none of that id.
func (s Set) Terms(rule string) events.GateTerms {
	for _, e := range s.entries {
		if rule != "" && e.Rule.ID == rule {
			return e.Rule.Gate
		}
	}
	return events.GateTerms{}
}

// Judge answers an action. A rule that may match, because a word is only known when the command runs, makes a deny an
// ask. Where several rules give the same answer, the one of the later layer is named, then the one with the least id.
func (s Set) Judge(a Action) Verdict { return s.Explain(a).Verdict }

// JudgeGranted is Judge for an action for which a person has answered the questions of some rules before: those that
// ask and that granted names are passed over. It is asked about matching rules only; what a rule denies, or may deny,
// is never passed over, and neither is what cannot be judged.
func (s Set) JudgeGranted(a Action, granted func(rule string) bool) Verdict {
	return s.explain(a, granted).Verdict
}

// AskHash is the hex SHA-256 of the rule of an id; empty where there is none that asks.
func (s Set) AskHash(id string) string {
	for _, e := range s.entries {
		if id != "" && e.Rule.ID == id && e.Rule.Action == Ask {
			b, err := json.Marshal(e.Rule)
			if err != nil {
				return ""
			}
			return events.HashOf(b)
		}
	}
	return ""
}

// Explain is Judge with what the verdict rests on.
func (s Set) Explain(a Action) Finding { return s.explain(a, func(string) bool { return false }) }

func (s Set) explain(a Action, granted func(rule string) bool) Finding {
	if s.digest == "" {
		return Finding{Verdict: Verdict{Action: Deny, Rule: Fault, Reason: "no guard rules are loaded"}, Layer: -1}
	}
	f := closed(func() Finding { return s.best(a, granted) })
	if a.Unclear != "" && f.Action != Deny {
		return Finding{Verdict: Verdict{Action: Ask, Rule: UnclearShell, Reason: "the command cannot be judged: " +
			a.Unclear}, Layer: -1}
	}
	return f
}

// closed makes a judge that breaks a judge that denies.
func closed(judge func() Finding) (f Finding) {
	defer func() {
		if p := recover(); p != nil {
			f = Finding{Verdict: Verdict{Action: Deny, Rule: Fault, Reason: fmt.Sprintf("the guard failed on this call: %v", p)},
				Layer: -1}
		}
	}()
	return judge()
}

func (s Set) best(a Action, granted func(rule string) bool) Finding {
	commands := make([]command, 0, len(a.Commands))
	for _, argv := range a.Commands {
		if len(argv) > 0 {
			commands = append(commands, read(argv))
		}
	}
	f := Finding{Verdict: Verdict{Action: Allow}, Layer: -1}
	for _, e := range s.entries {
		t, by := holds(e.Rule, a, commands)
		if t == no {
			t = suspected(e.Rule, a)
		}
		next := answer(e, t)
		if next.Action == "" || next.Action == Ask && e.Rule.Action == Ask && granted(e.Rule.ID) {
			continue
		}
		if c := cmp.Or(cmp.Compare(rank(next.Action), rank(f.Action)), cmp.Compare(e.Layer, f.Layer),
			cmp.Compare(f.Rule, next.Rule)); c > 0 {
			f = Finding{Verdict: next, Layer: e.Layer}
			if by >= 0 {
				f.Command = slices.Clone(commands[by].argv)
			}
		}
	}
	return f
}

// answer is what a rule says that holds as surely as t; the zero Verdict is no answer. Of the built-in rules only
// those about git, rm and dd speak on suspicion: cp, mv, kill, find and a redirection are everyday commands with
// variables among their words, and a person who is asked about each would soon say yes to everything.
func answer(e entry, t truth) Verdict {
	r := e.Rule
	switch {
	case t == yes:
		return Verdict{Action: r.Action, Rule: r.ID, Reason: r.Reason}
	case t == maybe && r.Action != Allow && (e.Layer > 0 || suspects(r)):
		return Verdict{Action: Ask, Rule: r.ID,
			Reason: "the rule may apply, but parts of the command are known only at run time or are run by another program: " +
				r.Reason}
	}
	return Verdict{}
}

func suspects(r events.Rule) bool {
	return len(r.Match.Argv) > 0 && slices.Contains([]string{"git", "rm", "dd"}, r.Match.Argv[0])
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

// clone keeps a caller's slices out of the set and the set's out of a caller's hands.
func clone(r events.Rule) events.Rule {
	r.Match = cloneMatch(r.Match)
	if r.Except != nil {
		m := cloneMatch(*r.Except)
		r.Except = &m
	}
	return r
}

func cloneMatch(m events.Match) events.Match {
	m.Argv, m.FlagsAny, m.FlagsAll = slices.Clone(m.Argv), slices.Clone(m.FlagsAny), slices.Clone(m.FlagsAll)
	return m
}
