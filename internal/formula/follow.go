package formula

import (
	"fmt"
	"slices"
	"strings"
)

// edge leads to a state: after these steps, where when holds; empty is always.
type edge struct {
	after []ref
	when  string
}

// joined is one edge in the place of some that lead to the same state: it is taken where one of them is.
func joined(all []edge) edge {
	var out edge
	var when []string
	always := false
	for _, e := range all {
		for _, r := range e.after {
			if !hasRef(out.after, r.name) {
				out.after = append(out.after, r)
			}
		}
		if always = always || e.when == ""; !slices.Contains(when, e.when) {
			when = append(when, e.when)
		}
	}
	if always || len(when) == 0 {
		return out
	}
	if out.when = when[0]; len(when) > 1 {
		out.when = "(" + strings.Join(when, ") or (") + ")"
	}
	return out
}

// follow makes the steps of a list of states that is entered on an edge, and returns the edges that leave it. A state
// that names no next one goes on with the one behind it.
func (w *flow) follow(b block, in edge) (out []edge) {
	if len(b.states) == 0 {
		return []edge{in}
	}
	first := 0
	if start := w.f.word(b.start); start != "" {
		first = w.index(b.states, ref{start, b.start.at, b.start.path})
	}
	order, nexts := w.order(b.states, first)
	entered := make([][]edge, len(b.states))
	if first >= 0 {
		entered[first] = []edge{in}
	}
	for _, i := range order {
		s := b.states[i]
		left := w.enter(s, joined(entered[i]))
		if len(nexts[i]) == 0 {
			out = append(out, left...)
		}
		for _, to := range nexts[i] {
			for _, e := range left {
				if len(s.switched) > 0 {
					e.when = fmt.Sprintf("steps[%q].output == %q", s.name.name, b.states[to].name.name)
				}
				entered[to] = append(entered[to], e)
			}
		}
	}
	for i, s := range b.states {
		if !slices.Contains(order, i) && len(w.f.found) == 0 {
			w.f.add(s.name.at, s.name.path, CodeReference, "name it as the next of another state, or remove it",
				"the state %s is never reached", shown(s.name.name))
		}
	}
	return out
}

// index of the state that a name names; -1 where there is none.
func (w *flow) index(states []*state, r ref) int {
	i := slices.IndexFunc(states, func(s *state) bool { return s.name.name == r.name })
	if i < 0 && r.name != "" {
		var names []string
		for _, s := range states {
			names = append(names, s.name.name)
		}
		w.f.add(r.at, r.path, CodeReference, near(r.name, names), "there is no state %s here", shown(r.name))
	}
	return i
}

// order sorts the states that are reached so that each comes after all that lead to it, and finds what follows each.
func (w *flow) order(states []*state, first int) (order []int, nexts [][]int) {
	const open, done = 1, 2
	nexts, seen := make([][]int, len(states)), make([]int, len(states))
	var visit func(i int)
	visit = func(i int) {
		seen[i] = open
		for _, to := range w.nextOf(states, i) {
			switch seen[to] {
			case open:
				w.f.add(states[to].name.at, states[to].name.path, CodeCycle, "a workflow has no loops",
					"the state %s comes again after itself", shown(states[to].name.name))
				continue
			case 0:
				visit(to)
			}
			if nexts[i] = append(nexts[i], to); len(order) > MaxSteps {
				return
			}
		}
		seen[i] = done
		order = append(order, i)
	}
	if first >= 0 {
		visit(first)
	}
	slices.Reverse(order)
	return order, nexts
}

func (w *flow) nextOf(states []*state, i int) (out []int) {
	s := states[i]
	names := s.switched
	switch {
	case s.step != nil && len(s.conditions) > 0:
	case s.end:
		return nil
	case s.next.name != "":
		names = []ref{s.next}
	case i+1 < len(states):
		return []int{i + 1}
	}
	for _, r := range names {
		if to := w.index(states, r); to >= 0 && !slices.Contains(out, to) {
			out = append(out, to)
		}
	}
	return out
}

// enter makes the steps of one state, and returns the edges that leave it.
func (w *flow) enter(s *state, in edge) []edge {
	if w.all++; w.all > MaxSteps {
		return []edge{in}
	}
	var out []edge
	var ends []ref
	switch {
	case s.step != nil:
		out = []edge{w.add(s, in)}
	case s.body != nil:
		out = w.tried(s, in)
	case len(s.branches) > 0:
		all := edge{when: in.when}
		for _, b := range s.branches {
			e := joined(w.follow(b, in))
			all.after = append(all.after, e.after...)
			if w.trying && e.when != "" {
				all.when = both(all.when, e.when)
			}
		}
		out = []edge{all}
	default: // it was refused
		return []edge{in}
	}
	for _, e := range out {
		ends = append(ends, e.after...)
	}
	for _, r := range s.results {
		v := w.results[r.key]
		if len(s.branches) > 0 {
			v = value{together: true}
		}
		for _, e := range ends {
			if !slices.Contains(v.steps, e.name) {
				v.steps = append(v.steps, e.name)
			}
		}
		v.field = r.field
		w.results[r.key] = v
	}
	return out
}

// both is a condition that holds where two do.
func both(a, b string) string {
	if a == "" {
		return b
	}
	return "(" + a + ") and (" + b + ")"
}

// add adds the step of a state.
func (w *flow) add(s *state, in edge) edge {
	s.step.needs = append(s.step.needs, in.after...)
	out := edge{after: []ref{s.name}}
	if in.when != "" {
		s.step.put("when", in.when)
		out.when = fmt.Sprintf("steps[%q].status != \"skipped\"", s.step.id)
	}
	if w.trying {
		out.when = fmt.Sprintf("steps[%q].status == \"completed\"", s.step.id)
	}
	w.steps = append(w.steps, s.step)
	return out
}

// tried makes the steps of a try: where it has a catch its own steps may fail, and those of the catch are carried out
// where one did; those of finally are a teardown of both.
func (w *flow) tried(s *state, in edge) []edge {
	from, outer := len(w.steps), w.trying
	w.trying = s.catch != nil
	out := w.follow(*s.body, in)
	w.trying = outer
	body := slices.Clone(w.steps[from:])
	if s.catch != nil {
		out = append(out, w.caught(s, body)...)
	}
	all := w.steps[from:]
	if s.finally == nil || len(all) == 0 {
		return out
	}
	if in.when != "" {
		w.f.add(s.at, s.path, CodeUnsupported, "put the switch into the try", "a try with finally behind a switch")
		return out
	}
	all = slices.Clone(all)
	at := len(w.steps)
	last := joined(w.follow(*s.finally, edge{}))
	if at == len(w.steps) || w.steps[at].keys["when"] != nil {
		return out
	}
	for _, st := range all {
		st.keys["scope"] = &node{kind: isMap, at: st.at, path: st.path,
			pairs: []pair{{"teardown", st.at, &node{kind: isText, text: w.steps[at].id, at: st.at, path: st.path}}}}
	}
	for i := range out {
		out[i].after = append(slices.Clone(out[i].after), last.after...)
	}
	return out
}

// caught makes the steps of a catch.
func (w *flow) caught(s *state, body []*step) []edge {
	var after []ref
	var failed []string
	for _, st := range body {
		if st.keys["kind"] == nil {
			st.soften(w.f)
		}
		after = append(after, ref{st.id, st.at, st.path})
		failed = append(failed, fmt.Sprintf("steps[%q].status == \"failed\"", st.id))
	}
	if len(body) == 0 {
		return nil
	}
	return w.follow(*s.catch, edge{after, strings.Join(failed, " or ")})
}

// soften lets the others go on where the step fails.
func (s *step) soften(f reader) {
	retry := &node{kind: isMap, at: s.at, path: s.path}
	if own := s.keys["retry"]; own != nil && f.is(own, isMap) {
		*retry = *own
		if c := own.child("on_exhausted"); c != nil {
			f.wrong(c, CodeValue, "leave it out", "in a try with a catch every state may fail")
		}
	}
	retry.pairs = append(slices.Clone(retry.pairs), pair{"on_exhausted", s.at,
		&node{kind: isText, text: "soft_fail", at: s.at, path: s.path}})
	s.keys["retry"] = retry
}
