package gate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// always is an approval for later calls, too.
func always(g *run.Gate, scope events.GrantScope) Reply {
	return Reply{Gate: g.ID, Decision: "approve", By: "anna", Hash: g.Hash, Input: 4, Always: scope}
}

// next asks for one more call in the run's next turn.
func next(b *runtest.Builder, command string) {
	s := b.State()
	for _, c := range s.Open {
		switch ref := runtest.Ref(c.Step, c.ID, c.Tool); c.Phase {
		case run.CallAllowed:
			b.Append(runtest.CallBegun(ref, 1))
			b.Append(runtest.CallDone(ref, b.State().Sequence, "ok"))
		case run.CallRequested:
			b.Append(runtest.CallNo(ref))
		}
	}
	s = b.State()
	n := s.Turns().Len() + 1
	input, _ := json.Marshal(map[string]string{"command": command})
	b.Append(runtest.Turn(n, "a", "on", runtest.Asked(n, 1, "bash", string(input))))
}

// one is the one event that a look brings.
func one(t *testing.T, b *runtest.Builder, l Policy, now time.Time) events.Payload {
	t.Helper()
	say, err := Look(b.State(), now, l)
	if err != nil || len(say) != 1 {
		t.Fatalf("got %d events, %v", len(say), err)
	}
	return say[0]
}

// given is a run with a grant for "make all", or for a pattern, until an hour after noon.
func given(t *testing.T, l Policy, pattern string) *runtest.Builder {
	t.Helper()
	b, g := gated(t, l, events.GateTerms{})
	r := always(g, events.GrantRun)
	r.Pattern, r.Term = pattern, time.Hour
	say, err := AnswerEdited(b.State(), noon, r, l)
	if err != nil {
		t.Fatal(err)
	}
	b.Append(say...)
	b.Append(one(t, b, l, noon))
	return b
}

func TestGrants(t *testing.T) {
	t.Parallel()
	l := law(careful)
	t.Run("PLUS-14 the gate shows what can be allowed for longer, and a yes with always allows that", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, l, events.GateTerms{})
		if a := g.Always; a == nil || a.Pattern != "make all" || a.Rule != "careful" || a.Tool != "bash" || a.Action == "" {
			t.Fatalf("offered %+v", a)
		}
		say, err := AnswerEdited(b.State(), noon, always(g, events.GrantRun), l)
		if err != nil {
			t.Fatal(err)
		}
		d := say[0].(*events.GateApprovedData).Grant
		if d.ID != g.ID || d.Run != "r1" || d.Allowance != *g.Always || d.By != "anna" || !d.At.Equal(noon) || !d.Until.Equal(noon.Add(events.DefaultGrant)) {
			t.Errorf("%+v", d)
		}
		b.Append(say...)
		if again, err := AnswerEdited(b.State(), noon, always(g, events.GrantRun), l); len(again) != 0 || err != nil {
			t.Errorf("a second look: %v, %v", again, err)
		}
		other := always(g, events.GrantRun)
		other.Input = 5
		_, err = AnswerEdited(b.State(), noon, other, l)
		refusedWith(t, err, "gate_closed")
		b.Append(one(t, b, l, noon))
		next(b, "make all")
		yes := one(t, b, l, noon).(*events.CallAllowedData)
		if len(yes.Grants) != 1 || yes.Grants[0].ID != g.ID || yes.Rule != "careful" || yes.Gate != "" {
			t.Errorf("%+v", yes)
		}
	})
	t.Run("PLUS-14 another command, the end of the time and a revocation ask again", func(t *testing.T) {
		t.Parallel()
		asks := func(name string, b *runtest.Builder, l Policy, now time.Time) {
			t.Helper()
			if p := one(t, b, l, now); p.Kind() != events.GateOpened {
				t.Errorf("%s: got %s", name, p.Kind())
			}
		}
		b := given(t, l, "")
		next(b, "make all -j 8")
		asks("more words", b, l, noon)
		b = given(t, l, "")
		next(b, "make all")
		asks("an hour later", b, l, noon.Add(time.Hour))
		if p := one(t, b, l, noon.Add(time.Hour-1)); p.Kind() != events.CallAllowed {
			t.Errorf("just before: %s", p.Kind())
		}
		changed := careful
		changed.Reason = "because of last week"
		asks("the rule was changed", b, law(changed), noon)
		asks("the rule is gone and another asks", b, law(events.Rule{ID: "other", Tool: "bash", Action: "ask"}), noon)
		asks("another rule asks, too", b, law(careful, events.Rule{ID: "another", Tool: "bash", Match: events.Match{Glob: "* all"}, Action: "ask"}), noon)
		g := b.State().Gates[0]
		r := Reply{Gate: g.ID, Decision: "revoke", By: "anna", Input: 9}
		say, err := Revoke(b.State(), noon, r)
		if err != nil || len(say) != 1 {
			t.Fatal(say, err)
		}
		b.Append(say...)
		if again, err := Revoke(b.State(), noon, r); len(again) != 0 || err != nil {
			t.Errorf("a second look: %v, %v", again, err)
		}
		asks("revoked", b, l, noon)
	})
	t.Run("PLUS-14 SAFE-12 what a rule denies stays denied, and what cannot be read is never granted", func(t *testing.T) {
		t.Parallel()
		b := given(t, l, "make *")
		next(b, "make all")
		no := one(t, b, law(careful, events.Rule{ID: "never", Tool: "bash", Match: events.Match{Glob: "make all"}, Action: "deny", Locked: true}), noon)
		if d, ok := no.(*events.CallRefusedData); !ok || d.Rule != "never" {
			t.Errorf("%+v", no)
		}
		hidden := l
		hidden.Action = func(tool string, input json.RawMessage) guard.Action {
			a := l.Action(tool, input)
			a.Unclear = "it runs what it reads"
			return a
		}
		if p := one(t, b, hidden, noon); p.Kind() != events.GateOpened || p.(*events.GateOpenedData).Always != nil {
			t.Errorf("%+v", p)
		}
		for name, c := range map[string]struct {
			tool, command string
			action        guard.Action
		}{
			"a word that is known only when it runs": {"bash", "make $X", guard.Action{Tool: "bash", Commands: [][]string{{"make", guard.Unknown}}}},
			"a text that is too long to read":        {"bash", "make " + strings.Repeat("x", events.MaxPattern), guard.Action{Tool: "bash", Commands: [][]string{{"make", "x"}}}},
		} {
			wide := law(events.Rule{ID: "wide", Tool: "bash", Action: "ask"})
			wide.Action = func(string, json.RawMessage) guard.Action { return c.action }
			b := asking(10, runtest.Asked(1, 1, c.tool, fmt.Sprintf(`{"command":%q}`, c.command)))
			if g := one(t, b, wide, noon).(*events.GateOpenedData); g.Always != nil {
				t.Errorf("%s: %+v", name, g.Always)
			}
		}
	})
	t.Run("PLUS-14 a pattern covers one command that begins so, and no text around it", func(t *testing.T) {
		t.Parallel()
		for command, granted := range map[string]bool{"make all": true, "make -j 8 test": true, "makefoo all": false, "FOO=1 make all": false, "nice make all": false} {
			b := given(t, l, "make *")
			wide := law(careful)
			wide.Action = func(tool string, input json.RawMessage) guard.Action {
				a := l.Action(tool, input)
				for len(a.Commands) == 1 && len(a.Commands[0]) > 0 && strings.Contains(a.Commands[0][0], "=") { // as the parser does
					a.Commands[0] = a.Commands[0][1:]
				}
				return a
			}
			next(b, command)
			say, err := Look(b.State(), noon, wide)
			if err != nil || len(say) != 1 {
				t.Fatal(say, err)
			}
			d, ok := say[0].(*events.CallAllowedData)
			if got := ok && len(d.Grants) > 0; got != granted {
				t.Errorf("%q: granted is %v, want %v: %+v", command, got, granted, say[0])
			}
		}
		for _, pattern := range []string{"make", "make*", " *", "*", "m* *", "make all *x", "go *", "make all -j *", "make 'all' *", "make; *"} {
			b, g := gated(t, l, events.GateTerms{})
			r := always(g, events.GrantRun)
			r.Pattern = pattern
			_, err := AnswerEdited(b.State(), noon, r, l)
			refusedWith(t, err, "bad_pattern")
		}
	})
	t.Run("PLUS-14 an answer that cannot be given for longer is refused, and the gate waits", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, l, events.GateTerms{})
		_, err := AnswerEdited(b.State(), noon, always(g, events.GrantSession), l)
		refusedWith(t, err, "no_session")
		many := law(careful)
		b, g = gated(t, many, events.GateTerms{Approvers: 2})
		if g.Always != nil {
			t.Error("a gate of several approvers offers a grant")
		}
		_, err = AnswerEdited(b.State(), noon, always(g, events.GrantRun), l)
		refusedWith(t, err, "not_grantable")
		step := runtest.New("main", "r1")
		step.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"))
		step.Append(runtest.GateAt("g-1", "a", ""))
		_, err = AnswerEdited(step.State(), noon, always(step.State().Gates[0], events.GrantRun), l)
		refusedWith(t, err, "not_grantable")
		_, err = Revoke(b.State(), noon, Reply{Gate: g.ID, Decision: "revoke"})
		refusedWith(t, err, "unknown_grant")
		if _, err := Answer(b.State(), noon, always(g, events.GrantRun)); err == nil {
			t.Error("a grant that was not judged is taken")
		}
	})
}

// inSession is law with the grants of a session as they are read.
func inSession(l Policy, all *[]events.GrantUse, asked *int) Policy {
	l.Grants = func(string) ([]events.GrantUse, bool) {
		*asked++
		return *all, *all != nil
	}
	return l
}

func TestSessionGrants(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-14 the grants of the session are read where a rule asks, and no verdict is given before", func(t *testing.T) {
		t.Parallel()
		var all []events.GrantUse
		asked := 0
		l := inSession(law(careful), &all, &asked)
		b := runtest.New("main", "r1")
		c := runtest.Created()
		c.Session = "s"
		b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
			runtest.Turn(1, "a", "calls", runtest.Asked(1, 1, "bash", `{"command":"make all"}`), runtest.Asked(1, 2, "bash", `{"command":"ls"}`)))
		say := look(t, b, l)
		if len(say) != 1 || say[0].Kind() != events.CallAllowed || asked != 1 {
			t.Fatalf("%d events, asked %d times", len(say), asked)
		}
		b.Append(say...)
		all = []events.GrantUse{}
		g := one(t, b, l, noon).(*events.GateOpenedData)
		grant := events.Grant{ID: "g-0", Run: "r0", Allowance: *g.Always, Scope: events.GrantSession, Session: "s", Until: noon.Add(time.Hour)}
		for name, c := range map[string]struct {
			change func(*events.Grant)
			want   events.Kind
		}{
			"it fits":         {func(*events.Grant) {}, events.CallAllowed},
			"another session": {func(d *events.Grant) { d.Session = "t" }, events.GateOpened},
			"another scope":   {func(d *events.Grant) { d.Scope = events.GrantRun }, events.GateOpened},
			"another tool":    {func(d *events.Grant) { d.Tool = "read" }, events.GateOpened},
			"its end":         {func(d *events.Grant) { d.Until = noon }, events.GateOpened},
		} {
			d := grant
			c.change(&d)
			all = []events.GrantUse{{Grant: d, Sequence: 7}}
			p := one(t, b, l, noon)
			if p.Kind() != c.want {
				t.Errorf("%s: got %s, want %s", name, p.Kind(), c.want)
			}
			if yes, ok := p.(*events.CallAllowedData); ok && (len(yes.Grants) != 1 || yes.Grants[0].Sequence != 7) {
				t.Errorf("%+v", yes.Grants)
			}
		}
	})
	t.Run("PLUS-14 SUB-6 a child rests on the grants of the session of its tree, and its gate gives some to it", func(t *testing.T) {
		t.Parallel()
		all, asked := []events.GrantUse{}, 0
		l := inSession(law(careful), &all, &asked)
		b := runtest.New("main", "k1")
		c := runtest.Created()
		c.ChildOf = &events.Lineage{Parent: "p", Root: "p", Depth: 1, Step: "x", Attempt: 1, Session: "s", SessionFence: 3}
		b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
			runtest.Turn(1, "a", "calls", runtest.Asked(1, 1, "bash", `{"command":"make all"}`)))
		g := one(t, b, l, noon).(*events.GateOpenedData)
		grant := events.Grant{ID: "g-0", Run: "p", Allowance: *g.Always, Scope: events.GrantSession, Session: "s", Until: noon.Add(time.Hour)}
		for session, want := range map[string]events.Kind{"s": events.CallAllowed, "t": events.GateOpened} {
			grant.Session = session
			all = []events.GrantUse{{Grant: grant, Sequence: 7}}
			if p := one(t, b, l, noon); p.Kind() != want {
				t.Errorf("a grant of session %s: got %s, want %s", session, p.Kind(), want)
			}
		}
		grant.Session = "s"
		all = []events.GrantUse{{Grant: grant, Sequence: 7}}
		locked := inSession(law(careful, events.Rule{ID: "never", Tool: "bash", Match: events.Match{Glob: "make all"}, Action: "deny", Locked: true}), &all, &asked)
		if d, ok := one(t, b, locked, noon).(*events.CallRefusedData); !ok || d.Rule != "never" {
			t.Errorf("a grant of the tree passes over a locked deny: %+v", d)
		}
		all = []events.GrantUse{}
		b.Append(g)
		say, err := AnswerEdited(b.State(), noon, always(b.State().Gates[0], events.GrantSession), l)
		if err != nil {
			t.Fatal(err)
		}
		if d := say[0].(*events.GateApprovedData).Grant; d.Session != "s" || d.Run != "k1" {
			t.Errorf("%+v", d)
		}
	})
}

// TestGrantProp is the rule of the simulation: no call passes a rule that asks but by a gate, or by a grant that stands.
func TestGrantProp(t *testing.T) {
	t.Parallel()
	set, err := guard.Build([]events.Rule{careful})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		l, now := law(careful), noon
		l.Rules = func(events.Agent) (guard.Set, error) { return set, nil }
		b := asking(1000, runtest.Asked(1, 1, "bash", `{"command":"make all"}`))
		stands := map[string]events.Grant{} // by pattern, as a dumb twin remembers it
		commands := []string{"make all", "make test", "ls"}
		for i := range rapid.IntRange(1, 25).Draw(t, "moves") {
			say, err := Look(b.State(), now, l)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range say {
				if d, ok := p.(*events.CallAllowedData); ok && d.Gate == "" {
					s := b.State()
					var in struct{ Command string }
					_ = json.Unmarshal(s.Open[d.Call].Input, &in)
					g, granted := stands[in.Command]
					if holds := granted && now.Before(g.Until); in.Command != "ls" && !holds {
						t.Fatalf("%q passed on %+v", in.Command, d.Grants)
					}
				}
			}
			b.AppendAt(now, say...)
			s := b.State()
			for _, g := range s.Waiting() {
				r := always(g, events.GrantRun)
				r.Input, r.Term = uint64(100+i), time.Duration(rapid.IntRange(1, 3).Draw(t, "hours"))*time.Hour
				if rapid.Bool().Draw(t, "once") || g.Always == nil { // an agent in a loop is asked about each time
					r.Always, r.Term = "", 0
				}
				say, err := AnswerEdited(s, now, r, l)
				if err != nil {
					t.Fatal(err)
				}
				b.AppendAt(now, say...)
				if d := say[0].(*events.GateApprovedData).Grant; d != nil {
					stands[d.Pattern] = *d
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "revoke") == 0 {
				s = b.State()
				for _, d := range s.Grants(now) {
					say, err := Revoke(s, now, Reply{Gate: d.ID, Decision: "revoke", Input: uint64(1000 + i)})
					if err != nil {
						t.Fatal(err)
					}
					b.AppendAt(now, say...)
					if stands[d.Pattern].ID == d.ID {
						delete(stands, d.Pattern)
					}
					break
				}
			}
			s = b.State()
			if len(s.Waiting()) == 0 && !slices.ContainsFunc(slices.Collect(maps.Values(s.Open)), func(c *run.Call) bool { return c.Phase == run.CallRequested }) {
				now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
				next(b, rapid.SampledFrom(commands).Draw(t, "command"))
			}
		}
	})
}
