package security

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/test/robust/report"
)

// maxLine is the longest line that a server takes from a client where it is not configured otherwise.
const maxLine = 4096

// operatorBed is a server in operator mode with the same users as newBed, who connect with credentials.
func operatorBed(t testing.TB) *bed {
	t.Helper()
	o := jettest.NewOperator(t, "s1", outsiders(), topology.Setup("s1"))
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Accounts = -1, o.Config() })
	return (&bed{t: t, url: s.URL(), creds: o.Creds}).apply(jet.ApplyOptions{Replicas: 1})
}

func TestOperatorMode(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-17a SAFE-6 in operator mode every user tries every verb on every subject, and only what the table here permits is let through", func(t *testing.T) {
		t.Parallel()
		sum := matrix(operatorBed(t))
		t.Logf("%d probes by %d users: %d tried, %d allowed, %d refused, %d wrong", sum.probes, len(actors), sum.tried, sum.allowed, sum.refused, len(sum.wrong))
		for _, w := range sum.wrong {
			t.Error(w)
		}
	})
	for _, a := range attacks {
		t.Run("PLUS-17a SAFE-5 in operator mode: "+a.name, func(t *testing.T) {
			t.Parallel()
			part := report.Part{Name: "operator", Title: "not saved"}
			carryOut(t, &part, a, operatorBed(t))
		})
	}
	t.Run("PLUS-17a a user connects in a line that every server takes, because the rights are in the account", func(t *testing.T) {
		t.Parallel()
		o := jettest.NewOperator(t, "s1", outsiders(), topology.Setup("s1"))
		for _, u := range o.Made.Users {
			if n := jettest.ConnectLine(t, o.Creds(u.Name)); n > maxLine {
				t.Errorf("%s connects in %d bytes, want %d at most", u.Name, n, maxLine)
			}
		}
	})
	t.Run("PLUS-17a another account of the same operator can import nothing of a station", func(t *testing.T) {
		t.Parallel()
		for _, harm := range strangers(t) {
			t.Error(harm)
		}
	})
}

// strangers has another station of the same operator try to import what the streams of the first one export: the
// account is signed by the same operator, and has no token for it.
func strangers(t *testing.T) (harm []string) {
	t.Helper()
	o := jettest.NewOperator(t, "s1", outsiders(), topology.Setup("s1"))
	thief := jettest.Thief(t, o, "streams-s1")
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Accounts = -1, thief.Config })
	b := (&bed{t: t, url: s.URL(), creds: o.Creds}).apply(jet.ApplyOptions{Replicas: 1})
	admin := b.wire("setup")
	before := b.given(admin)
	w := dialCreds(t, s.URL(), thief.Creds)
	if w.deaf("_INBOX.>") {
		t.Fatal("a stranger hears no answer: nothing was tried")
	}
	w.send("SUB _INBOX.> 1\r\n")
	for _, subject := range thief.Subjects {
		w.publish(subject, "_INBOX.stranger", "", "{}")
	}
	settled(b, admin)
	_, got := w.settle()
	for _, m := range got { // the API of its own account answers, which has no streams
		if body := string(m.body); strings.Contains(body, "_s1") || strings.Contains(body, `"seq"`) {
			harm = append(harm, "a stranger was answered "+body)
		}
	}
	return append(harm, differs(before, settled(b, admin))...)
}
