//go:build slow

package station_test

import (
	"testing"

	"github.com/inspan/inspan/test/robust/report"
)

// TestRobust is the part of the robust programme that takes the log from a station with each of its appends, before it arrives and when it is stored.
func TestRobust(t *testing.T) {
	p := report.Part{Name: "outage", Title: "A station's log goes away and comes back", Violations: []string{}, Untried: []string{}}
	tried, failed := sweep(t, 1)
	for _, name := range failed {
		p.Violate("%s", name)
	}
	p.Add("outages, at every append of a run, before it arrives and when it is stored and its acknowledgement is lost", tried, "")
	p.Add("runs that did not go to their end over the local store, or whose log afterwards is not one, sound and with each effect once", len(failed), "0")
	if err := p.Save(); err != nil {
		t.Error(err)
	}
}
