package work_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
)

// refold reads the changes of a state again, as they are stored, from the first event.
func refold(t *rapid.T, s work.State, from time.Time) (again work.State) {
	for i, p := range s.Changes() {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := events.LookupWork(p.Kind())
		stored := kind.New()
		if err := json.Unmarshal(b, stored); err != nil {
			t.Fatal(err)
		}
		again, err = work.Aggregate().Apply(again, events.Event{Subject: s.ID, Sequence: uint64(i + 1), Time: from}, stored, "h")
		if err != nil {
			t.Fatalf("event %d does not fold: %v", i+1, err)
		}
	}
	return again
}

func TestWorkProperties(t *testing.T) {
	t.Parallel()
	t.Run("WORK-3 PROP-21 under any order of dispatches, ends, expiries and clearings no item has two holders", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			var s work.State
			now, input := at, uint64(0)
			// living are the runs that took the item and whose end was not told: the twin that knows nothing of bindings.
			living := map[string]bool{}
			var begun []events.WorkBinding
			some := func() events.WorkBinding { return rapid.SampledFrom(begun).Draw(t, "run") }
			t.Repeat(map[string]func(*rapid.T){
				"control": func(t *rapid.T) {
					c := events.WorkControl{Action: rapid.SampledFrom(work.Actions()).Draw(t, "action")}
					switch c.Action {
					case work.Add:
						c.Spec = &events.WorkSpec{Title: "x"}
					case work.Assign:
						c.Dispatch, c.Start = &events.WorkDispatch{Agent: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent")}, rapid.Bool().Draw(t, "start")
					case work.Note:
						c.Note = "n"
					}
					input++
					w := work.Wish{WorkControl: c, Work: "w1", Input: input}
					next, err := work.Steer(s, w, now, runOf)
					if err != nil {
						return
					}
					if len(next.Changes()) != len(s.Changes())+1 {
						t.Fatalf("%s led to %d events", c.Action, len(next.Changes())-len(s.Changes()))
					}
					if again, err := work.Steer(next, w, now, runOf); err != nil || len(again.Changes()) != len(next.Changes()) {
						t.Fatalf("%s twice: %v, %v", c.Action, kinds(again), err)
					}
					if b := next.Binding; b != nil && (s.Binding == nil || s.Binding.Epoch != b.Epoch) {
						begun = append(begun, *b)
					}
					s = next
				},
				"time": func(t *rapid.T) {
					now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "minutes")) * time.Minute)
					s = work.Expire(s, now)
				},
				"accept": func(t *rapid.T) {
					if len(begun) == 0 {
						return
					}
					b := some()
					next, has := work.Accept(s, b.Epoch, b.Run, now)
					if s = next; has {
						living[b.Run] = true
					}
				},
				"end": func(t *rapid.T) {
					if len(begun) == 0 {
						return
					}
					b := some()
					if rapid.Bool().Draw(t, "completed") {
						s = work.Complete(s, b.Epoch, b.Run, "", now)
					} else {
						s = work.Free(s, b.Epoch, events.WorkFailed, "", now)
					}
					delete(living, b.Run)
				},
				"": func(t *rapid.T) {
					if len(living) > 1 {
						t.Fatalf("runs %v have the item", living)
					}
					for run := range living {
						if s.Binding == nil || s.Binding.Run != run || !s.Binding.Started {
							t.Fatalf("run %s has the item, whose holder is %+v", run, s.Binding)
						}
					}
					if (s.Status == events.WorkIsBound) != (s.Binding != nil) {
						t.Fatalf("%s with the holder %+v", s.Status, s.Binding)
					}
					again := refold(t, s, now)
					row, err := work.View().Row(again, 7)
					if err != nil {
						t.Fatal(err)
					}
					if shown, position, ok := work.View().Read(row); s.Exists() && (!ok || position != 7 || !reflect.DeepEqual(shown, again)) {
						t.Fatalf("the row shows %+v, want %+v", shown, again)
					}
					if again.Status != s.Status || again.Epoch != s.Epoch || (again.Binding == nil) != (s.Binding == nil) {
						t.Fatalf("read again it is %+v, want %+v", again.WorkItem, s.WorkItem)
					}
				},
			})
		})
	})
}
