package security

import (
	"fmt"
	"testing"

	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/test/robust/report"
)

// TestRobust is the security part of the robust programme; it takes seconds, so it also is a plain test.
func TestRobust(t *testing.T) {
	part := report.Part{Name: "security", Title: "Attacks on a station with the shipped accounts"}
	t.Run("SAFE-6 GUARD-9 every user tries every verb on every subject, and only what the table here permits is let through", func(t *testing.T) {
		sum := matrix(newBed(t))
		t.Logf("%d probes by %d users: %d tried, %d allowed, %d refused, %d wrong", sum.probes, len(actors), sum.tried, sum.allowed, sum.refused, len(sum.wrong))
		part.Add("verbs on subjects, by user", sum.tried, "")
		part.Add("... let through", sum.allowed, "")
		part.Add("... refused", sum.refused, "")
		part.Add("... other than expected", len(sum.wrong), "0")
		for _, w := range sum.wrong {
			part.Violate("SAFE-6 %s", w)
			t.Error(w)
		}
	})
	for _, a := range attacks {
		t.Run("SAFE-5 "+a.name, func(t *testing.T) { carryOut(t, &part, a, newBed(t)) })
	}
	t.Run("SAFE-5 SAFE-6 three servers: services with the shipped rights carry out a run, and no one says what is another's", func(t *testing.T) {
		g := jettest.Cluster(t, 3, func(cfg *natsserver.Config) { cfg.Accounts = shipped() })
		wholeRun(t, g)
		b := bedOn(t, g.Server(0).URL(), 3)
		carryOut(t, &part, attack{"another's subject, on three servers", answers}, b)
		carryOut(t, &part, attack{"swallowed message id, on three servers", swallowedIDs}, b)
	})
	t.Run("SAFE-11 SAFE-6 services with the shipped rights carry out runs, and no secret of theirs is found anywhere", func(t *testing.T) {
		sum := canaries(t)
		t.Logf("%d secrets looked for in %d places of %d bytes: %d found", sum.secrets, sum.places, sum.bytes, len(sum.found))
		part.Add("canary secrets", sum.secrets, "")
		part.Add("... looked for in", fmt.Sprintf("%d places, %d bytes", sum.places, sum.bytes), "")
		part.Add("... found", len(sum.found), "0")
		for _, f := range sum.found {
			part.Violate("SAFE-11 %s", f)
			t.Error(f)
		}
		if t.Failed() && len(sum.found) == 0 {
			part.Violate("SAFE-11 the search did not go as planned; see the test's output")
		}
	})
	t.Run("SAFE-11 GUARD-9 SBX-3 a command in a sandbox reaches no NATS, no secret, no other workspace, where one without reaches all", func(t *testing.T) {
		shut, open, missing := tools(t)
		if missing != nil {
			part.Untried = append(part.Untried, "a command in a sandbox: bubblewrap does not work here: "+missing.Error())
			t.Skipf("NOT TESTED: bubblewrap does not work here: %v", missing)
		}
		t.Logf("a command in bwrap reached %d things, one on the host %d: %q", len(shut), len(open), open)
		part.Add("what a command in a sandbox reached", len(shut), "0")
		part.Add("... and the same command without", len(open), "")
		for _, r := range shut {
			part.Violate("SAFE-11 a command in a sandbox reached %s", r)
			t.Errorf("reached %s", r)
		}
		if len(open) < 4 {
			t.Errorf("without a sandbox it reached only %q: the attack proves nothing", open)
		}
	})
	if err := part.Save(); err != nil {
		t.Fatal(err)
	}
}

// carryOut tries an attack and notes what came of it.
func carryOut(t *testing.T, part *report.Part, a attack, b *bed) {
	tries, harm := a.try(t, b)
	t.Logf("%s: %d tries, %d did harm", a.name, tries, len(harm))
	part.Add("attack: "+a.name, fmt.Sprintf("%d tries, %d did harm", tries, len(harm)), "0 did harm")
	if tries == 0 {
		harm = append(harm, "nothing was tried")
	}
	for _, h := range harm {
		part.Violate("SAFE-5 %s: %s", a.name, h)
		t.Error(h)
	}
}
