package run_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// atGate is a run whose first call waits at a gate that can be answered for later calls, too; its second call waits for
// a verdict.
func atGate() *runtest.Builder {
	b := runtest.New("default", "run-a")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build")), runtest.Ready("build"),
		runtest.Allowed("build"),
		runtest.Turn(1, "build", "I build.", runtest.Asked(1, 1, "bash", `{"command":"make all"}`),
			runtest.Asked(1, 2, "bash", `{"command":"make all"}`)),
		runtest.Offered(runtest.GateAt("g-1", "build", "c1-1")))
	return b
}

// used is the permission of the second call on a grant.
func used(b *runtest.Builder) *events.CallAllowedData {
	d := runtest.CallYes(runtest.Ref("build", "c1-2", "bash"), "once")
	s := b.State()
	if g := s.Gate("g-1"); g.Grant != nil {
		d.Grants = []events.GrantUse{{Grant: *g.Grant}}
	} else {
		d.Grants = []events.GrantUse{{Grant: events.Grant{ID: "g-1", Run: "run-a", Scope: events.GrantRun}}}
	}
	return d
}

func TestGrants(t *testing.T) {
	t.Parallel()
	try := func(t *testing.T, b *runtest.Builder, p events.Payload, want string) {
		t.Helper()
		_, err := b.Try(p)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", p.Kind(), err, want)
		}
	}
	given := func() *runtest.Builder {
		b := atGate()
		s := b.State()
		b.Append(runtest.Always(s, s.Gate("g-1"), s.UpdatedAt))
		return b
	}
	t.Run("PLUS-14 a call is permitted on a grant of its run, until it is revoked or expires", func(t *testing.T) {
		t.Parallel()
		good := given()
		try(t, good, used(good), "")
		b := given()
		s := b.State()
		if got := s.Grants(s.UpdatedAt); len(got) != 1 || got[0].Pattern != "make all" {
			t.Errorf("grants %+v", got)
		}
		late := given()
		got := late.State()
		now := got.Gate("g-1").Grant.Until
		_, err := got.Apply(late.Bad(used(late), func(f *events.Event) { f.Time = now }))
		if err == nil || !strings.Contains(err.Error(), "has expired") {
			t.Errorf("got %v", err)
		}
		if len(got.Grants(now)) != 0 || len(got.Grants(now.Add(-1))) != 1 {
			t.Error("it is listed at its end, or not before")
		}
		b.Append(runtest.Revoked("g-1"))
		try(t, b, used(b), "was revoked before")
		try(t, b, runtest.Revoked("g-1"), "was revoked before")
		if s := b.State(); len(s.Grants(s.UpdatedAt)) != 0 || !s.Took(77) {
			t.Error("it was revoked and is listed")
		}
	})
	t.Run("PLUS-14 a grant that was not given is none", func(t *testing.T) {
		t.Parallel()
		b := atGate()
		try(t, b, used(b), "was not given in this run")
		try(t, b, runtest.Revoked("g-1"), "is unknown")
		other := used(b)
		other.Grants[0].Run = "run-b"
		try(t, b, other, "was not given in this run")
	})
	t.Run("PLUS-14 an approval grants what the gate offers, and nothing else", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			change func(*events.GateApprovedData)
			want   string
		}{
			"another rule":   {func(d *events.GateApprovedData) { d.Grant.Rule = "other" }, "not about what the gate asks"},
			"a changed rule": {func(d *events.GateApprovedData) { d.Grant.RuleHash = "00" }, "not about what the gate asks"},
			"another tool":   {func(d *events.GateApprovedData) { d.Grant.Tool = "write" }, "not about what the gate asks"},
			"another run":    {func(d *events.GateApprovedData) { d.Grant.Run = "run-b" }, "of run run-b"},
			"edited arguments": {func(d *events.GateApprovedData) {
				d.EditedInput = []byte(`{"command":"make one"}`)
				d.EditedHash = events.EditedHash(d.ProposalHash, d.EditedInput)
			}, "only be answered for its own call"},
		} {
			b := atGate()
			s := b.State()
			d := runtest.Always(s, s.Gate("g-1"), s.UpdatedAt)
			c.change(d)
			if _, err := b.Try(d); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
		}
	})
}
