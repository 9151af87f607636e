package cli_test

import (
	"strings"
	"testing"
)

// TestRefs: a person names runs and gates by less than their whole ids.
func TestRefs(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	start := func(id string) {
		t.Helper()
		d.want(0, words{id}, "run", "reader", "x", "--id", id, "--autonomy", "1", "--detach")
		for s := d.do("why", id); !strings.Contains(s.out, "inspan approve"); s = d.do("why", id) {
			pause(t)
		}
		// The index follows the log, and short names are looked up in it.
		for s := d.do("runs"); !strings.Contains(s.out, id); s = d.do("runs") {
			pause(t)
		}
	}
	d.want(5, words{"the station has no run yet", "inspan run"}, "why", "last")
	start("run-k3v9x2m1qa")
	start("run-k3zzzzzzzz")
	t.Run("CLI-9 last, the beginning and the end of an id name a run", func(t *testing.T) {
		for _, ref := range []string{"last", "run-k3z", "k3z", "zzz"} {
			d.want(0, words{"run-k3zzzzzzzz"}, "inspect", ref)
		}
		d.want(0, words{"run-k3v9x2m1qa"}, "inspect", "m1qa")
		d.want(2, words{"run-k3v9x2m1qa", "run-k3zzzzzzzz", "write more of the id"}, "inspect", "k3")
		d.want(5, words{"not found"}, "inspect", "run-other")
	})
	t.Run("CLI-9 a run stands for its gate where one waits", func(t *testing.T) {
		d.want(0, words{"is approved by anna", "run-k3zzzzzzzz"}, "approve", "last", "--by", "anna")
		d.want(0, words{"is rejected by anna", "run-k3v9x2m1qa"}, "reject", "m1qa", "--by", "anna", "--reason", "no")
		d.want(5, words{"inspan gates"}, "approve", "m1qa", "--by", "anna")
	})
	t.Run("CLI-9 the shell completes runs, gates and agents of the station", func(t *testing.T) {
		start("run-wait")
		complete := func(wanted words, args ...string) string {
			t.Helper()
			s := inspan(t, append([]string{"__complete", "--server", d.station.URL()}, args...)...)
			for _, w := range wanted {
				if !strings.Contains(s.out, w) {
					t.Errorf("completion of %q: got %s%s, want %q", args, s.out, s.err, w)
				}
			}
			return s.out
		}
		complete(words{"last\tthe newest run, run-wait", "run-k3v9x2m1qa\tpaused, reader", "run-wait\t"}, "inspect", "")
		if out := complete(words{"run-k3v9x2m1qa"}, "why", "run-k3v"); strings.Contains(out, "run-wait") {
			t.Errorf("got %s", out)
		}
		complete(words{"\trun-wait: "}, "approve", "")
		complete(words{"reader\tA test agent"}, "run", "re")
		if s := inspan(t, "__complete", "--server", "nats://127.0.0.1:1", "why", ""); s.code != 0 || strings.Contains(s.out, "no NATS") {
			t.Errorf("without a station: exit %d, %s%s", s.code, s.out, s.err)
		}
	})
	t.Run("CLI-9 pausing what is paused and resuming what runs is done already", func(t *testing.T) {
		d.want(0, words{"Paused. Run run-wait is paused"}, "pause", "run-wait")
		d.want(0, words{"Already paused. Run run-wait is paused"}, "pause", "run-wait")
		d.want(0, words{"Resumed."}, "resume", "run-wait")
		d.want(0, words{"Already running."}, "resume", "run-wait")
		d.want(0, words{"Stopped."}, "stop", "run-wait")
		d.want(4, words{"the run has already failed"}, "stop", "run-wait")
		d.want(4, words{"the run has already failed"}, "pause", "run-wait")
	})
}
