package cli_test

import (
	"strings"
	"testing"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	t.Run("OBS-9 run --stream shows the text of the model between the events", func(t *testing.T) {
		s := d.want(0, []string{"── step ", "\nI look.\n", "\nThe note is read.\n"}, "run", "reader", "read it", "--stream", "--session", "s9", "--id", "w1")
		if n := strings.Count(s.out, "I look."); n > 2 { // the text, and the line of its event
			t.Errorf("the text comes %d times:\n%s", n, s.out)
		}
		d.want(0, nil, "run", "reader", "read it", "--session", "s8", "--id", "w2")
	})
	t.Run("OBS-14 runs and their streams are found by run, station run and session", func(t *testing.T) {
		if s := d.want(0, []string{"w1"}, "runs", "--session", "s9"); strings.Contains(s.out, "w2") {
			t.Errorf("runs of another session are listed:\n%s", s.out)
		}
		for _, args := range [][]string{{"w1"}, {"default-w1"}, {"--session", "s9"}} {
			d.want(0, []string{"I look.", "The note is read."}, append([]string{"watch"}, args...)...)
		}
		d.want(5, []string{"inspan runs lists"}, "watch", "--session", "nobody")
		d.want(5, []string{"inspan runs lists"}, "watch", "w1", "--session", "s8")
		d.want(2, nil, "watch", "not an id!")
		if s := d.want(0, []string{`"type"`}, "watch", "w1", "--json"); strings.Contains(s.out, "──") {
			t.Errorf("--json prints what is for people:\n%s", s.out)
		}
	})
}
