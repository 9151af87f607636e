package security

import (
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/test/robust/report"
)

// sharedBed is a server with all users in the account of the streams, each with the rights of its role.
func sharedBed(t testing.TB) *bed {
	t.Helper()
	var users []natsserver.User
	add := func(u topology.User) {
		users = append(users, natsserver.User{Name: u.Name, Password: password(u.Name), Publish: u.Publish, Subscribe: u.Subscribe})
	}
	add(topology.Setup("s1"))
	for _, role := range events.Services() {
		u, _ := topology.Needs(topology.Buckets{}, "s1", string(role), false)
		add(u)
	}
	for _, u := range outsiders() {
		add(u)
	}
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Users = -1, users })
	return (&bed{t: t, url: s.URL()}).apply(jet.ApplyOptions{Replicas: 1})
}

// lost is what docs/own-nats.md says is lost with one account whose users have the rights of their roles. All other
// attacks fail there, too.
var lost = map[string]bool{"another's subject, by way of an answer": true}

func TestSharedAccount(t *testing.T) {
	t.Parallel()
	for _, a := range attacks {
		switch {
		case lost[a.name]:
			t.Run("PLUS-17b in one account this protection is lost, as the document says: "+a.name, func(t *testing.T) {
				t.Parallel()
				tries, harm := a.try(t, sharedBed(t))
				if tries == 0 || len(harm) == 0 {
					t.Errorf("%d tries, none did harm: the document says that this one does", tries)
				}
			})
		default:
			t.Run("PLUS-17b in one account with rights for each role this protection stays: "+a.name, func(t *testing.T) {
				t.Parallel()
				carryOut(t, &report.Part{Name: "shared", Title: "not saved"}, a, sharedBed(t))
			})
		}
	}
	t.Run("PLUS-17b in one account with rights for each role each user may say no more by itself", func(t *testing.T) {
		t.Parallel()
		for _, w := range matrix(sharedBed(t)).wrong {
			t.Error(w)
		}
	})
	t.Run("PLUS-17b with one user for everything every protection is lost: a service says another's event, reads secrets and erases the log", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Port, cfg.Users = -1, []natsserver.User{{Name: "setup", Password: password("setup")}}
		})
		b := (&bed{t: t, url: s.URL()}).apply(jet.ApplyOptions{Replicas: 1})
		w := b.wire("setup")
		for _, subject := range []string{"station.s1.run.v.evt.call.allowed", "$KV.harness-config.s1.key.idempotency", "$JS.API.DIRECT.GET.KV_harness-config.$KV.harness-config.s1.key.idempotency"} {
			if w.denied(subject, "", "", "forged") {
				t.Errorf("%s is refused: the document says that it is not", subject)
			}
		}
		if n := settled(b, w)["LOG_s1"]; n != 1 {
			t.Errorf("the log has %d messages, want the forged one", n)
		}
		if refusedBy(w, "_INBOX", "$JS.API.STREAM.DELETE.LOG_s1", "", "") {
			t.Error("the log cannot be erased: the document says that it can")
		}
	})
}
