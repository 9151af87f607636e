package security

import (
	"testing"

	"github.com/inspan/inspan/test/robust/report"
)

// TestRobust is the security part of the robust programme; it takes seconds, so it also is a plain test.
func TestRobust(t *testing.T) {
	part := report.Part{Name: "security", Title: "Attacks on a station with the shipped accounts"}
	t.Run("SAFE-6 GUARD-9 every user tries every verb on every subject, and only what the table here permits is let through", func(t *testing.T) {
		sum := matrix(t)
		t.Logf("%d probes by %d users: %d tried, %d allowed, %d refused, %d wrong", sum.probes, len(actors), sum.tried, sum.allowed, sum.refused, len(sum.wrong))
		part.Add("verbs on subjects, by user", sum.tried, "")
		part.Add("... let through", sum.allowed, "")
		part.Add("... refused", sum.refused, "")
		part.Add("... other than expected", len(sum.wrong), "0")
		for _, w := range sum.wrong {
			part.Violate("SAFE-6 %s", w)
			t.Error(w)
		}
	})
	if err := part.Save(); err != nil {
		t.Fatal(err)
	}
}
