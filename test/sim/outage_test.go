package sim

import (
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
)

// maxWait is how long the executors of a play wait for a provider before they pause the run.
const maxWait = 30 * time.Second

// away is the error of a request that the provider does not answer: it is out of reach, or it refuses the key until a
// person has looked.
func (m models) away() error {
	w := m.l.p.w
	if w.play.Inject == nil && !w.peace && w.rng.IntN(6) == 0 {
		w.tale.counts["keys refused"]++
		return &llm.Error{Class: llm.Auth, Provider: "sim", Status: 401, Err: errTrouble}
	}
	return &llm.Error{Class: llm.Transient, Provider: "sim", Status: 503, Err: errTrouble}
}

// clockAudit is what the audit knows of the clock of a run's deadline: it counts by pauses alone, and in its own way.
type clockAudit struct {
	started, paused time.Time
	// stood is how long the run was paused in all.
	stood time.Duration
	// limit is how long it may work.
	limit time.Duration
	// stuck is true from a request that is not made again until the run was resumed.
	stuck bool
}

// outage holds PLUS-13: the executor asks for a pause only where a request may not be made again, a run is paused in its
// name only then, no step fails because its provider is away, and no run ends of its deadline by the time of a pause.
func (a *audit) outage(l *ledger, f events.Event, p events.Payload) string {
	c := &l.clock
	switch d := p.(type) {
	case *events.RunStartedData:
		c.started = f.Time
	case *events.RunCreatedData:
		c.limit = time.Duration(d.Options.TimeoutMS) * time.Millisecond
		if d.Direct {
			c.started = f.Time
		}
	case *events.TurnDeferredData:
		return c.deferred(d.Outage, d.Class)
	case *events.PlanDeferredData:
		return c.deferred(d.Outage, d.Class)
	case *events.RunPausedData:
		c.paused = f.Time
		if !d.ClockStopped {
			return "the pause does not stop the clock"
		}
		if d.By == string(events.Executor) {
			a.w.tale.counts["runs paused for a provider"]++
			if !c.stuck {
				return "it is paused for a provider that no one has given up"
			}
		}
	case *events.RunResumedData:
		if c.stuck {
			a.w.tale.counts["runs resumed after an outage"]++
		}
		c.stood += max(0, f.Time.Sub(c.paused))
		c.paused, c.stuck = time.Time{}, false
	case *events.StepFailedData:
		if d.FinishReason == events.FinishError && d.RunReason == "" && !c.mayFail(d.Error) {
			return "the step failed because its provider was away: " + d.Error
		}
	case *events.RunFailedData:
		if d.FinishReason == events.FinishTimeout && f.Time.Sub(c.started)-c.stood < c.limit {
			return "it timed out before its working time was over"
		}
		if d.FinishReason == events.FinishTimeout && !c.paused.IsZero() {
			return "it timed out while it was paused"
		}
	default:
	}
	return ""
}

// mayFail reports whether a step may fail with that error: any but that of a provider that is away.
func (c *clockAudit) mayFail(text string) bool {
	return text != (&llm.Error{Class: llm.Transient, Status: 503, Err: errTrouble}).Error() &&
		text != (&llm.Error{Class: llm.Auth, Status: 401, Err: errTrouble}).Error()
}

func (c *clockAudit) deferred(o events.Outage, class string) string {
	switch {
	case class == events.ClassInterrupted || class == events.ClassTooLong:
		return ""
	case o.Provider != "sim":
		return "a deferral that does not name the provider"
	case o.Pause:
		c.stuck = true
	}
	return ""
}
