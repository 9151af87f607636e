package cli_test

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestMail(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	say := func(t *testing.T, code int, words []string, args ...string) said {
		t.Helper()
		sub := *d
		sub.t = t
		return sub.want(code, words, args...)
	}
	t.Run("CLI-11 MSG-5 what is wrong is said before anything is published, and an unknown address is not found", func(t *testing.T) {
		say(t, 0, []string{"inspan mail register ADDRESS"}, "mail", "who")
		say(t, 2, []string{"is not an address"}, "mail", "send", "web/worker/../nux", "x")
		say(t, 2, []string{"needs the name of its definition"}, "mail", "register", "web/worker/nux")
		say(t, 2, []string{"force goes with"}, "mail", "send", "web/worker/nux", "x", "--force")
		say(t, 4, []string{"unknown_address"}, "mail", "send", "web/worker/nux", "x")
		say(t, 5, []string{"inspan mail who"}, "mail", "list", "web/worker/nux")
	})
	t.Run("MSG-4 MSG-12 MSG-17 an address is registered, mail waits there while its agent is not to be disturbed, and is taken out", func(t *testing.T) {
		say(t, 0, []string{"Registered web/worker/nux"}, "mail", "register", "web/worker/nux", "--agent", "reader")
		say(t, 4, []string{"address_exists"}, "mail", "register", "web/worker/nux", "--agent", "reader")
		say(t, 0, nil, "mail", "dnd", "web/worker/nux", "on")
		say(t, 0, []string{"Sent to web/worker/nux"}, "mail", "send", "web/worker/nux", "Is the build green?", "--subject", "Build", "--priority", "high", "--id", "m1")
		say(t, 0, []string{"m1", "pending", "high", "Build"}, "mail", "list", "web/worker/nux")
		say(t, 0, []string{"Is the build green?"}, "mail", "read", "web/worker/nux", "m1")
		say(t, 0, []string{"web/worker/nux", "idle, not to be disturbed"}, "mail", "who")
		say(t, 4, []string{"did you mean web/worker/nux?"}, "mail", "send", "web/worker/nox", "x")
		say(t, 0, nil, "mail", "ack", "web/worker/nux", "m1")
		say(t, 0, []string{"m1", "acknowledged"}, "mail", "list", "web/worker/nux")
		say(t, 0, nil, "mail", "dnd", "web/worker/nux", "off")
	})
	t.Run("MSG-15 MSG-17 a message wakes the agent, which is given it", func(t *testing.T) {
		say(t, 0, nil, "mail", "send", "web/worker/nux", "Look.", "--id", "m2")
		for done := false; !done; {
			pause(t)
			m := decode[struct{ State string }](t, say(t, 0, nil, "mail", "read", "web/worker/nux", "m2", "--json").out)
			done = m.State == events.MailIsAcknowledged
		}
		say(t, 0, []string{"Message m2 is acknowledged woken_"}, "mail", "read", "web/worker/nux", "m2")
	})
}
