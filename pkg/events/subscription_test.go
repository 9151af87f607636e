package events_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestOutsideSubjects(t *testing.T) {
	t.Parallel()
	t.Run("TRIG-10 no subject of a station, of its agents or of NATS itself is one of messages from outside", func(t *testing.T) {
		t.Parallel()
		for _, ok := range []string{"orders", "orders.new", "orders.*.paid", "orders.>", "a-b_c.D", "stations.x", "x." + strings.Repeat("y", 200)} {
			if err := events.CheckOutsideSubject(ok); err != nil {
				t.Errorf("%s: %v", ok, err)
			}
		}
		for _, bad := range []string{"", ">", "*", "*.run.>", "station", "station.s.task", "station.>", "inspan.x", "agents.prompt.a.b.c", "$JS.API.>",
			"$KV.x.>", "_INBOX.x", "_INBOX_s.>", "a..b", ".a", "a.", "a.>.b", "a.b*", "a.b>", "a b", "a.\tb", "ä.b", strings.Repeat("x", 257), strings.Repeat("x.", 16) + "x"} {
			if err := events.CheckOutsideSubject(bad); err == nil {
				t.Errorf("%q was accepted", bad)
			}
		}
	})
	t.Run("TRIG-10 what a pattern covers and what overlaps", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			a, b            string
			covers, overlap bool
		}{
			{"a.b", "a.b", true, true}, {"a.*", "a.b", true, true}, {"a.b", "a.*", false, true}, {"a.>", "a.b.c", true, true}, {"a.>", "a", false, false},
			{"a.>", "a.>", true, true}, {"a.*", "a.>", false, true}, {"a.*.c", "a.b.*", false, true}, {"a.b", "a.c", false, false}, {"a.*", "a.b.c", false, false},
			{"a.>", "b.>", false, false}, {"a.*.c", "a.b.d", false, false}, {"a.b.>", "a.*.c", false, true},
		} {
			if got := events.SubjectCovers(c.a, c.b); got != c.covers {
				t.Errorf("%s covers %s: %t", c.a, c.b, got)
			}
			for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
				if got := events.SubjectsOverlap(pair[0], pair[1]); got != c.overlap {
					t.Errorf("%v overlap: %t", pair, got)
				}
			}
		}
	})
}
