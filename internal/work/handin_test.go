package work_test

import (
	"testing"

	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
)

func TestHandIn(t *testing.T) {
	t.Parallel()
	held := func(t *testing.T, repo string) *desk {
		t.Helper()
		d := newDesk(t)
		c := assign("a", true)
		c.Dispatch.Repo = repo
		d.must(c)
		d.accept(true)
		return d
	}
	ask := func(d *desk, run, call string) error {
		s, err := work.HandIn(d.s, &events.DeliveryRequestedData{Epoch: 1, Run: run, Call: call, Deliver: events.WorkDeliver{Queue: "main"}, By: "web/worker/nux"}, d.now)
		d.s = s
		return err
	}
	t.Run("DLV-1 WORK-9 the run that holds an item hands it in, the same call once, and no other run does", func(t *testing.T) {
		t.Parallel()
		d := held(t, home)
		before := len(d.s.Changes())
		if ask(d, "another", "c1") == nil || len(d.s.Changes()) != before {
			t.Error("another run handed it in")
		}
		for range 2 {
			if err := ask(d, runOf("w1", 1), "c1"); err != nil {
				t.Fatal(err)
			}
		}
		if len(d.s.Changes()) != before+1 || d.s.Binding.Deliver.Queue != "main" || d.s.Binding.HandedIn != "c1" {
			t.Errorf("%+v", d.s.Binding)
		}
		if ask(d, runOf("w1", 1), "c2") == nil {
			t.Error("it was handed in twice")
		}
		d.deliver(work.Seen{Run: did()})
		if d.s.Delivery == nil || d.s.Delivery.Phase != events.DeliveryIsValidated {
			t.Errorf("%+v", d.s.Delivery)
		}
	})
	t.Run("DLV-1 what is delivered anyway, and what has no remote, is not handed in", func(t *testing.T) {
		t.Parallel()
		if ask(delivering(t, ""), runOf("w1", 1), "c1") == nil || ask(held(t, ""), runOf("w1", 1), "c1") == nil {
			t.Error("it was handed in")
		}
		if _, err := work.Aggregate().Apply(delivering(t, "").s, events.Event{Subject: "w1"}, &events.DeliveryRequestedData{Epoch: 1, Run: runOf("w1", 1)}, ""); err == nil {
			t.Error("it folds")
		}
	})
}
