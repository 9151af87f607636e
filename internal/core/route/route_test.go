package route_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/route"
	"github.com/inspan/inspan/pkg/events"
)

func TestDirect(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for _, c := range []struct {
		ask    route.Ask
		direct bool
		why    string
	}{
		{route.Ask{}, false, "no setting disables"},
		{route.Ask{Harness: events.HarnessOff}, true, "harness is off"},
		{route.Ask{Harness: events.HarnessOn}, false, "harness is on"},
		{route.Ask{Harness: events.HarnessOn, Mark: &no}, true, "not long-running"},
		{route.Ask{Harness: events.HarnessOff, Mark: &yes}, false, "marked long-running"},
		{route.Ask{Harness: events.HarnessOff, Estimate: route.Threshold}, false, "5m0s or more"},
		{route.Ask{Harness: events.HarnessOff, Estimate: route.Threshold - 1}, true, "harness is off"},
		{route.Ask{Estimate: route.Threshold - 1}, true, "less than 5m0s"},
		{route.Ask{Harness: events.HarnessOn, Estimate: time.Second}, false, "harness is on"},
		{route.Ask{Mark: &no, Estimate: time.Hour}, true, "not long-running"},
		{route.Ask{Mark: &no, Planned: true}, false, "a plan"},
		{route.Ask{Mark: &no, Gated: true}, false, "a person"},
		{route.Ask{Mark: &no, Held: true}, false, "a hook"},
		{route.Ask{Mark: &no, Kept: true}, false, "checkpoints"},
		{route.Ask{Mark: &no, Locked: true}, false, "lock of a session"},
	} {
		t.Run("LIFE-13 LOOP-1 "+c.why, func(t *testing.T) {
			t.Parallel()
			if direct, why := route.Direct(c.ask, route.Threshold); direct != c.direct || !strings.Contains(why, c.why) {
				t.Errorf("%+v: got %v, %q; want %v, %q", c.ask, direct, why, c.direct, c.why)
			}
		})
	}
}
