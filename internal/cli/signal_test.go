package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestSignal(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	file := filepath.Join(d.dir, "held.formula.toml")
	putFile(t, file, "formula = \"held\"\n[defaults]\nagent = \"reader\"\n[[steps]]\nid = \"hold\"\nkind = \"wait\"\nsignal = \"go\"\ntimeout = \"24h\"\n"+
		"[[steps]]\nid = \"read\"\ntitle = \"read {{steps.hold.output}}\"\n")
	t.Run("PLAN-12a CLI-11 a signal is sent by command, why says so, and what is refused is said", func(t *testing.T) {
		d.want(0, nil, "formula", "run", file, "--id", "held", "--detach")
		for why := ""; why == "" || !strings.Contains(why, "waits for the signal go"); {
			pause(t)
			why = d.do("why", "held").out
		}
		d.want(0, []string{"inspan signal held go", "more"}, "why", "held")
		d.want(2, []string{"--data is no JSON"}, "signal", "held", "go", "--data", "{")
		d.want(4, []string{"unknown_signal", "the signals of its plan: go"}, "signal", "held", "stop")
		d.want(5, nil, "signal", "none", "go")
		d.want(0, []string{"Signal go was taken."}, "signal", "held", "go", "--data", `"note.txt"`, "--by", "ci")
		d.want(0, []string{"completed by a signal of ci: note.txt"}, "watch", "held")
		d.want(4, []string{"signal_late"}, "signal", "held", "go")
	})
}
