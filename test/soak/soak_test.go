package soak

import (
	"context"
	"testing"
	"time"
)

// few is a number of runs that takes seconds.
const few = 300

func TestParkedRuns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	y := newYard(ctx, t, true, few)
	y.serve()
	before := y.look()
	took := y.park(few, time.Minute)
	y.until(30*time.Second, "the services are idle", func() bool { return y.look().goroutines <= before.goroutines+few/10 })
	after := y.look()
	t.Logf("%d runs parked in %s; goroutines %d, %d of the server", y.parked, took, after.goroutines, after.serverGoroutines)

	t.Run("GATE-12 no goroutine of a service or the server is held by a run that waits", func(t *testing.T) {
		if y.parked != few || after.serverGoroutines > before.serverGoroutines+few/10 {
			t.Errorf("%d runs parked, goroutines of the server %d, before %d", y.parked, after.serverGoroutines, before.serverGoroutines)
		}
	})
	t.Run("GATE-12 GATE-8 after a crash of the server and a restart of all services a storm of answers is recorded once each", func(t *testing.T) {
		y.roles.stop()
		y.user.Close()
		y.server.kill()
		y.boot(false)
		y.serve()
		s := y.answer(few / 2)
		y.settle()
		t.Logf("%+v", s)
		if faults := y.wrong(); len(faults) > 0 || s.refused != s.gates {
			t.Errorf("%d of %d second answers refused; %d runs are wrong: %.10v", s.refused, s.gates, len(faults), faults)
		}
	})
}
