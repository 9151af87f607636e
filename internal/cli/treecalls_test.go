package cli_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// TestTreeOfCalls has a run that gives work away within its only step: for an answer, in the background and to a reviewer.
func TestTreeOfCalls(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, text := range map[string]string{
		"agents/chief.prompt": strings.Replace(agent("chief", "delegate, delegate_result"), "harness:\n",
			"delegates: [reader]\naccept: {checks: [{kind: review, agent: critic, rubric: it is read}]}\nharness:\n", 1),
		"scripts/chief.yaml": `turns:
  - {when: {turn: 1}, calls: [{name: delegate, input: {agent: reader, task: "read it"}}]}
  - {when: {turn: 2}, calls: [{name: delegate, input: {agent: reader, task: "read it too", background: true}}]}
  - {when: {turn: 3}, calls: [{name: delegate_result, input: {id: "{{result.1}}"}}]}
  - text: it is read
`,
		"agents/critic.prompt": agent("critic", "read"),
		"scripts/critic.yaml":  "turns:\n  - text: '{\"verdict\":\"pass\",\"reasons\":[]}'\n",
	} {
		putFile(t, filepath.Join(d.dir, name), text)
	}
	d.up()
	d.want(0, nil, "run", "chief", "go", "--id", "asked")
	type row struct {
		HarnessID, ParentHarnessID, ParentStep, ParentCall string
		Background                                         bool
	}
	rows := decode[[]row](t, d.want(0, nil, "tree", "asked", "--json").out)
	t.Run("SUB-2 CLI-2 tree names the call or the check that a child is for, and what works in the background", func(t *testing.T) {
		if len(rows) != 4 {
			t.Fatalf("%+v", rows)
		}
		for i, want := range []row{{HarnessID: "asked"}, {ParentStep: "step-1", ParentCall: "c1-1"},
			{ParentStep: "step-1", ParentCall: "c2-1", Background: true}, {ParentStep: "step-1", ParentCall: "check-1-2"}} {
			if i > 0 {
				want.HarnessID, want.ParentHarnessID = rows[i].HarnessID, "asked"
			}
			if rows[i] != want {
				t.Errorf("%d: got %+v, want %+v", i, rows[i], want)
			}
		}
		d.want(0, words{"├ " + rows[1].HarnessID, "step-1 c1-1 ", "step-1 c2-1 (background)", "step-1 check-1-2"}, "tree", "asked")
	})
	for width, wants := range map[uint16]words{80: {"completed", "step-1 c1-1", "step-1 check-1-2", "reader", "critic"},
		40: {"completed", "step-1 c1-1", "step-1 check"}} {
		t.Run(fmt.Sprintf("SUB-2 CLI-2 CLI-7 a terminal of %d columns shows how each child stands and what it is for", width), func(t *testing.T) {
			for _, env := range [][]string{nil, {"NO_COLOR=1"}} {
				tm := d.terminalOf(pty.Winsize{Rows: 60, Cols: width}, env, "tree", "asked")
				<-tm.done
				seen := tm.seen.String()
				if colours := strings.Contains(seen, "\x1b[3"); colours != (env == nil) {
					t.Errorf("%d columns, %v: %q", width, env, seen)
				}
				seen = ansi.Strip(seen)
				for _, want := range wants {
					if !strings.Contains(seen, want) {
						t.Errorf("%d columns do not show %q:\n%s", width, want, seen)
					}
				}
				if n := strings.Count(seen, "completed"); n != 4 {
					t.Errorf("%d columns show %d of 4 runs as completed:\n%s", width, n, seen)
				}
				for _, r := range rows[1:] {
					begin := r.HarnessID[:len("child_")+6]
					if !strings.Contains(seen, begin) {
						t.Errorf("%d columns do not show %s:\n%s", width, begin, seen)
					}
					d.want(0, words{r.HarnessID}, "inspect", begin)
				}
			}
		})
	}
}
