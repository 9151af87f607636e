package jet_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
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

func TestReadBack(t *testing.T) {
	t.Parallel()
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.LazySync = true })
	j := jettest.OpenLog(t, s, jettest.Connect(t, s, jet.Config{}), "s1").Journal()
	heads := map[string]uint64{}
	say := func(run string, kind events.Kind, text string) kernel.Record {
		t.Helper()
		ack := j.Append(within(t), kernel.Entry{ID: run, Kind: kind, Head: heads[run], Bytes: []byte(text)})
		if ack.Outcome != kernel.Stored {
			t.Fatalf("append to %s: %s, %v", run, ack.Outcome, ack.Err)
		}
		heads[run] = ack.Seq
		return kernel.Record{Seq: ack.Seq, Kind: kind, Bytes: []byte(text)}
	}
	// far has events of three kinds, the first of them by far the most, with as many of others between as pay; near has its
	// events side by side.
	var far []kernel.Record
	kinds := []events.Kind{events.TurnFinished, events.TurnFinished, events.CallAllowed, events.TurnFinished, events.CallStarted}
	for i := range 10 {
		far = append(far, say("far", kinds[i%len(kinds)], fmt.Sprint("event ", i)))
		for range jet.Apart + 1 {
			say("others", events.TurnFinished, "another")
		}
	}
	for i := range 20 {
		say("near", kinds[i%len(kinds)], "side by side")
	}
	same := func(a, b []kernel.Record) bool {
		return slices.EqualFunc(a, b, func(x, y kernel.Record) bool {
			return x.Seq == y.Seq && x.Kind == y.Kind && bytes.Equal(x.Bytes, y.Bytes)
		})
	}
	behind := func(after uint64) (evs []kernel.Record) {
		for _, e := range far {
			if e.Seq > after {
				evs = append(evs, e)
			}
		}
		return evs
	}
	t.Run("events far apart are followed back from the last one, behind any position", func(t *testing.T) {
		for _, e := range append([]kernel.Record{{}}, far...) {
			for _, after := range []uint64{e.Seq, e.Seq + 1} {
				evs, whole := jet.Back(within(t), j, "far", after)
				if want := behind(after); !whole || !same(evs, want) {
					t.Errorf("behind %d: whole %v, got %d events, want %d", after, whole, len(evs), len(want))
				}
			}
		}
	})
	t.Run("events side by side are not, and both ways read the same", func(t *testing.T) {
		if evs, whole := jet.Back(within(t), j, "near", 0); whole {
			t.Errorf("got %d events", len(evs))
		}
		for run, want := range map[string]int{"near": 20, "far": len(far), "others": 256} {
			evs, _, err := j.Read(within(t), run, 0)
			if err != nil || len(evs) != want || run == "far" && !same(evs, far) {
				t.Errorf("%s: got %d events, %v, want %d", run, len(evs), err, want)
			}
		}
	})
	t.Run("SAFE-2 where one is missing nothing is taken to be whole", func(t *testing.T) {
		jettest.Lose(t, s, "s1", far[4].Seq)
		if evs, whole := jet.Back(within(t), j, "far", 0); whole {
			t.Errorf("got %d events of a log with a hole", len(evs))
		}
		if evs, whole := jet.Back(within(t), j, "far", far[4].Seq); !whole || !same(evs, far[5:]) {
			t.Errorf("behind the hole: whole %v, %d events", whole, len(evs))
		}
		evs, _, err := j.Read(within(t), "far", 0)
		if err != nil || !same(evs, slices.Delete(slices.Clone(far), 4, 5)) {
			t.Errorf("got %d events, %v: want all but the one that is lost", len(evs), err)
		}
	})
}
