package cli_test

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestAlerts(t *testing.T) {
	t.Parallel()
	t.Run("MSG-14 CLI-11 targets of alerts are set, shown and taken away, and what is wrong is said with what to do", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t).up()
		d.want(0, []string{"inspan agents alerts high=list/leads"}, "agents", "alerts")
		d.want(2, []string{"SEVERITY=ADDRESS"}, "agents", "alerts", "high")
		d.want(2, []string{"no severity", "critical"}, "agents", "alerts", "loud=list/leads")
		d.want(2, []string{"--none"}, "agents", "alerts", "--none", "high=list/leads")
		d.want(4, []string{"unknown_address", "list/leads"}, "agents", "alerts", "high=list/leads")
		d.want(0, nil, "mail", "register", "queue/night")
		d.want(0, []string{"high", "critical", "queue/night"}, "agents", "alerts", "high=queue/night", "critical=queue/night")
		r := decode[events.AlertRoutes](t, d.want(0, nil, "agents", "alerts", "--json").out)
		if len(r.Targets) != 2 || r.Targets[events.SeverityHigh][0] != "queue/night" {
			t.Errorf("%+v", r)
		}
		d.want(0, []string{"no address but"}, "agents", "alerts", "--none")
	})
}
