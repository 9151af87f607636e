package jet_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/pkg/events"
)

func TestReadPastStatus(t *testing.T) {
	t.Parallel()
	s := jettest.Server(t)
	st := jettest.Station(t, jettest.Connect(t, s, jet.Config{}), "s1", jet.ApplyOptions{})
	seen := make(chan jet.Seen, 8) // more than are said
	stop, err := st.Watch(within(t), "r1", false, func(s jet.Seen) { seen <- s })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	nc, _ := raw(t, s)
	for _, status := range []string{"204", "404", "408", "503"} {
		m := &nats.Msg{Subject: events.RunEventSubject("s1", "r1", events.TurnFinished), Header: nats.Header{"Status": {status},
			"Nats-Num-Pending": {"0"}, "Nats-Last-Sequence": {"0"}, "Nats-Subject": {events.RunEventSubject("s1", "r1", events.CallAllowed)}, "Nats-Sequence": {"9"}}}
		if _, err := nc.RequestMsgWithContext(within(t), m); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("SAFE-2 a stored message with the header of a status hides nothing that is behind it", func(t *testing.T) {
		evs, _, err := st.Journal().Read(within(t), "r1", 0)
		if err != nil || len(evs) != 4 {
			t.Errorf("got %d events of 4, %v", len(evs), err)
		}
	})
	t.Run("SAFE-6 a header of the publisher makes no event of another kind of it, which another service says", func(t *testing.T) {
		evs, _, err := st.Journal().Read(within(t), "r1", 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range evs {
			if f.Kind != events.TurnFinished || f.Seq != uint64(i+1) {
				t.Errorf("read %s at %d, want %s at %d", f.Kind, f.Seq, events.TurnFinished, i+1)
			}
		}
		for i, see := range []jet.Seen{await(t, seen, "the first event"), await(t, seen, "the second")} {
			if see.Kind != events.TurnFinished || see.Seq != uint64(i+1) || see.Before != uint64(i) {
				t.Errorf("heard %s at %d behind %d, want %s at %d", see.Kind, see.Seq, see.Before, events.TurnFinished, i+1)
			}
		}
	})
}
