package mergequeue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/mergequeue"
	"github.com/inspan/inspan/pkg/events"
)

var at = time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)

func idOf(queue string, number, attempt int) string {
	return fmt.Sprintf("%s%s_%d_%d", events.LandingRunPrefix, queue, number, attempt)
}

func spec() *events.QueueSpec {
	return &events.QueueSpec{Repo: "https://example.org/p", Branch: "main", Agent: "lander",
		Accept: &events.Accept{Checks: []events.Check{{Kind: events.CheckCommand, Run: "make test"}}}}
}

func made(t testing.TB) mergequeue.State {
	t.Helper()
	s, err := mergequeue.Steer(mergequeue.State{}, mergequeue.Wish{QueueControl: events.QueueControl{Action: mergequeue.Add, Spec: spec()}, Queue: "main", Input: 1}, at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func queued(work string) events.Queued {
	return events.Queued{Work: work, Epoch: 1, Run: "binding_" + work, Agent: "a", Branch: "agent/" + work, Commit: "c-" + work}
}

func enqueue(t testing.TB, s mergequeue.State, works ...string) mergequeue.State {
	t.Helper()
	for _, w := range works {
		var err error
		if s, err = mergequeue.Enqueue(s, "main", queued(w), at); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func finish(s mergequeue.State, o events.LandingOutcome, now time.Time) mergequeue.State {
	e, _ := s.Taken()
	return mergequeue.Finish(s, e.Number, e.Attempt, e.Landing, o, now)
}

func refused(t *testing.T, err error, code string) {
	t.Helper()
	no, ok := errors.AsType[*mergequeue.Refused](err)
	if !ok || no.Code != code || no.Hint == "" {
		t.Errorf("got %+v, want %s", err, code)
	}
}

func kinds(s mergequeue.State) string {
	var all []string
	for _, p := range s.Changes() {
		all = append(all, strings.TrimPrefix(string(p.Kind()), "queue."))
	}
	return strings.Join(all, " ")
}

func TestQueue(t *testing.T) {
	t.Parallel()
	t.Run("DLV-1 of two workers that take an entry one wins, and no second entry is taken meanwhile", func(t *testing.T) {
		t.Parallel()
		s := enqueue(t, made(t), "a", "b")
		first := mergequeue.Take(s, at, idOf)
		e, _ := first.Taken()
		if e.Work != "a" || e.Attempt != 1 || e.Landing != idOf("main", 1, 1) {
			t.Fatalf("%+v", e)
		}
		if again := mergequeue.Take(first, at, idOf); len(again.Changes()) != len(first.Changes()) {
			t.Errorf("a second look: %s", kinds(again))
		}
		// The other worker decided on the same state: its event does not fold after the first one.
		last := mergequeue.Take(s, at, idOf).Changes()
		if _, err := mergequeue.Aggregate().Apply(first, events.Event{Subject: "main", Sequence: 9, Time: at}, last[len(last)-1], "h"); err == nil {
			t.Error("an entry is taken twice")
		}
		other := &events.QueueTakenData{Number: 2, Attempt: 1, Run: idOf("main", 2, 1)}
		if _, err := mergequeue.Aggregate().Apply(first, events.Event{Subject: "main", Sequence: 9, Time: at}, other, "h"); err == nil {
			t.Error("two entries are taken")
		}
	})
	t.Run("DLV-2 a delivery is in a queue once, also after it has ended", func(t *testing.T) {
		t.Parallel()
		s := enqueue(t, made(t), "a", "a")
		if kinds(s) != "created enqueued" {
			t.Errorf("%s", kinds(s))
		}
		s = finish(mergequeue.Take(s, at, idOf), events.LandingOutcome{Commit: "m", How: "merge"}, at)
		if again := enqueue(t, s, "a"); len(again.Changes()) != len(s.Changes()) || len(again.Done) != 1 || again.Done[0].Landed != "m" {
			t.Errorf("%s", kinds(again))
		}
		next := queued("a")
		next.Epoch = 2
		if s, err := mergequeue.Enqueue(s, "main", next, at); err != nil || len(s.Entries) != 1 {
			t.Errorf("the next binding: %v, %+v", err, s.Entries)
		}
	})
	t.Run("DLV-1 a target that moved is tested again; a remote that refuses the push to a target that did not move bounces it", func(t *testing.T) {
		t.Parallel()
		s := mergequeue.Take(enqueue(t, made(t), "a"), at, idOf)
		for i, base := range []string{"b1", "b2", "b3"} {
			s = finish(s, events.LandingOutcome{Base: base, Code: events.LandingMoved, Reason: "fetch first"}, at)
			if len(s.Entries) != 1 || s.Entries[0].State != events.EntryWaits {
				t.Fatalf("after attempt %d: %+v", i+1, s)
			}
			s = mergequeue.Take(s, at, idOf)
		}
		s = finish(s, events.LandingOutcome{Base: "b3", Code: events.LandingMoved, Reason: "protected branch"}, at)
		if len(s.Done) != 1 || s.Done[0].State != events.EntryBounced || s.Done[0].Code != events.LandingRejected {
			t.Errorf("%+v", s.Done)
		}
	})
	t.Run("DLV-1 an entry whose target moves each time bounces in the end", func(t *testing.T) {
		t.Parallel()
		s := enqueue(t, made(t), "a")
		for i := range events.MaxLandings {
			if len(s.Done) > 0 {
				t.Fatalf("bounced after %d attempts", i)
			}
			s = finish(mergequeue.Take(s, at, idOf), events.LandingOutcome{Base: fmt.Sprint(i), Code: events.LandingMoved}, at)
		}
		if len(s.Done) != 1 || s.Done[0].Code != events.LandingMoved {
			t.Errorf("%+v %+v", s.Entries, s.Done)
		}
	})
	t.Run("DLV-1 where the remote does not answer the entry waits, longer each time, and others go first", func(t *testing.T) {
		t.Parallel()
		s := mergequeue.Take(enqueue(t, made(t), "a", "b"), at, idOf)
		s = finish(s, events.LandingOutcome{Code: events.LandingUnreachable}, at)
		if until := s.Entries[0].NotBefore.Sub(at); until != events.LandingDelay {
			t.Errorf("it waits %s", until)
		}
		s = mergequeue.Take(s, at, idOf)
		if e, _ := s.Taken(); e.Work != "b" {
			t.Errorf("%+v is taken", e)
		}
		s = finish(s, events.LandingOutcome{Commit: "m", How: "forward"}, at)
		if s = mergequeue.Take(s, at, idOf); len(s.Entries) != 1 || s.Entries[0].State != events.EntryWaits {
			t.Errorf("%+v", s.Entries)
		}
		if wake, ok := mergequeue.Wake(s); !ok || wake != s.Entries[0].NotBefore {
			t.Errorf("looked at again at %s, %v", wake, ok)
		}
		s, err := mergequeue.Steer(s, mergequeue.Wish{QueueControl: events.QueueControl{Action: mergequeue.Retry, Work: "a"}, Queue: "main", Input: 5}, at)
		if err != nil {
			t.Fatal(err)
		}
		s = mergequeue.Take(s, at, idOf)
		if e, is := s.Taken(); !is || e.Attempt != 2 {
			t.Errorf("after a retry %+v is taken", e)
		}
		s = finish(s, events.LandingOutcome{Code: events.LandingUnreachable}, at)
		if until := s.Entries[0].NotBefore.Sub(at); until != 2*events.LandingDelay {
			t.Errorf("then it waits %s", until)
		}
	})
	t.Run("DLV-1 the end of a run that is not the one of the attempt changes nothing", func(t *testing.T) {
		t.Parallel()
		s := mergequeue.Take(enqueue(t, made(t), "a"), at, idOf)
		won := events.LandingOutcome{Commit: "m", How: "merge"}
		for _, got := range []mergequeue.State{mergequeue.Finish(s, 1, 1, "other", won, at), mergequeue.Finish(s, 1, 2, idOf("main", 1, 2), won, at),
			mergequeue.Finish(s, 2, 1, idOf("main", 1, 1), won, at)} {
			if len(got.Changes()) != len(s.Changes()) {
				t.Errorf("%s", kinds(got))
			}
		}
	})
	t.Run("DLV-1 an entry that is tested is neither dropped nor tried again by a person, and limits hold", func(t *testing.T) {
		t.Parallel()
		s := mergequeue.Take(enqueue(t, made(t), "a", "b"), at, idOf)
		steer := func(action, item string) (mergequeue.State, error) {
			return mergequeue.Steer(s, mergequeue.Wish{QueueControl: events.QueueControl{Action: action, Work: item, By: "anna"}, Queue: "main", Input: 7}, at)
		}
		for _, action := range []string{mergequeue.Drop, mergequeue.Retry} {
			_, err := steer(action, "a")
			refused(t, err, mergequeue.Running)
			_, err = steer(action, "z")
			refused(t, err, mergequeue.UnknownEntry)
		}
		_, err := mergequeue.Steer(mergequeue.State{}, mergequeue.Wish{QueueControl: events.QueueControl{Action: mergequeue.Drop, Work: "a"}, Queue: "x"}, at)
		refused(t, err, mergequeue.Unknown)
		dropped, err := steer(mergequeue.Drop, "b")
		if err != nil || len(dropped.Done) != 1 || dropped.Done[0].Code != events.LandingDropped || len(dropped.Entries) != 1 {
			t.Errorf("%v, %+v", err, dropped.Done)
		}
		s = dropped
		if again, err := steer(mergequeue.Drop, "b"); err != nil || len(again.Changes()) != len(dropped.Changes()) {
			t.Errorf("the same control twice: %v", err)
		}
		for i := len(s.Entries); i < events.MaxQueued; i++ {
			s = enqueue(t, s, fmt.Sprintf("w%d", i))
		}
		_, err = mergequeue.Enqueue(s, "main", queued("more"), at)
		refused(t, err, mergequeue.Full)
	})
	t.Run("SAFE-2 controls that are not sound are named", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]events.QueueControl{
			"unknown action": {Action: "merge"}, "a spec": {Action: mergequeue.Add}, "work": {Action: mergequeue.Drop},
			"no checks": {Action: mergequeue.Add, Spec: &events.QueueSpec{Repo: "r", Branch: "b", Agent: "a"}},
			"no repo":   {Action: mergequeue.Add, Spec: &events.QueueSpec{Branch: "b", Agent: "a", Accept: spec().Accept}},
			"agent":     {Action: mergequeue.Add, Spec: &events.QueueSpec{Repo: "r", Branch: "b", Accept: spec().Accept}},
			"oversight": {Action: mergequeue.Add, Spec: &events.QueueSpec{Repo: "r", Branch: "b", Agent: "a", Accept: spec().Accept, Oversight: "No"}},
		} {
			if err := mergequeue.Check(c); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := mergequeue.Check(events.QueueControl{Action: mergequeue.Add, Spec: spec()}); err != nil {
			t.Error(err)
		}
	})
	t.Run("DLV-1 the run of an attempt checks the merged tree with the commands of queue and item, once, and asks no model", func(t *testing.T) {
		t.Parallel()
		s := mergequeue.Take(enqueue(t, made(t), "a"), at, idOf)
		e, _ := s.Taken()
		item := &events.Accept{Checks: []events.Check{{Kind: events.CheckCommand, Run: "go test ./login"}, {Kind: events.CheckExpr, Expr: "output != ''"}}}
		task := mergequeue.TaskOf(s, e, item)
		st := task.Plan.Steps[0]
		if len(task.Plan.Steps) != 1 || !st.Flow.Check || len(st.Accept.Checks) != 2 || st.Accept.Checks[1].Run != "go test ./login" || st.Accept.Attempts() != 1 {
			t.Errorf("%+v", task.Plan)
		}
		if task.ID != e.Landing || task.Repo != s.Spec.Repo || task.Git.WorkingBranch != "main" || task.Git.RequireApproval != nil {
			t.Errorf("%+v", task)
		}
		if got := s.Spec.Accept.Attempts(); got != events.DefaultClaims {
			t.Errorf("the checks of the queue changed: %d", got)
		}
	})
}

func TestQueueProperties(t *testing.T) {
	t.Parallel()
	t.Run("DLV-1 PROP-21 under any order of deliveries, attempts and controls one entry is taken at most, and none is lost", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			s, err := mergequeue.Steer(mergequeue.State{}, mergequeue.Wish{QueueControl: events.QueueControl{Action: mergequeue.Add, Spec: spec()}, Queue: "main", Input: 1}, at)
			if err != nil {
				t.Fatal(err)
			}
			now, input, ended := at, uint64(1), map[string]int{}
			all := map[string]bool{}
			item := rapid.SampledFrom([]string{"a", "b", "c"})
			t.Repeat(map[string]func(*rapid.T){
				"enqueue": func(t *rapid.T) {
					q := queued(item.Draw(t, "item"))
					q.Epoch = rapid.IntRange(1, 3).Draw(t, "epoch")
					next, err := mergequeue.Enqueue(s, "main", q, now)
					if err == nil {
						s, all[fmt.Sprint(q.Work, q.Epoch)] = next, true
					}
				},
				"take": func(*rapid.T) { s = mergequeue.Take(s, now, idOf) },
				"finish": func(t *rapid.T) {
					code := rapid.SampledFrom([]string{"", events.LandingMoved, events.LandingUnreachable, events.LandingChecks}).Draw(t, "code")
					o := events.LandingOutcome{Base: rapid.SampledFrom([]string{"b1", "b2"}).Draw(t, "base"), Code: code, Commit: "m", How: "merge"}
					s = finish(s, o, now)
				},
				"control": func(t *rapid.T) {
					input++
					c := events.QueueControl{Action: rapid.SampledFrom([]string{mergequeue.Retry, mergequeue.Drop}).Draw(t, "action"), Work: item.Draw(t, "item")}
					if next, err := mergequeue.Steer(s, mergequeue.Wish{QueueControl: c, Queue: "main", Input: input}, now); err == nil {
						s = next
					}
				},
				"time": func(t *rapid.T) {
					now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "minutes")) * time.Minute)
				},
				"": func(t *rapid.T) {
					takens, seen := 0, map[string]bool{}
					for _, e := range s.Entries {
						if e.State == events.EntryIsTaken {
							takens++
						}
						seen[fmt.Sprint(e.Work, e.Epoch)] = true
					}
					clear(ended)
					for _, e := range s.Done {
						seen[fmt.Sprint(e.Work, e.Epoch)] = true
						if ended[fmt.Sprint(e.Work, e.Epoch)]++; ended[fmt.Sprint(e.Work, e.Epoch)] > 1 {
							t.Fatalf("delivery %d of %s ended twice", e.Epoch, e.Work)
						}
					}
					if takens > 1 || len(seen) != len(all) {
						t.Fatalf("%d are taken; %v of %v are known", takens, seen, all)
					}
					again := refold(t, s, now)
					row, err := mergequeue.View().Row(again, 7)
					if err != nil {
						t.Fatal(err)
					}
					if shown, position, ok := mergequeue.View().Read(row); !ok || position != 7 || !reflect.DeepEqual(shown, again) {
						t.Fatalf("the row shows %+v, want %+v", shown, again)
					}
					if len(again.Entries) != len(s.Entries) || len(again.Done) != len(s.Done) || again.Last != s.Last {
						t.Fatalf("read again it is %+v, want %+v", again.MergeQueue, s.MergeQueue)
					}
				},
			})
		})
	})
}

// refold reads the changes of a state again, as they are stored, from the first event.
func refold(t *rapid.T, s mergequeue.State, from time.Time) (again mergequeue.State) {
	for i, p := range s.Changes() {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := events.LookupQueue(p.Kind())
		stored := kind.New()
		if err := json.Unmarshal(b, stored); err != nil {
			t.Fatal(err)
		}
		again, err = mergequeue.Aggregate().Apply(again, events.Event{Subject: s.ID, Sequence: uint64(i + 1), Time: from}, stored, "h")
		if err != nil {
			t.Fatalf("event %d does not fold: %v", i+1, err)
		}
	}
	return again
}
