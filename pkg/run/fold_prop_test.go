package run_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// walk draws a random legal history. Moves that end the run or fail a step are taken seldom, so that walks get long.
func walk(t *rapid.T, steps int) *runtest.Builder {
	b := runtest.New("demo", "r")
	n := rapid.IntRange(1, steps).Draw(t, "facts")
	for range n {
		moves := runtest.Moves(b.State())
		if len(moves) == 0 {
			break
		}
		p := moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]
		if k := p.Kind(); k == events.RunFailed || k == events.StepFailed || k == events.RunPaused || k == events.CheckpointSaved || k == events.CheckpointFallback || k == events.RunAdjusted || k == events.RunMoved {
			p = moves[rapid.IntRange(0, len(moves)-1).Draw(t, "other move")]
		}
		if _, err := b.Try(p); err != nil {
			t.Fatalf("a legal move does not fit: %v", err)
		}
	}
	return b
}

func fold(t *rapid.T, from run.State, evs [][]byte) run.State {
	s, err := run.Fold(from, evs...)
	if err != nil {
		t.Fatalf("fold: %v", err)
	}
	return s
}

func TestFoldProperties(t *testing.T) {
	t.Parallel()
	t.Run("EVT-1 fold(a+b) == fold(fold(a), b)", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			evs := walk(t, 60).Events()
			whole := fold(t, run.State{}, evs)
			cut := rapid.IntRange(0, len(evs)).Draw(t, "cut")
			if got := fold(t, fold(t, run.State{}, evs[:cut]), evs[cut:]); !reflect.DeepEqual(got, whole) {
				t.Fatalf("cut at %d:\n got %s\nwant %s", cut, document(t, got), document(t, whole))
			}
		})
	})
	t.Run("EVT-1 a state is a value: it stays as it was, whatever is made from it", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			evs := walk(t, 30).Events() // the work grows with the square
			states, docs := []run.State{{}}, []string{document(t, run.State{})}
			for _, f := range evs {
				s := fold(t, states[len(states)-1], [][]byte{f})
				states, docs = append(states, s), append(docs, document(t, s))
			}
			// Two different futures of one past do not see each other.
			for i, s := range states {
				for _, p := range runtest.Moves(s) {
					b := from(t, evs[:i])
					b.Append(p)
				}
			}
			for i := range states {
				if got := document(t, states[i]); got != docs[i] {
					t.Fatalf("the state after event %d was changed:\n got %s\nwant %s", i, got, docs[i])
				}
			}
		})
	})
	t.Run("EVT-1 futures of one state share nothing that is written", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := walk(t, 50)
			s := b.State()
			before := document(t, s)
			var futures []run.State
			var docs []string
			for _, p := range runtest.Moves(s) {
				next, err := s.Apply(b.Bad(p, func(*events.Event) {}))
				if err != nil {
					t.Fatalf("apply: %v", err)
				}
				futures, docs = append(futures, next), append(docs, document(t, next))
			}
			for i := range futures {
				if document(t, futures[i]) != docs[i] {
					t.Fatalf("future %d was changed by another", i)
				}
			}
			if document(t, s) != before {
				t.Fatal("the past was changed by its futures")
			}
		})
	})
	t.Run("PROP-4 EVT-3 EVT-4 Feature: agent-harnesses, Property 4: a state written and read is the same state", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := walk(t, 60)
			s := b.State()
			if n := rapid.IntRange(0, 2).Draw(t, "children"); n > 0 {
				s.SubAgentIDs = []string{"child-1", "child-2"}[:n]
				s.SubAgentResults = map[string]string{"child-1": rapid.String().Draw(t, "result")}
			}
			doc, err := run.Codec{}.Encode(s)
			if err != nil {
				t.Fatalf("encode: %v", err)
			}
			got, err := run.Codec{}.Decode(doc)
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			if document(t, got) != document(t, s) {
				t.Fatalf("got %s\nwant %s", document(t, got), document(t, s))
			}
			if len(s.Open) == 0 { // an empty map is not written, and read as none
				got.Open, s.Open = nil, nil
			}
			if !reflect.DeepEqual(got, s) {
				t.Fatalf("got %#v\nwant %#v", got, s)
			}
			for _, p := range runtest.Moves(b.State()) { // EVT-9: and it goes on from there
				if _, err := got.Apply(b.Bad(p, func(*events.Event) {})); err != nil {
					t.Fatalf("the state that was read does not go on: %v", err)
				}
			}
		})
	})
	t.Run("TOOL-8 LIFE-2 PLAN-4 what holds in every state", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			var s run.State
			for _, f := range walk(t, 80).Events() {
				s = fold(t, s, [][]byte{f})
				invariants(t, s)
			}
		})
	})
}

// from rebuilds a builder that has said the events given.
func from(t *rapid.T, evs [][]byte) *runtest.Builder {
	b := runtest.New("demo", "r")
	for _, stored := range evs {
		f, err := events.Decode(stored)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		p, err := f.Payload()
		if err != nil {
			t.Fatalf("payload: %v", err)
		}
		b.Append(p)
	}
	return b
}

func invariants(t *rapid.T, s run.State) {
	held, done := 0, 0
	for _, c := range s.Open {
		if c.Phase != run.CallRequested && !s.Harness(c.Step) {
			held++
		}
		if st := s.Step(c.Step); st == nil || st.Status != events.StepIsRunning || st.Owed != 0 {
			t.Fatalf("call %s is open in step %s, which is not waiting for it", c.ID, c.Step)
		}
	}
	for _, r := range run.All(s.ToolCallHistory) {
		if r.Outcome != run.OutcomeRefused && !s.Harness(r.Step) {
			done++
		}
	}
	if s.CallsHeld != held || s.TotalToolCalls != done {
		t.Fatalf("held %d and done %d; the open calls are %d and the records %d", s.CallsHeld, s.TotalToolCalls, held, done)
	}
	if s.Status.Ended() != (s.EndedAt != nil) || s.Status.Ended() != (s.Result != nil) || s.Status.Ended() && len(s.Open) > 0 {
		t.Fatalf("status %s, ended at %v, result %v, %d open calls", s.Status, s.EndedAt, s.Result, len(s.Open))
	}
	if s.Plan == nil {
		return
	}
	first := len(s.Plan.Steps)
	for i, st := range s.Plan.Steps {
		if st.Status != events.StepIsCompleted {
			first = min(first, i)
		}
		if st.Status != events.StepIsRunning && (st.Owed != 0 || st.Final) {
			t.Fatalf("step %s is %s and owed or final", st.ID, st.Status)
		}
	}
	if s.CurrentStepIndex != first {
		t.Fatalf("the current step is %d, want %d", s.CurrentStepIndex, first)
	}
}

// TestBlocked compares the fold with a twin that knows only the plan and which steps failed.
func TestBlocked(t *testing.T) {
	t.Parallel()
	t.Run("PLAN-5 PLAN-6a PROP-13ab for random plans the blocked and the possible steps are exactly right", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 8).Draw(t, "steps")
			ids := []string{"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"}[:n]
			order := rapid.Permutation(ids).Draw(t, "order") // dependencies need not stand before
			rank := map[string]int{}
			for i, id := range order {
				rank[id] = i
			}
			var steps []events.PlanStep
			for _, id := range ids {
				var needs []string
				for _, dep := range ids {
					if rank[dep] < rank[id] && rapid.IntRange(0, 2).Draw(t, id+" needs "+dep) == 0 {
						needs = append(needs, dep)
					}
				}
				steps = append(steps, runtest.Step(id, needs...))
			}
			b := runtest.New("demo", "r")
			b.Append(runtest.Created(), runtest.Started(), runtest.Plan(steps...))
			status := map[string]events.StepStatus{}
			for range 4 * n {
				s := b.State()
				id := rapid.SampledFrom(ids).Draw(t, "step")
				var p events.Payload
				switch s.Step(id).Status {
				case events.StepIsPending:
					if !twinMayBegin(steps, status, id) {
						continue
					}
					p = runtest.Ready(id)
				case events.StepIsReady:
					p = runtest.Allowed(id)
				case events.StepIsRunning:
					p = runtest.StepDone(id, "x")
					status[id] = events.StepIsCompleted
					if rapid.IntRange(0, 2).Draw(t, "fails") == 0 {
						p = runtest.StepBad(id, "x")
						status[id] = events.StepIsFailed
					}
				default:
					continue
				}
				b.Append(p)
				s = b.State()
				for _, st := range steps {
					if got, want := s.Step(st.ID).Status == events.StepIsBlocked, twinBlocked(steps, status, st.ID); got != want {
						t.Fatalf("after %s of %s: step %s blocked is %v, want %v", p.Kind(), id, st.ID, got, want)
					}
				}
			}
		})
	})
}

func needsOf(steps []events.PlanStep, id string) []string {
	for _, st := range steps {
		if st.ID == id {
			return st.Dependencies
		}
	}
	return nil
}

// twinBlocked follows the dependencies one by one.
func twinBlocked(steps []events.PlanStep, status map[string]events.StepStatus, id string) bool {
	if status[id] != "" {
		return false
	}
	for _, dep := range needsOf(steps, id) {
		if status[dep] == events.StepIsFailed || twinBlocked(steps, status, dep) {
			return true
		}
	}
	return false
}

func twinMayBegin(steps []events.PlanStep, status map[string]events.StepStatus, id string) bool {
	for _, dep := range needsOf(steps, id) {
		if status[dep] != events.StepIsCompleted {
			return false
		}
	}
	return true
}
