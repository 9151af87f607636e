package kerneltest

import (
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// sent is a message as a dead letter names it.
type sent struct {
	kernel.Message
	subject string
	seq     uint64
	at      time.Time
}

func (s sent) Subject() string { return s.subject }
func (s sent) Seq() uint64     { return s.seq }
func (s sent) Time() time.Time { return s.at }

// Refusals examines a dead-letter list for what a loop asks of it: whether a role refused a message. open is called
// once.
func Refusals(t *testing.T, open func(t *testing.T) kernel.Refusals) {
	t.Helper()
	t.Run("SAFE-12 LIFE-15 a role finds the letter of a message that it refused, and of no other", func(t *testing.T) {
		t.Parallel()
		r, at := open(t), time.Now().UTC()
		subject := "station.s1.run." + unique("r") + ".control"
		const letters = 600 // more than a page
		refused := func(by events.Service, m sent, want bool) {
			t.Helper()
			if got, err := r.Refused(within(t), by, m); err != nil || got != want {
				t.Errorf("%s, %s %d of %s: got %v, %v, want %v", by, m.subject, m.seq, m.at, got, err, want)
			}
		}
		refused(events.Planner, sent{subject: subject, seq: 1, at: at}, false) // of an empty list
		for seq := range uint64(letters) {
			d := kernel.DeadLetter{Subject: subject, Seq: seq + 1, Time: at, Code: "x"}
			if err := r.Refuse(within(t), events.Planner, d); err != nil {
				t.Fatal(err)
			}
		}
		for _, seq := range []uint64{1, 300, letters} {
			refused(events.Planner, sent{subject: subject, seq: seq, at: at}, true)
		}
		refused(events.Gatekeeper, sent{subject: subject, seq: 1, at: at}, false)
		refused(events.Planner, sent{subject: subject, seq: letters + 1, at: at}, false)
		refused(events.Planner, sent{subject: subject + ".x", seq: 1, at: at}, false)
		// one of an earlier stream with the same positions, and one of an hour later
		refused(events.Planner, sent{subject: subject, seq: 1, at: at.Add(-time.Hour)}, false)
		refused(events.Planner, sent{subject: subject, seq: 1, at: at.Add(time.Hour)}, false)
	})
}
