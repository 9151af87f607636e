package planner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// workshop is an office whose run carries out a formula that others work on.
type workshop struct {
	*office
	log  [][]byte
	head uint64
}

const theRun = "r1"

// newWorkshop has a run whose log others write.
func newWorkshop(t *testing.T, seed uint64, write func(b *runtest.Builder)) *workshop {
	t.Helper()
	created, b := runtest.Created(), runtest.New("s1", theRun)
	created.Formula = &events.Formula{Name: "ship", Digest: fmt.Sprintf("%064d", 0)}
	b.Append(created, runtest.Started())
	write(b)
	return &workshop{office: newOffice(t, seed), log: b.Events()}
}

// next appends the next event of the run, and has the planners be told of it.
func (w *workshop) next() {
	w.t.Helper()
	f, err := events.Decode(w.log[0])
	if err != nil {
		w.t.Fatal(err)
	}
	kind, err := f.Kind()
	if err != nil {
		w.t.Fatal(err)
	}
	ack := w.st.Journal().Append(w.t.Context(), kernel.Entry{ID: theRun, Kind: kind, Bytes: w.log[0], Head: w.head})
	if ack.Outcome != kernel.Stored {
		w.t.Fatalf("%s: %v", kind, ack.Err)
	}
	w.head, w.log = ack.Seq, w.log[1:]
	w.waiting = append(w.waiting, delivered{what: "told", run: theRun})
}

// tell delivers an event to one of the planners, which may die at any operation.
func (w *workshop) tell(i int, trouble bool) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	w.kill, w.left, w.late = cancel, -1, false
	if trouble && w.rng.IntN(2) == 0 {
		w.left, w.late = w.rng.IntN(4), w.rng.IntN(2) == 0
	}
	at := w.rng.IntN(len(w.planners))
	if w.seed%2 == 0 { // nobody else makes up for it
		at = 0
	}
	_, err := w.planners[at].cfg.Ledger.Fresh(ctx, theRun)
	if err == nil {
		err = w.planners[at].parts.Team.Follow(ctx, theRun)
	}
	if ctx.Err() != nil {
		if w.rng.IntN(2) == 0 { // else it lives, and did not hear what became of its last operation
			w.planners[at] = w.planner()
		}
		return
	}
	w.left = -1
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
	if !trouble || w.rng.IntN(4) > 0 { // else the message comes twice
		w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
	}
}

func (w *workshop) state() run.State {
	w.t.Helper()
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: w.st.JournalOf(events.Planner), Entropy: rand.Reader})
	if err != nil {
		w.t.Fatal(err)
	}
	s, _, err := l.State(w.t.Context(), theRun)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// compare holds that the items are those of the steps, with what became of each, and that their rows say so.
func (w *workshop) compare(want map[string]events.WorkStatus) {
	w.t.Helper()
	s := w.state()
	for step, status := range want {
		id := testNames.StepItem(theRun, step)
		item, all := w.item(id)
		if !item.Exists() || item.Status != status || item.Step.Step != step || item.Step.Run != theRun {
			w.t.Errorf("seed %d: the item of step %s is %q: %+v, want %s", w.seed, step, item.Status, item.Step, status)
			continue
		}
		if st := s.Step(step); st != nil && item.Step.Status != st.Status {
			w.t.Errorf("seed %d: the item of step %s has it %s, the run has it %s", w.seed, step, item.Step.Status, st.Status)
		}
		if (item.Status == events.WorkIsBound) != (item.Binding != nil) {
			w.t.Errorf("seed %d: the item of step %s is %s, held by %+v", w.seed, step, item.Status, item.Binding)
		}
		if ran := item.Step.Status == events.StepIsCompleted || item.Step.Status == events.StepIsFailed; ran != (item.Last != nil) ||
			ran && (item.Last.Run != theRun || item.Last.Agent != "worker" || (item.Last.Code == events.WorkCompleted) != (item.Step.Status == events.StepIsCompleted)) {
			w.t.Errorf("seed %d: step %s is %s, the last that had its item is %+v", w.seed, step, item.Step.Status, item.Last)
		}
		row, err := w.st.KV(topology.SessionBucket).Get(w.t.Context(), work.View().Key(id))
		if shown, _, ok := work.View().Read(row); err != nil || !ok || shown.Sequence != item.Sequence {
			w.t.Errorf("seed %d: the row of step %s shows event %d of %d, %v", w.seed, step, shown.Sequence, item.Sequence, err)
		}
		seen := map[events.WorkStep]bool{}
		for _, p := range all {
			if d, ok := p.(*events.WorkFollowedData); ok {
				d.Sequence = 0
				if seen[d.WorkStep] {
					w.t.Errorf("seed %d: step %s: %+v was recorded twice", w.seed, step, d.WorkStep)
				}
				seen[d.WorkStep] = true
			}
		}
	}
}

// play tells planners of each event in trouble, and of the rest in peace.
func (w *workshop) play() {
	w.t.Helper()
	for len(w.log) > 0 {
		w.next()
		for range w.rng.IntN(5) {
			if len(w.waiting) > 0 {
				w.tell(w.rng.IntN(len(w.waiting)), true)
			}
		}
	}
	for len(w.waiting) > 0 {
		w.tell(0, false)
	}
}

// did has steps of a run done one after the other, from its nth turn on.
func did(b *runtest.Builder, n int, steps ...string) {
	for i, step := range steps {
		b.Append(runtest.Ready(step), runtest.Allowed(step), runtest.Turn(n+i, step, "did it"), runtest.StepDone(step, "did it"))
	}
}

func TestStepsHaveItems(t *testing.T) {
	t.Parallel()
	const open, bound, closed = events.WorkIsOpen, events.WorkIsBound, events.WorkIsClosed
	plan := runtest.Plan(runtest.Step("a"), runtest.Step("b", "a"), runtest.Step("c", "b"))
	for name, c := range map[string]struct {
		write func(b *runtest.Builder)
		want  map[string]events.WorkStatus
		says  map[string]string
	}{
		"while it goes on": {func(b *runtest.Builder) {
			b.Append(plan)
			did(b, 1, "a")
			b.Append(runtest.Ready("b"), runtest.Allowed("b"))
		}, map[string]events.WorkStatus{"a": closed, "b": bound, "c": open}, map[string]string{"a": "completed"}},
		"after it completed": {func(b *runtest.Builder) {
			b.Append(plan)
			did(b, 1, "a", "b", "c")
			b.Append(runtest.Completed(b.State()))
		}, map[string]events.WorkStatus{"a": closed, "b": closed, "c": closed}, map[string]string{"c": "completed"}},
		"after a step of it failed": {func(b *runtest.Builder) {
			b.Append(plan)
			did(b, 1, "a")
			b.Append(runtest.Ready("b"), runtest.Allowed("b"), runtest.StepBad("b", "no wheel\x1b[2J"))
			b.Append(runtest.Failed(b.State(), events.FinishStep, "b"))
		}, map[string]events.WorkStatus{"a": closed, "b": closed, "c": closed},
			map[string]string{"b": "failed: no wheel[2J", "c": "the run ended: " + events.FinishStep}},
		"after its plan was revised": {func(b *runtest.Builder) {
			b.Append(plan)
			did(b, 1, "a")
			b.Append(runtest.Paused("revise"))
			b.Append(runtest.Revised(b.State(), runtest.Step("d", "a")))
			b.Append(runtest.Resumed())
			did(b, 2, "d")
			b.Append(runtest.Completed(b.State()))
		}, map[string]events.WorkStatus{"a": closed, "d": closed}, map[string]string{"d": "completed"}},
	} {
		t.Run("FORM-3 PROP-21 planners that die at any operation leave each step of a formula with one item that says what became of it: "+name, func(t *testing.T) {
			t.Parallel()
			deaths := 0
			for seed := range uint64(20) {
				w := newWorkshop(t, seed, c.write)
				w.play()
				w.compare(c.want)
				for step, why := range c.says {
					if item, _ := w.item(testNames.StepItem(theRun, step)); item.ClosedAs != why {
						t.Errorf("seed %d: step %s closed as %q, want %q", seed, step, item.ClosedAs, why)
					}
				}
				for _, step := range []string{"b", "c"} { // of those that a revision took out none is left open
					if item, _ := w.item(testNames.StepItem(theRun, step)); name == "after its plan was revised" && item.Exists() &&
						(item.Status != closed || item.ClosedAs != "the plan was revised without it") {
						t.Errorf("seed %d: step %s is %s: %s", seed, step, item.Status, item.ClosedAs)
					}
				}
				deaths += w.deaths
			}
			if deaths < 10 {
				t.Errorf("only %d deaths", deaths)
			}
			t.Logf("%d deaths", deaths)
		})
	}
	t.Run("FORM-3 nobody makes, gives away or closes the item of a step but its run", func(t *testing.T) {
		t.Parallel()
		w := newWorkshop(t, 1, func(b *runtest.Builder) { b.Append(plan) })
		w.play()
		id := testNames.StepItem(theRun, "a")
		for i, say := range []string{`{"action":"assign","start":true,"dispatch":{"agent":"a"}}`, `{"action":"close"}`, `{"action":"start"}`, `{"action":"unassign"}`} {
			err := w.planners[0].Assigner().Input(t.Context(), letter{events.WorkSubject("s1", id), say, uint64(10 + i)})
			if no, ok := errors.AsType[*kernel.Refusal](err); !ok || no.Code != work.BadMove || !strings.Contains(no.Reason, "is step a of run r1") {
				t.Errorf("%s: %v", say, err)
			}
		}
		if item, all := w.item(id); item.Status != open || len(all) != 1 {
			t.Errorf("%s after %d events", item.Status, len(all))
		}
		err := w.planners[0].Assigner().Input(t.Context(), letter{events.WorkSubject("s1", "step_x"), `{"action":"add","spec":{"title":"mine"}}`, 20})
		if no, ok := errors.AsType[*kernel.Refusal](err); !ok || no.Code != "bad_input" || !strings.Contains(no.Reason, "steps of formulas") {
			t.Errorf("%v", err)
		}
	})
	t.Run("FORM-2 FORM-3 a run without a formula, and one whose formula is a checklist, has no items", func(t *testing.T) {
		t.Parallel()
		for _, origin := range []string{events.OriginSingle, events.OriginModel} {
			w := newWorkshop(t, 1, func(b *runtest.Builder) {
				p := *plan
				p.Origin = origin
				b.Append(&p)
			})
			w.play()
			if item, _ := w.item(testNames.StepItem(theRun, "a")); item.Exists() {
				t.Errorf("%s: %+v", origin, item.WorkItem)
			}
		}
	})
}
