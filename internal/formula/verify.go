package formula

import (
	"maps"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/events"
)

// verify finds what is wrong with a whole formula, and orders its steps so that each stands behind those it needs.
func (f checker) verify(m *Formula) {
	start := m.src.start()
	if m.Type == Expansion || m.Type == Aspect {
		m.steps = append(slices.Clone(m.template), adviceSteps(m)...)
		if len(m.steps) == 0 {
			f.add(start, "", CodeMissing, "add [[template]] or [[advice]]", "the %s has no steps", m.Type)
		}
		return // its steps are checked where they are put in
	}
	switch {
	case len(m.steps) == 0 && len(f.found) == 0:
		f.add(start, "steps", CodeMissing, "add [[steps]] with id and description", "the formula has no steps")
	case len(m.steps) > MaxSteps:
		f.add(start, "steps", CodeLimit, "split the formula", "the formula has %d steps, the limit is %d", len(m.steps),
			MaxSteps)
		return
	}
	if len(m.Vars) > MaxVars {
		f.add(start, "vars", CodeLimit, "", "the formula has %d variables, the limit is %d", len(m.Vars), MaxVars)
		return
	}
	at := make(map[string]*step, len(m.steps))
	for _, s := range m.steps {
		if other := at[s.id]; other != nil && s.id != "" {
			f.add(s.at, s.path, CodeDuplicate, "give each step its own id", "the id %s is used twice, also at %s",
				shown(s.id), other.path)
		}
		at[s.id] = s
	}
	known := map[string]bool{}
	for _, v := range m.Vars {
		if known[v.Name] {
			f.add(v.at, v.path, CodeDuplicate, "remove one of them", "the variable %s is defined twice", v.Name)
		}
		known[v.Name] = true
	}
	f.names(m.description, known)
	f.controls(m, at, known)
	for _, s := range m.steps {
		f.checkStep(m, s, at, known)
	}
	if len(f.found) == 0 {
		f.order(m, at)
	}
}

func adviceSteps(m *Formula) (out []*step) {
	for _, a := range m.advice {
		out = slices.Concat(out, a.before, a.after)
	}
	return out
}

// checkStep checks one step. What its texts have the output of, it needs.
func (f checker) checkStep(m *Formula, s *step, at map[string]*step, vars map[string]bool) {
	d := s.description()
	if d.empty() && (!s.flow.Controls() || s.flow.Wake != nil || s.flow.Kind == events.ControlApproval) {
		f.add(s.at, s.path, CodeMissing, "say what the step is to do", "the step %s has no title and no description",
			shown(s.id))
	}
	f.names(d, vars)
	for _, o := range d.outputs() {
		if !hasRef(s.needs, o.name) {
			s.needs = append(s.needs, o)
		}
	}
	if len(s.needs) > MaxNeeds {
		f.add(s.at, s.path, CodeLimit, "", "the step needs %d others, the limit is %d", len(s.needs), MaxNeeds)
		return
	}
	var needs []ref
	seen := map[string]bool{}
	for _, r := range s.needs {
		switch {
		case at[r.name] == nil && r.name != "":
			f.add(r.at, r.path, CodeReference, near(r.name, slices.Sorted(maps.Keys(at))), "there is no step %s",
				shown(r.name))
		case !seen[r.name]:
			seen[r.name] = true
			needs = append(needs, r)
		}
	}
	s.needs = needs
	if !m.Inline {
		return
	}
	for key, set := range map[string]bool{"agent": s.agent != "", "critical": s.critical, "child": s.child != "",
		"accept": s.accept != nil, "control flow": s.flow != (events.StepFlow{})} {
		if set {
			f.add(s.at, join(s.path, key), CodeValue, `leave it out, or write tracking = "persistent"`,
				"a checklist has one agent and no steps of its own: %s", key)
		}
	}
}

// names refuses variables that the formula does not have.
func (f checker) names(t text, known map[string]bool) {
	for _, p := range t.parts {
		if p.kind == variable && !known[p.s] && !strings.ContainsAny(p.s, ".") { // with a dot it was refused where it was read
			names := slices.Sorted(maps.Keys(known))
			f.add(t.at.find(p.written), t.path, CodeTemplate, didyoumean.Hint(p.s, names, "add [vars."+p.s+"]"),
				"the template %s names nothing that there is",
				shown(p.written))
		}
	}
}

// order sorts the steps so that each stands behind those it needs, else as they stand in the files.
func (f checker) order(m *Formula, at map[string]*step) {
	const open, done = 1, 2
	state := make(map[string]int, len(m.steps))
	var out []*step
	var trail []string
	var visit func(s *step) bool
	visit = func(s *step) bool {
		state[s.id] = open
		trail = append(trail, s.id)
		for _, r := range s.needs {
			switch state[r.name] {
			case done:
				continue
			case open:
				circle := append(slices.Clone(trail[slices.Index(trail, r.name):]), r.name)
				f.add(r.at, r.path, CodeCycle, "remove one of these needs", "steps need each other: %s",
					clipped(strings.Join(circle, " needs ")))
				return false
			}
			if !visit(at[r.name]) {
				return false
			}
		}
		trail = trail[:len(trail)-1]
		state[s.id] = done
		out = append(out, s)
		return true
	}
	for _, s := range m.steps {
		if state[s.id] == 0 && !visit(s) {
			return
		}
	}
	m.steps = out
}

func clipped(s string) string {
	const most = 400
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
