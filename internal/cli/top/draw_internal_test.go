package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/pkg/client"
)

func busy(runs, gates int) Overview {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	o := Overview{At: now, Station: "lab", Server: "2.12.0", Durability: "sync always", Today: Today{Runs: 12, Failed: 1, Cost: 1_230_000, Tokens: 45_000}}
	h := client.Health{Services: map[string]int{"planner": 1, "executor": 3}}
	o.Roles = roles(h, []client.Queue{{Role: "executor", Waiting: 7, Open: 2, Delivered: now.Add(-time.Minute)}, {Role: "planner", Open: 1, Delivered: now.Add(-time.Hour)}}, now)
	for i := range runs {
		o.Runs = append(o.Runs, Going{Run: fmt.Sprintf("run-with-a-long-name-%04d", i), Agent: "an-agent-of-long-name", Phase: "toolrunner", Step: "step-of-a-long-name", Steps: 9, Created: now.Add(-time.Hour), Cost: 4200})
	}
	for i := range gates {
		o.Gates = append(o.Gates, Gate{fmt.Sprintf("run-with-a-long-name-%04d/g-1a2b3c4d5e6f", i), now.Add(-time.Minute), "bash: rm -rf /\x1b[2J and so on, for a long time"})
	}
	return o
}

func TestDraw(t *testing.T) {
	t.Parallel()
	for _, width := range []int{40, 60, 80, 120} {
		for _, n := range [][2]int{{0, 0}, {1, 1}, {4, 2}, {50, 0}, {50, 50}, {0, 50}} {
			for _, height := range []int{10, 24, 50} {
				t.Run(fmt.Sprintf("CLI-9 %d columns, %d rows, %d runs, %d gates", width, height, n[0], n[1]), func(t *testing.T) {
					t.Parallel()
					d := drawing{Printer: app.Printer{Term: terminal.Screen{TTY: true}}, width: width, height: height}
					lines := d.lines(busy(n[0], n[1]), "")
					if len(lines) > height-1 {
						t.Errorf("%d lines", len(lines))
					}
					text := strings.Join(lines, "\n")
					for _, l := range lines {
						if ansi.StringWidth(l) > width {
							t.Errorf("%d columns: %q", ansi.StringWidth(l), l)
						}
					}
					if strings.Contains(text, "\x1b[2J") {
						t.Errorf("text of others controls the terminal: %q", text)
					}
					for _, want := range []string{"lab", "today: 12 runs", "executor"} {
						if !strings.Contains(text, want) {
							t.Errorf("no %q in\n%s", want, text)
						}
					}
					if height >= 24 && (n[0] > 0) != strings.Contains(text, "toolrunner") && n[0] > 0 || height >= 24 && (n[1] > 0) != strings.Contains(text, "waiting") {
						t.Errorf("runs or gates are missing:\n%s", text)
					}
				})
			}
		}
	}
	t.Run("CLI-9 a role that waits has a lag, one that has nothing to do has none, and one that is down is 0", func(t *testing.T) {
		t.Parallel()
		o := busy(0, 0)
		by := map[string]Role{}
		for _, r := range o.Roles {
			by[r.Role] = r
		}
		if by["executor"].LagMS != 60_000 || by["planner"].LagMS != 0 || by["executor"].Instances != 3 || by["toolrunner"].Instances != 0 || by["toolrunner"].queued {
			t.Errorf("%+v", by)
		}
	})
	t.Run("CLI-9 a station that does not answer is shown as it was, with the reason", func(t *testing.T) {
		t.Parallel()
		d := drawing{Printer: app.Printer{}, width: 80, height: 24}
		if text := strings.Join(d.lines(busy(1, 0), "no answer since 05:06:07"), "\n"); !strings.Contains(text, "no answer since") || !strings.Contains(text, "run-with") {
			t.Error(text)
		}
	})
}
