package formula

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/starlark"
	"github.com/inspan/inspan/pkg/events"
)

// Keys of the control flow of a step, which are read once the formula is put together.
var flowKeys = []string{"when", "for_each", "max_concurrency", "join", "retry", "timeout", "loop", "scope", "kind",
	"value",
	"duration", "signal", "wake", "approvers", "escalate_to", "on_timeout", "conditions", "default"}

// Kinds of steps.
const (
	kindAgent     = "agent"
	kindApproval  = "approval"
	kindSet       = "set"
	kindTransform = "transform"
	kindWait      = "wait"
	kindSwitch    = "switch"
	kindCheck     = "check"
)

// flowNodes are the keys of the control flow that a table has.
func flowNodes(n *node) map[string]*node {
	found := map[string]*node{}
	for _, key := range flowKeys {
		if c := n.child(key); c != nil {
			found[key] = c
		}
	}
	return found
}

// overFlow gives a step the control flow of another one where its own file has none of a key.
func (s *step) overFlow(base *step) {
	keys := map[string]*node{}
	maps.Copy(keys, base.keys)
	maps.Copy(keys, s.keys)
	s.keys = keys
}

// controls reads the control flow of all steps. Steps that it names are needed.
func (f checker) controls(m *Formula, at map[string]*step, vars map[string]bool) {
	for _, s := range m.steps {
		f.control(m, s, at, vars)
	}
	for _, s := range m.steps {
		f.branches(s, at, vars)
		f.scope(s, at)
	}
	if len(f.found) > 0 {
		return
	}
	for _, s := range m.steps {
		if s.flow == (events.StepFlow{}) {
			continue
		}
		if fault := s.flow.Fault(s.id, s.child); fault != "" {
			f.add(s.at, s.path, CodeValue, "docs/formulas.md says what goes together", "step %s: %s", shown(s.id), fault)
		}
		if s.flow.Controls() && (s.agent != "" && s.flow.Wake == nil || s.accept != nil || s.critical) {
			f.add(s.at, s.path, CodeValue, "leave agent, accept and critical out", "no agent carries out the step %s",
				shown(s.id))
		}
	}
}

func (f checker) control(m *Formula, s *step, at map[string]*step, vars map[string]bool) {
	s.flow = events.StepFlow{}
	x := exprs{f, s, at, vars}
	s.flow.When = x.read(s.keys["when"], false)
	f.kind(s, x)
	if n := s.keys["for_each"]; n != nil {
		s.flow.Each = &events.StepEach{Over: x.read(n, false),
			Parallel: f.whole(s.keys["max_concurrency"], 1, events.MaxParts),
			Need:     f.joining(s.keys["join"])}
	} else {
		f.alone(s, "max_concurrency", "for_each")
		if j := s.keys["join"]; j != nil && f.word(j) != "all" {
			f.wrong(j, CodeUnsupported, "leave join out: a step waits for all that it needs", "join goes with for_each")
		}
	}
	if n := s.keys["loop"]; n != nil && f.is(n, isMap) {
		f.keys(n, []string{"over", "until", "max"}, nil)
		if s.flow.Each != nil {
			f.wrong(n, CodeValue, "leave one of them out", "for_each and loop in one step")
		}
		s.flow.Each = &events.StepEach{Over: x.read(n.child("over"), false), Until: x.read(n.child("until"), true),
			Parallel: 1,
			Most:     f.whole(n.child("max"), 1, events.MaxParts)}
	}
	agents := !s.flow.Controls()
	s.flow.Retry = f.retry(first(s.keys["retry"], m.retry, agents))
	if s.flow.Kind != events.ControlApproval && s.flow.Signal == "" {
		from := first(s.keys["timeout"], m.timeout, agents && s.child == "" && s.keys["scope"] == nil)
		s.flow.TimeoutMS = f.duration(from)
		f.alone(s, "on_timeout", "kind = \"approval\"")
		f.alone(s, "approvers", "kind = \"approval\"")
	}
	if s.flow.Kind != events.ControlApproval {
		f.alone(s, "escalate_to", "kind = \"approval\" and on_timeout = \"escalate\"")
	}
}

// first is what a step has, or the default where that goes with it.
func first(own, otherwise *node, fits bool) *node {
	if own == nil && fits {
		return otherwise
	}
	return own
}

// alone refuses a key that goes with another one.
func (f checker) alone(s *step, key, with string) {
	if n := s.keys[key]; n != nil {
		f.wrong(n, CodeValue, "leave it out", "%s goes with %s", key, with)
	}
}

func (f checker) kind(s *step, x exprs) {
	n := s.keys["kind"]
	kind := cmp.Or(f.word(n), kindAgent)
	switch kind {
	case kindAgent:
	case kindCheck:
		f.checks(s, n)
	case kindSet, kindTransform:
		s.flow.Kind, s.flow.Set = events.ControlSet, x.read(s.keys["value"], false)
		if s.flow.Set == "" {
			f.wrong(n, CodeMissing, `add value = "EXPRESSION"`, "a step of kind %s has no value", kind)
		}
	case kindWait:
		f.wait(s, n, x)
	case kindApproval:
		a := &events.StepApproval{TimeoutMS: f.duration(s.keys["timeout"]), OnTimeout: f.onTimeout(s.keys["on_timeout"])}
		a.Approvers, a.EscalateTo = f.people(s.keys["approvers"]), f.people(s.keys["escalate_to"])
		if n := s.keys["on_timeout"]; a.OnTimeout == events.ExpiryEscalates && len(a.EscalateTo) == 0 {
			f.wrong(n, CodeMissing, `add escalate_to = ["NAME"]`, "on_timeout escalate does not say who is asked then")
		}
		s.flow.Kind, s.flow.Approval = events.ControlApproval, a
	case kindSwitch:
		s.flow.Kind = events.ControlSet // its value is the step that is chosen
		if s.keys["conditions"] == nil {
			f.wrong(n, CodeMissing, `add conditions = [{if = "EXPRESSION", next = "STEP"}]`, "a switch has no conditions")
		}
	default:
		f.wrong(n, CodeUnsupported, "known here: agent, approval, check, set, transform, switch, wait",
			"a step of kind %s is not supported", shown(kind))
	}
	for key, kinds := range map[string][]string{"value": {kindSet, kindTransform}, "duration": {kindWait},
		"signal": {kindWait}, "wake": {kindWait}, "conditions": {kindSwitch},
		"default": {kindSwitch}} {
		if s.keys[key] != nil && !slices.Contains(kinds, kind) {
			f.alone(s, key, "kind = "+strings.Join(kinds, " or "))
		}
	}
}

// people are the names of a list.
func (f checker) people(n *node) (all []string) {
	for _, r := range f.refs(n, events.MaxApprovers) {
		if !events.ValidID(r.name) {
			f.add(r.at, r.path, CodeUnsupported, "name people, each a single token", "the approver %s is no name", shown(r.name))
		}
		all = append(all, r.name)
	}
	return all
}

// checks makes a step of its acceptance checks alone.
func (f checker) checks(s *step, n *node) {
	s.flow.Check = true
	switch {
	case s.accept == nil || len(s.accept.Checks) == 0:
		f.wrong(n, CodeMissing, `add accept = "COMMAND" or accept = {checks = [...]}`, "a step of kind check has no checks")
	case s.accept.MaxAttempts > 1:
		f.wrong(n, CodeValue, "leave max_attempts of accept out: retry carries the step out again",
			"no agent can do better after a check failed")
	default:
		once := *s.accept
		once.MaxAttempts, s.accept = 1, &once
	}
}

// wait reads what a step waits for: a time, or a signal for at most a time.
func (f checker) wait(s *step, n *node, x exprs) {
	s.flow.Kind = events.ControlWait
	if g := s.keys["signal"]; g != nil {
		if s.flow.Signal = f.word(g); s.flow.Signal != "" && !events.ValidID(s.flow.Signal) {
			f.wrong(g, CodeValue, "use A-Z a-z 0-9 _ and -, at most 64", "%s is no name of a signal", shown(s.flow.Signal))
		}
		s.flow.WaitMS = f.duration(s.keys["timeout"])
		s.flow.OnTimeout = f.oneOf(s.keys["on_timeout"], events.TimeoutFails, events.TimeoutSkips)
		s.flow.Wake = f.wake(s.keys["wake"], x)
		f.alone(s, "duration", "kind = \"wait\" without a signal, which has a timeout")
		f.alone(s, "approvers", "kind = \"approval\"")
		return
	}
	f.alone(s, "wake", "kind = \"wait\" and a signal")
	if s.flow.WaitMS = f.duration(s.keys["duration"]); s.flow.WaitMS == 0 {
		f.wrong(n, CodeMissing, `add duration = "10m" or signal = "NAME"`, "a step of kind wait has neither a duration nor a signal")
	}
}

func (f checker) onTimeout(n *node) string {
	w := f.word(n)
	if w != "" && w != events.ExpiryRejects && w != events.ExpiryFails && w != events.ExpiryApproves &&
		w != events.ExpiryEscalates {
		f.wrong(n, CodeUnsupported, "write reject, approve, fail or escalate", "on_timeout %s is not supported", shown(w))
		return ""
	}
	return w
}

// branches turns a switch into its value, the step that is chosen, and into conditions of the steps that it chooses
// from.
func (f checker) branches(s *step, at map[string]*step, vars map[string]bool) {
	n := s.keys["conditions"]
	if n == nil || s.flow.Kind != events.ControlSet || s.flow.Set != "" {
		return
	}
	x := exprs{f, s, at, vars}
	otherwise, chosen := "None", map[string]bool{}
	choose := func(r ref) {
		t := at[r.name]
		switch {
		case r.name == "":
		case t == nil:
			f.add(r.at, r.path, CodeReference, near(r.name, slices.Sorted(maps.Keys(at))), "there is no step %s", shown(r.name))
		case !chosen[r.name]:
			chosen[r.name] = true
			if !hasRef(t.needs, s.id) {
				t.needs = append(t.needs, ref{s.id, r.at, r.path})
			}
			own := fmt.Sprintf("steps[%q].output == %q", s.id, r.name)
			if t.flow.When != "" {
				own += " and (" + t.flow.When + ")"
			}
			t.flow.When = own
		}
	}
	if d := s.keys["default"]; d != nil {
		r := ref{f.word(d), d.at, d.path}
		choose(r)
		otherwise = strconv.Quote(r.name)
	}
	items := f.list(n, events.MaxParts)
	for _, c := range slices.Backward(items) {
		if !f.is(c, isMap) {
			return
		}
		f.keys(c, []string{"if", "next"}, nil)
		cond, next := x.read(c.child("if"), false), f.named(c, "next")
		if cond == "" {
			f.wrong(c, CodeMissing, `add if = "EXPRESSION"`, "a condition of the switch is missing")
			return
		}
		choose(next)
		otherwise = fmt.Sprintf("%q if (%s) else (%s)", next.name, cond, otherwise)
	}
	if len(otherwise) > events.MaxExpression {
		f.wrong(n, CodeLimit, "use two switches", "the switch has %d bytes, the limit is %d", len(otherwise),
			events.MaxExpression)
		return
	}
	s.flow.Set = otherwise
}

// scope has the teardown of a scope come after the step, however that ends.
func (f checker) scope(s *step, at map[string]*step) {
	n := s.keys["scope"]
	if n == nil || !f.is(n, isMap) {
		return
	}
	f.keys(n, []string{"name", "teardown"}, nil)
	f.word(n.child("name"))
	r := f.named(n, "teardown")
	t := at[r.name]
	switch {
	case r.name == "":
	case t == nil:
		f.add(r.at, r.path, CodeReference, near(r.name, slices.Sorted(maps.Keys(at))), "there is no step %s", shown(r.name))
	case t.keys["when"] != nil || t.flow.Each != nil:
		f.add(r.at, r.path, CodeValue, "leave when, for_each and loop out of it", "the teardown %s is always carried out",
			shown(r.name))
	default:
		t.flow.Always = true
		if !hasRef(t.needs, s.id) {
			t.needs = append(t.needs, ref{s.id, r.at, r.path})
		}
	}
}

func (f checker) retry(n *node) *events.StepRetry {
	if n == nil || !f.is(n, isMap) {
		return nil
	}
	f.keys(n, []string{"max_attempts", "backoff", "factor", "on", "on_exhausted"}, nil)
	r := &events.StepRetry{Attempts: 1, BackoffMS: f.duration(n.child("backoff")),
		On:        f.oneOf(n.child("on"), events.RetryTransient, events.RetryAny),
		Exhausted: f.oneOf(n.child("on_exhausted"), events.HardFail, events.SoftFail)}
	if c := n.child("max_attempts"); c != nil {
		r.Attempts = f.whole(c, 1, events.MaxRetry)
	}
	r.Factor = f.factor(n.child("factor"))
	return r
}

// factor is how many times as long each wait is as the one before it; 0 where there is none.
func (f checker) factor(n *node) float64 {
	if n == nil {
		return 0
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(n.text, "_", ""), 64)
	if n.kind != isInt && n.kind != isNumber || err != nil || v < 1 || v > 100 || v != v {
		f.wrong(n, CodeValue, "want 1 to 100", "%s is no factor", shown(n.text))
		return 0
	}
	return v
}

// joining reads how many of the items must be completed; 0 are all.
func (f checker) joining(n *node) int {
	switch {
	case n == nil:
		return 0
	case n.kind == isText && n.text == "all":
		return 0
	case n.kind == isText && n.text == "any":
		return 1
	case n.kind == isInt:
		return f.whole(n, 1, events.MaxParts)
	}
	f.wrong(n, CodeValue, `write "all", "any" or a number`, "%s is no join", shown(n.text))
	return 0
}

// whole is a number between two others; 0 where there is none.
func (f *faults) whole(n *node, least, most int) int {
	if n == nil || !f.is(n, isInt) {
		return 0
	}
	v, err := strconv.Atoi(strings.ReplaceAll(n.text, "_", ""))
	if err != nil || v < least || v > most {
		f.wrong(n, CodeValue, fmt.Sprintf("want %d to %d", least, most), "%s is out of range", shown(n.text))
		return 0
	}
	return v
}

// duration is a time above zero in milliseconds; 0 where there is none.
func (f *faults) duration(n *node) int64 {
	text := f.word(n)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > events.MaxFlowTime {
		f.wrong(n, CodeValue, fmt.Sprintf(`write a time such as "30m", at most %s`, events.MaxFlowTime), "%s is no duration", shown(text))
		return 0
	}
	return d.Milliseconds()
}

// exprs reads the expressions of a step.
type exprs struct {
	checker
	s    *step
	at   map[string]*step
	vars map[string]bool
}

// read checks an expression. The steps that it names are needed.
func (x exprs) read(n *node, round bool) string {
	if n == nil || !x.is(n, isText) {
		return ""
	}
	names := []string{"steps", "vars"}
	if round {
		names = append(names, "last", "round")
	}
	place := n.where
	e, err := starlark.Parse(n.text, names...)
	if bad, ok := err.(*starlark.Error); ok { //nolint:errorlint // Parse returns it as it is
		x.add(place(bad.Line, bad.Column), n.path, CodeSyntax,
			"write a Starlark expression over steps.ID.output and vars.NAME", "%s", bad.Text)
		return ""
	}
	for _, p := range e.Paths() {
		at := place(p.Line, p.Column)
		if p.Names[0] != "steps" && p.Names[0] != "vars" {
			continue
		}
		if len(p.Names) < 2 {
			x.add(at, n.path, CodeReference, "write "+p.Names[0]+".NAME", "%s is used without a name", p.Names[0])
			continue
		}
		name := p.Names[1]
		switch {
		case p.Names[0] == "vars" && !x.vars[name]:
			x.add(at, n.path, CodeReference, near(name, slices.Sorted(maps.Keys(x.vars))), "there is no variable %s",
				shown(name))
		case p.Names[0] == "vars":
			x.s.uses = append(x.s.uses, name)
		case x.at[name] == nil:
			x.add(at, n.path, CodeReference, near(name, slices.Sorted(maps.Keys(x.at))), "there is no step %s", shown(name))
		case len(p.Names) > 2 && p.Names[2] != "output" && p.Names[2] != "status":
			x.add(at, n.path, CodeReference, "write steps."+name+".output or steps."+name+".status", "a step has no %s",
				shown(p.Names[2]))
		case !hasRef(x.s.needs, name):
			x.s.needs = append(x.s.needs, ref{name, at, n.path})
		}
	}
	return n.text
}

func firstLine(s string) string { line, _, _ := strings.Cut(s, "\n"); return line }

// offsetIn is where a line and column, both from 1, stand in a text.
func offsetIn(s string, line, column int) int {
	at := 0
	for range line - 1 {
		i := strings.IndexByte(s[at:], '\n')
		if i < 0 {
			break
		}
		at += i + 1
	}
	return min(at+max(column-1, 0), len(s))
}

// summary says in a few words when and how often a step is carried out.
func (s *step) summary() []string {
	fl, notes := s.flow, []string{}
	note := func(is bool, format string, args ...any) {
		if is {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	note(fl.Kind != "", "%s", fl.Kind)
	note(fl.Set != "", "= %s", fl.Set)
	note(fl.Signal != "", "for the signal %s", fl.Signal)
	if w := fl.Wake; w != nil {
		note(true, "its agent looks first after %s", w.Delay(1))
		note(true, "until %s", w.Until)
	}
	note(fl.WaitMS > 0, "%s", time.Duration(fl.WaitMS)*time.Millisecond)
	note(fl.When != "", "when %s", fl.When)
	if e := fl.Each; e != nil {
		note(e.Over != "", "for each of %s", e.Over)
		note(e.Until != "", "until %s", e.Until)
		note(e.Parallel > 0 && e.Until == "", "%d at a time", e.Parallel)
		note(e.Most > 0, "at most %d", e.Most)
		note(e.Need > 0, "%d must be completed", e.Need)
	}
	if r := fl.Retry; r != nil {
		note(r.Again(), "%d attempts", r.Attempts)
		note(r.Exhausted == events.SoftFail, "may fail")
	}
	note(fl.TimeoutMS > 0, "timeout %s", time.Duration(fl.TimeoutMS)*time.Millisecond)
	note(fl.Check, "only its checks")
	note(fl.Always, "always")
	return notes
}
