package gate

import (
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// NextOf is when something is due of a gate that waits: its end, or the next reminder. ok is false where nothing is.
func (f Stood) NextOf(g *run.Gate, now time.Time) (at time.Time, ok bool) {
	at, ok = f.EndOf(g, now)
	if after, _, more := g.Reminder(g.Reminded + 1); more {
		if then := f.after(g, after, now); !ok || then.Before(at) {
			return then, true
		}
	}
	return at, ok
}

// after is when a gate has waited so long, without the time for which the station was halted.
func (f Stood) after(g *run.Gate, d time.Duration, now time.Time) time.Time {
	at := g.CreatedAt.Add(d)
	if f != nil {
		at = at.Add(f(g.CreatedAt, now))
	}
	return at
}

// Reminded says that people are called again at the gates that wait for long. Of several reminders whose time has come
// it says the last. Looked at again, it says nothing.
func Reminded(s run.State, now time.Time, stood Stood) []events.Payload {
	var say []events.Payload
	for _, g := range s.Waiting() {
		number, to := 0, ""
		for n := g.Reminded + 1; ; n++ {
			after, who, ok := g.Reminder(n)
			if !ok || now.Before(stood.after(g, after, now)) {
				break
			}
			number, to = n, who
		}
		if number == 0 || stood.late(g, now) {
			continue
		}
		say = append(say, &events.GateRemindedData{Event: "gate_reminded", Gate: g.ID, Step: g.StepID, Call: g.CallID,
			Action: events.GateWaiting, Number: number, To: to, ProposalHash: g.Hash,
			WaitMS: now.Sub(g.CreatedAt).Milliseconds()})
	}
	return say
}
