package cli_test

import (
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/inspan/inspan/internal/cli/top"
)

func TestTop(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	d.want(3, nil, "run", "reader", "look", "--id", "run-t", "--autonomy", "1")
	for s := d.do("gates"); !strings.Contains(s.out, "run-t/"); s = d.do("gates") {
		pause(t)
	}
	t.Run("CLI-9 without a terminal top is one overview", func(t *testing.T) {
		d.want(0, words{"default", "today: 1 run", "ROLE", "planner", "toolrunner", "run-t", "gate", "1 gate waiting", "run-t/g-"}, "top")
	})
	t.Run("CLI-9 --json is a line for each overview", func(t *testing.T) {
		s := d.want(0, nil, "top", "--json", "--once")
		o := decode[top.Overview](t, s.out)
		if strings.Count(s.out, "\n") != 1 || o.Station != "default" || len(o.Roles) != 5 || len(o.Runs) != 1 || o.Runs[0].Phase != "gate" || len(o.Gates) != 1 || o.Today.Runs != 1 || len(o.Missing) != 0 {
			t.Errorf("%s", s.out)
		}
		for _, r := range o.Roles {
			if r.Instances != 1 {
				t.Errorf("%+v", r)
			}
		}
	})
	t.Run("CLI-9 on a terminal it is drawn again, goes on through the end of a run, and ends with Ctrl+C", func(t *testing.T) {
		tm := d.terminalOf(pty.Winsize{Rows: 24, Cols: 80}, nil, "top", "--every", "500ms")
		at := tm.sees(0, "1 gate waiting")
		d.want(0, nil, "approve", "run-t", "--by", "anna")
		tm.sees(at, "No run is under way.")
		tm.types("\x03")
		tm.ends()
	})
	t.Run("CLI-9 what makes no sense is refused", func(t *testing.T) {
		d.want(2, words{"500ms or more"}, "top", "--every", "1ms")
		d.want(2, words{"line by line"}, "top", "-o", "yaml")
	})
}
