package agentfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

const nightlyFile = `name: nightly-review
cron: "0 2 * * *"
timezone: Europe/Berlin
task: {agent: reviewer, task: "review what changed since yesterday", session: nightly, variables: {depth: 3}}
missed: all
missed_limit: 5
overlap: queue
until: 2027-01-01
mode: normal
budget: {usd: 5.00, tokens: 2000000}
`

func TestParseSchedule(t *testing.T) {
	t.Parallel()
	t.Run("TRIG-5 TRIG-6 a file says all of a schedule", func(t *testing.T) {
		t.Parallel()
		s, err := agentfile.ParseSchedule("schedules/nightly.yaml", []byte(nightlyFile))
		if err != nil {
			t.Fatal(err)
		}
		p := s.Spec
		if s.Name != "nightly-review" || p.Cron != "0 2 * * *" || p.TimeZone != "Europe/Berlin" || p.Missed != events.MissedAll || p.MissedLimit != 5 || p.Overlap != events.OverlapQueue ||
			p.Task.Agent != "reviewer" || p.Task.Session != "nightly" || p.Task.MaxUSD != "5" || p.Task.MaxTokens != 2_000_000 || p.Task.Variables["depth"] != "3" ||
			p.Until == nil || p.Until.Format(time.RFC3339) != "2026-12-31T23:00:00Z" {
			t.Errorf("%+v", s)
		}
	})
	t.Run("TRIG-5 without a name it has that of its file, and at is read in the zone of the file", func(t *testing.T) {
		t.Parallel()
		s, err := agentfile.ParseSchedule("schedules/once.yaml", []byte("at: 2026-12-01 08:00\ntimezone: Europe/Berlin\ntask: {agent: a, task: x}\n"))
		if err != nil || s.Name != "once" || s.Spec.At == nil || s.Spec.At.Format(time.RFC3339) != "2026-12-01T07:00:00Z" || s.Spec.TimeZone != "" {
			t.Errorf("%+v, %v", s, err)
		}
	})
	for change, want := range map[string][2]string{
		"an unknown key": {"missed: all", ":5: "},
		"a word":         {"overlap: queue", ":7: "},
		"a mode":         {"mode: normal", ":9: "},
		"no time":        {"until: 2027-01-01", ":8: "},
		"a zone":         {"timezone: Europe/Berlin", ":3: "},
	} {
		t.Run("TRIG-5 refused with its position: "+change, func(t *testing.T) {
			t.Parallel()
			bad := map[string]string{"an unknown key": "jiter: 5m", "a word": "overlap: wait", "a mode": "mode: asleep", "no time": "until: soon", "a zone": "timezone: Mars"}[change]
			_, err := agentfile.ParseSchedule("n.yaml", []byte(strings.Replace(nightlyFile, want[0], bad, 1)))
			if err == nil || !strings.Contains(err.Error(), want[1]) {
				t.Errorf("got %v, want %s", err, want[1])
			}
		})
	}
}
