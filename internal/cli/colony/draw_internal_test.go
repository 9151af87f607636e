package colony

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

func TestDraw(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	v := View{At: now, Station: "lab", Open: 3, Bound: 1}
	for i := range 60 {
		m := Member{Agent: fmt.Sprintf("project-of-long-name/role-of-a-long-name/name-%02d", i), State: mailbox.IsWorking, Since: now.Add(-time.Hour), Run: "woken_k3v9x2m1qa",
			Doing: "gate: rm -rf /\x1b[2J and so on\nfor a long time", Mail: i, Gates: i % 2, Cost: 4200, Tokens: 9000}
		if i == 7 {
			m.State, m.Alert = mailbox.IsStuck, &events.AgentAlert{Signal: "silent", Severity: events.SeverityHigh}
		}
		v.Agents = append(v.Agents, m)
	}
	for _, width := range []int{30, 40, 60, 80, 120, 200} {
		for _, height := range []int{8, 24, 80} {
			t.Run(fmt.Sprintf("CLI-14a the colony fits %d columns and %d rows, and text of others controls nothing", width, height), func(t *testing.T) {
				t.Parallel()
				lines := drawing{Printer: app.Printer{Term: terminal.Screen{TTY: true}}, width: width, height: height}.lines(v, "")
				text := strings.Join(lines, "\n")
				if len(lines) > height-1 || strings.Contains(text, "\x1b[2J") || !strings.Contains(text, "60 agents") || !strings.Contains(text, "working") {
					t.Errorf("%d lines:\n%q", len(lines), text)
				}
				for _, l := range lines {
					if ansi.StringWidth(l) > width {
						t.Errorf("%d columns: %q", ansi.StringWidth(l), l)
					}
				}
			})
		}
	}
	t.Run("CLI-14a who needs a person comes first, then who works", func(t *testing.T) {
		t.Parallel()
		alert := Member{State: mailbox.IsStuck, Run: "r", Alert: &events.AgentAlert{}}
		seen := Member{State: mailbox.IsStuck, Run: "r", Alert: &events.AgentAlert{SeenBy: "anna"}}
		order := []Member{alert, {Gates: 1, Run: "r"}, seen, {State: mailbox.IsIdle}}
		for i := 1; i < len(order); i++ {
			if urgency(order[i-1]) >= urgency(order[i]) {
				t.Errorf("%+v is not before %+v", order[i-1], order[i])
			}
		}
	})
	t.Run("CLI-14a an idle agent that left changes in its directory is shown first, with what it left", func(t *testing.T) {
		t.Parallel()
		m := events.Mailbox{Address: "web/worker/nux", Form: events.AgentAddress, Epoch: 1,
			Life: events.AgentLife{Past: []events.AgentPast{{Epoch: 1, Run: "r"}},
				Alert: &events.AgentAlert{Signal: "dirty", Severity: events.SeverityLow, Text: "its directory has changes in 2 files"}}}
		o := member(m, nil)
		if o.State != mailbox.IsIdle || !strings.Contains(o.Doing, "2 files") || urgency(o) != 0 {
			t.Errorf("%+v", o)
		}
	})
}
