package cli_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestHaltCommands(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	do := func(t *testing.T, code int, has string, args ...string) said {
		t.Helper()
		s := d.do(args...)
		if s.code != code || !strings.Contains(s.out+s.err, has) {
			t.Fatalf("inspan %v: exit %d, want %d and %q\n%s%s", args, s.code, code, has, s.out, s.err)
		}
		return s
	}
	t.Run("PLUS-21a CLI-4 one command halts the station, another releases it, and all views say who and why", func(t *testing.T) {
		do(t, 4, "not halted", "release")
		do(t, 2, "needs a reason", "halt", " ")
		do(t, 2, "a terminal acts on", "halt", "wrong \x1b[2Jshop")
		do(t, 0, "", "run", "reader", "look", "--id", "run-a", "--detach")
		do(t, 0, "is halted", "halt", "wrong shop", "--by", "ada")
		do(t, 0, "halted already: halted", "halt", "me too", "--by", "ben")
		s := d.do("run", "reader", "look", "--id", "run-b", "--detach", "--wait", "1s")
		if !strings.Contains(s.err, "the task waits until inspan release") {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		for _, args := range [][]string{{"top", "--once"}, {"doctor"}, {"why", "run-a"}} {
			s := d.do(args...)
			if !strings.Contains(s.out, "by ada: wrong shop") {
				t.Errorf("inspan %v:\n%q", args, s.out)
			}
		}
		h := decode[events.Halt](t, do(t, 0, "", "release", "--by", "ben", "--json").out)
		if h.Halted || h.Number != 1 || h.By != "ada" || h.ReleasedBy != "ben" || len(h.Past) != 1 {
			t.Errorf("%+v", h)
		}
	})
	t.Run("PLUS-21a the station goes on, also with what came meanwhile", func(t *testing.T) {
		do(t, 0, "", "watch", "run-a")
		for d.do("inspect", "run-b").code != 0 && t.Context().Err() == nil { // it begins soon after the release
			pause(t)
			runtime.Gosched()
		}
		do(t, 0, "", "watch", "run-b")
	})
}
