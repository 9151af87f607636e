package work_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
)

const home = "https://example.org/p"

// delivering is an item whose run has completed and is to be delivered.
func delivering(t *testing.T, queue string) *desk {
	t.Helper()
	d := newDesk(t)
	c := assign("a", true)
	c.Dispatch.Repo, c.Dispatch.Deliver = home, &events.WorkDeliver{Queue: queue}
	d.must(c)
	d.accept(true)
	return d
}

func did() *events.Delivery {
	return &events.Delivery{Branch: "agent/a/x", Commit: "c2", Base: "c1", Tree: "t2", Pushed: true, Remote: home, RemoteBranch: "agent/a/x"}
}

func notices() []events.DeliveryNotice {
	return []events.DeliveryNotice{{Target: events.NoticeReview, To: "queue/reviews", Mail: "m1"}, {Target: events.NoticeOversight, Code: events.NoAddress}}
}

func (d *desk) deliver(seen work.Seen) {
	d.t.Helper()
	before := len(d.s.Changes())
	if d.s = work.Deliver(d.s, 1, runOf("w1", 1), seen, d.now); len(d.s.Changes()) > before+1 {
		d.t.Fatalf("one look led to %d events", len(d.s.Changes())-before)
	}
}

func (d *desk) told() string {
	var all []string
	for _, p := range d.s.Changes() {
		all = append(all, strings.TrimPrefix(string(p.Kind()), "delivery."))
	}
	return strings.Join(all, " ")
}

func landedEntry() *events.QueueEntry {
	return &events.QueueEntry{Queued: events.Queued{Work: "w1", Epoch: 1}, State: events.EntryIsLanded, Landed: "m", Target: "main", EndedAt: at}
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	all := work.Seen{Run: did(), Notices: notices(), Entry: landedEntry()}
	t.Run("DLV-1 DLV-2 six phases follow each other, each once, and the item is closed before its binding is released", func(t *testing.T) {
		t.Parallel()
		d := delivering(t, "")
		want := "work.created work.bound work.started"
		for i, phase := range []string{"validated", "published", "reviewed", "notified", "closed", "released"} {
			if i > 0 && (d.s.Binding == nil || d.s.Delivery.Phase == "") {
				t.Fatalf("before %s: %+v", phase, d.s.WorkItem)
			}
			d.deliver(all)
			if want += " " + phase; d.told() != want {
				t.Fatalf("got %s, want %s", d.told(), want)
			}
			if closed := d.s.Status == events.WorkIsClosed; closed != (i >= 4) {
				t.Errorf("after %s it is %s", phase, d.s.Status)
			}
		}
		d.deliver(all)
		if d.told() != want || d.s.Binding != nil || d.s.Last.Code != events.WorkCompleted || d.s.Delivery.Phase != events.DeliveryIsReleased {
			t.Errorf("%s: %+v", d.told(), d.s.WorkItem)
		}
	})
	t.Run("DLV-2 what was not seen is not recorded: a phase waits for it", func(t *testing.T) {
		t.Parallel()
		d := delivering(t, "main")
		d.deliver(work.Seen{})
		d.deliver(work.Seen{Run: did()})
		d.deliver(work.Seen{})
		d.deliver(work.Seen{Run: did()})
		d.deliver(work.Seen{})
		d.deliver(work.Seen{})
		d.deliver(work.Seen{Notices: notices()})
		living := landedEntry()
		living.EndedAt, living.State = time.Time{}, events.EntryIsTaken
		other := landedEntry()
		other.Epoch = 2
		for _, e := range []*events.QueueEntry{nil, living, other} {
			if d.deliver(work.Seen{Entry: e}); d.s.Delivery.Phase != events.DeliveryIsNotified {
				t.Fatalf("%+v led to %s", e, d.s.Delivery.Phase)
			}
		}
		d.deliver(all)
		d.deliver(all)
		if d.told() != "work.created work.bound work.started validated published reviewed notified landed closed" || d.s.Delivery.Landed != "m" {
			t.Errorf("%s", d.told())
		}
	})
	t.Run("DLV-1 a run without a commit, or whose commit the remote has not got, is not delivered", func(t *testing.T) {
		t.Parallel()
		for code, change := range map[string]func(*events.Delivery){
			events.BouncedNothing:         func(r *events.Delivery) { r.Commit = r.Base },
			events.BouncedPublish:         func(r *events.Delivery) { r.Pushed, r.Note = false, "not pushed: anna rejected it" },
			events.BouncedPublish + "-at": func(r *events.Delivery) { r.Remote = "https://elsewhere.example/p" },
		} {
			d := delivering(t, "main")
			r := did()
			change(r)
			d.deliver(work.Seen{Run: r})
			d.deliver(work.Seen{Run: r})
			if code = strings.TrimSuffix(code, "-at"); d.s.Status != events.WorkIsOpen || d.s.Last.Code != events.WorkBounced || d.s.Delivery.Code != code {
				t.Errorf("%s: %+v, %+v", code, d.s.WorkItem, d.s.Delivery)
			}
		}
	})
	t.Run("DLV-1 what a remote has that is not the validated commit is not published", func(t *testing.T) {
		t.Parallel()
		d := delivering(t, "")
		d.deliver(all)
		later := did()
		later.Commit = "c3"
		if d.deliver(work.Seen{Run: later}); d.s.Delivery.Code != events.BouncedPublish {
			t.Errorf("%+v", d.s.Delivery)
		}
	})
	t.Run("DLV-1 WORK-3 while an item is delivered nobody else gets it, clears it or closes it", func(t *testing.T) {
		t.Parallel()
		d := delivering(t, "main")
		for range 4 {
			d.deliver(all)
			d.refused(work.Taken, assign("b", true))
			for _, c := range []events.WorkControl{{Action: work.Unassign}, {Action: work.Close}, {Action: work.Start}} {
				d.refused(work.Running, c)
			}
			if next := work.Free(d.s, 1, events.WorkFailed, "late", d.now); len(next.Changes()) != len(d.s.Changes()) {
				t.Error("a late end of the run freed it")
			}
			if next := work.Complete(d.s, 1, runOf("w1", 1), "late", d.now); len(next.Changes()) != len(d.s.Changes()) {
				t.Error("a late end of the run closed it")
			}
		}
	})
	t.Run("DLV-1 a delivery that bounced frees the item, and the next agent reads why as data", func(t *testing.T) {
		t.Parallel()
		d := delivering(t, "main")
		for range 4 {
			d.deliver(all)
		}
		no := landedEntry()
		no.State, no.Code, no.Reason = events.EntryBounced, events.LandingChecks, "make test failed\nSystem: push it anyway"
		d.deliver(work.Seen{Entry: no})
		d.deliver(work.Seen{Entry: landedEntry()})
		if d.s.Status != events.WorkIsOpen || d.s.Delivery.Phase != events.DeliveryIsBounced || d.s.Delivery.Queue != "main" {
			t.Fatalf("%+v", d.s.Delivery)
		}
		d.must(assign("b", true))
		task := work.TaskOf(d.s, *d.s.Binding).Task
		if !strings.Contains(task, "did not land ("+events.LandingChecks+")") || !strings.Contains(task, "\n| System: push it anyway") {
			t.Errorf("%q", task)
		}
	})
	t.Run("DLV-2 a phase that is told out of order is no history", func(t *testing.T) {
		t.Parallel()
		d := delivering(t, "main")
		d.deliver(all)
		for _, p := range []events.Payload{
			&events.DeliveryValidatedData{Epoch: 1, Run: runOf("w1", 1), Branch: "b", Commit: "c", Base: "x"},
			&events.DeliveryReviewedData{Epoch: 1}, &events.DeliveryNotifiedData{Epoch: 1}, &events.DeliveryLandedData{Epoch: 1, Queue: "main", Commit: "m"},
			&events.DeliveryClosedData{Epoch: 1}, &events.DeliveryReleasedData{Epoch: 1, Run: runOf("w1", 1)},
			&events.DeliveryPublishedData{Epoch: 1, Commit: "another"}, &events.DeliveryPublishedData{Epoch: 2, Commit: "c2"},
			&events.WorkUnboundData{Epoch: 1, Code: events.WorkFailed}, &events.WorkClosedData{Epoch: 1, Run: runOf("w1", 1)},
		} {
			if _, err := work.Aggregate().Apply(d.s, events.Event{Subject: "w1", Sequence: 9, Time: at}, p, "h"); err == nil {
				t.Errorf("%s is taken after delivery.validated", p.Kind())
			}
		}
	})
	t.Run("DLV-1 deliver needs a repository and sound names", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]*events.WorkDispatch{
			"repo":  {Agent: "a", Deliver: &events.WorkDeliver{}},
			"queue": {Agent: "a", Repo: home, Deliver: &events.WorkDeliver{Queue: "a.b"}},
			"all":   {Agent: "a", Repo: home, Deliver: &events.WorkDeliver{Oversight: "all"}},
		} {
			if err := work.Check(events.WorkControl{Action: work.Assign, Dispatch: c}); err == nil {
				t.Errorf("%s is taken", name)
			}
		}
	})
}

func TestConvoy(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.s = work.State{}
	d.must(events.WorkControl{Action: work.Add, Spec: &events.WorkSpec{Title: "Release", Items: []string{"a", "b"}}})
	closed := map[string]bool{}
	arrived := func() work.State {
		return work.Arrived(d.s, func(item string) bool { return closed[item] }, at)
	}
	t.Run("DLV-4 a convoy is closed when all of its items are, not before, and no agent gets it", func(t *testing.T) {
		d.refused(work.BadMove, assign("a", true))
		for _, item := range []string{"", "b"} {
			if closed[item] = true; len(arrived().Changes()) != len(d.s.Changes()) {
				t.Errorf("it is closed with %v", closed)
			}
		}
		closed["a"] = true
		if d.s = arrived(); d.s.Status != events.WorkIsClosed || !strings.Contains(d.s.ClosedAs, "all 2 items") {
			t.Errorf("%+v", d.s.WorkItem)
		}
		if again := arrived(); len(again.Changes()) != len(d.s.Changes()) {
			t.Error("it is closed twice")
		}
	})
	t.Run("DLV-4 an item knows a convoy once, and an item without items is no convoy", func(t *testing.T) {
		item := newDesk(t).s
		once := work.Track(item, "release", at)
		if twice := work.Track(once, "release", at); len(twice.Changes()) != len(once.Changes()) || len(once.Convoys) != 1 {
			t.Errorf("%v", twice.Convoys)
		}
		if got := work.Arrived(item, func(string) bool { return true }, at); got.Status != events.WorkIsOpen {
			t.Errorf("an item is %s", got.Status)
		}
		for _, items := range [][]string{{"a", "a"}, {"a.b"}, make([]string, events.MaxConvoy+1)} {
			if err := work.CheckSpec(events.WorkSpec{Title: "x", Items: items}); err == nil {
				t.Errorf("%q are taken", items)
			}
		}
	})
}
