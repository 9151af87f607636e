package mailbox_test

import (
	"errors"
	"testing"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

func TestItemOfAgent(t *testing.T) {
	t.Parallel()
	ref := events.WorkRef{Work: "w", Epoch: 1}
	held, freed := func(events.WorkRef) bool { return true }, func(events.WorkRef) bool { return false }
	assigned := func(t *testing.T) *box {
		b := newBox(t, "web/worker/nux", events.AddressSpec{Agent: "worker"})
		var err error
		if b.s, err = mailbox.Assign(b.s, ref, held, b.now); err != nil {
			t.Fatal(err)
		}
		return b
	}
	wake := func(b *box, of *events.WorkRef) { b.s = mailbox.WakeIn(b.s, b.now, runOf, mailbox.Waking{Work: of}) }
	t.Run("WORK-4 WORK-5 an agent is woken for an item that it holds, and for no other", func(t *testing.T) {
		t.Parallel()
		b := assigned(t)
		if wake(b, nil); b.s.Holder != nil {
			t.Fatal("it is woken for an item that is not to begin")
		}
		if wake(b, &ref); b.s.Holder == nil || *b.s.Holder.Work != ref {
			t.Fatalf("%+v", b.s.Mailbox)
		}
	})
	t.Run("WORK-4 an agent has one item, until the log of that says otherwise", func(t *testing.T) {
		t.Parallel()
		b := assigned(t)
		other := events.WorkRef{Work: "w2", Epoch: 1}
		_, err := mailbox.Assign(b.s, other, held, b.now)
		if no, ok := errors.AsType[*mailbox.Refused](err); !ok || no.Code != mailbox.Busy {
			t.Errorf("got %v", err)
		}
		if next, err := mailbox.Assign(b.s, ref, held, b.now); err != nil || len(next.Changes()) != len(b.s.Changes()) {
			t.Errorf("assigned twice: %v", err)
		}
		next, err := mailbox.Assign(b.s, other, freed, b.now)
		if err != nil || *next.Life.Work != other {
			t.Errorf("%+v, %v", next.Life.Work, err)
		}
		if late := mailbox.Unassign(next, ref, b.now); late.Life.Work == nil {
			t.Error("the end of an earlier item takes the next one away")
		}
		if next = mailbox.Unassign(next, other, b.now); next.Life.Work != nil {
			t.Errorf("%+v", next.Life.Work)
		}
	})
	t.Run("WORK-3 WORK-10 an agent is reserved for one binding while it is free, and for no other definition", func(t *testing.T) {
		t.Parallel()
		b := newBox(t, "web/worker/nux", events.AddressSpec{Agent: "worker"})
		if _, is := mailbox.Reserve(b.s, "another", ref, b.now); is {
			t.Error("it runs another definition")
		}
		next, is := mailbox.Reserve(b.s, "worker", ref, b.now)
		if !is || next.Life.Work == nil || *next.Life.Work != ref || mailbox.Free(next) {
			t.Fatalf("%v, %+v", is, next.Mailbox)
		}
		n := len(next.Changes())
		if again, is := mailbox.Reserve(next, "worker", ref, b.now); !is || len(again.Changes()) != n {
			t.Error("reserved twice")
		}
		if _, is := mailbox.Reserve(next, "worker", events.WorkRef{Work: "w2", Epoch: 1}, b.now); is {
			t.Error("reserved for two items")
		}
		if wake(b, nil); b.s.Holder != nil {
			t.Error("it is woken before its item is bound")
		}
		held := assigned(t)
		if _, is := mailbox.Reserve(held.s, "worker", events.WorkRef{Work: "w2", Epoch: 1}, held.now); is {
			t.Error("reserved while it has an item")
		}
	})
	t.Run("CONT-12 PRMT-3 a run that fails at its item leaves the next one an account, also where the agent is not critical", func(t *testing.T) {
		t.Parallel()
		b := assigned(t)
		wake(b, &ref)
		run := b.s.Holder.Run
		b.s, _ = mailbox.Accept(b.s, 1, run, b.now)
		b.s = mailbox.EndWith(b.s, run, mailbox.Failed, "the model refused", events.AgentAccount{Summary: "half", Work: "w"}, b.now)
		if wake(b, &ref); b.s.Holder != nil {
			t.Fatal("it is woken again at once")
		}
		if at, ok := mailbox.WakeAt(b.s); !ok || !at.Equal(b.s.NotBefore) {
			t.Errorf("it is looked at again at %v, %v", at, ok)
		}
		b.now = b.s.NotBefore
		if wake(b, &ref); b.s.Holder == nil || b.s.Holder.Account != 1 || b.s.Life.Account.Summary != "half" {
			t.Fatalf("%+v", b.s.Mailbox)
		}
		run = b.s.Holder.Run
		b.s, _ = mailbox.Accept(b.s, 2, run, b.now)
		b.s = mailbox.EndWith(b.s, run, mailbox.Completed, "", events.AgentAccount{}, b.now)
		if b.s.Fails != 0 || b.s.Life.Account != nil {
			t.Errorf("%+v", b.s.Mailbox)
		}
	})
}
