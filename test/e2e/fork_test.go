package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// factOf returns the sequence of the first event of a kind.
func (w *world) eventOf(runID string, k events.Kind) uint64 {
	w.t.Helper()
	for i, kind := range w.kinds(runID) {
		if kind == string(k) {
			return uint64(i + 1)
		}
	}
	w.t.Fatalf("run %s has no %s\n%s", runID, k, w.story(runID))
	return 0
}

// tornJournal takes so many events and no more.
type tornJournal struct {
	kernel.Journal
	mu   sync.Mutex
	left int
}

func (j *tornJournal) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.left == 0 {
		return kernel.Ack{Outcome: kernel.Full}
	}
	j.left--
	return j.Journal.Append(ctx, e)
}

func TestFork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := []events.Rule{{ID: "careful", Tool: "bash", Action: "ask"}}
	// The second turn of the script is what follows whether the call was made or was interrupted.
	w.agent(events.Agent{Name: "forker", Tools: []string{"bash", "write"}, Guards: ask}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: a.txt, content: "one"}}
  - when: {turn: 2}
    calls:
      - {name: bash, input: {command: "cat a.txt"}}
  - when: {turn: 3, message: {contains: "Do without the shell."}}
    text: "Without."
  - when: {turn: 3}
    text: "Heard: {{result.1}}"
  - when: {turn: 4}
    text: "Again."
`)
	w.agent(events.Agent{Name: "modelled", Tools: []string{"write"}, Plan: "model"}, "turns:\n  - when: {purpose: plan}\n    text: '{\"steps\":[{\"id\":\"s\",\"description\":\"d\",\"dependencies\":[],\"critical\":false}]}'\n  - when: {turn: 1}\n    text: done\n")
	letters := w.letters()
	roles, whole := w.start(), w
	w.task(events.Task{ID: "origin", Agent: "forker", Task: "work", By: "olga"})
	w.await("origin", "waiting", waiting)
	at := w.eventOf("origin", events.GateOpened)

	t.Run("PLUS-1 a fork at a gate goes on by itself: its own plan and workspace, the call is interrupted, the other run still waits", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "side", ForkOf: &events.ForkPoint{Run: "origin", Sequence: at}, Say: "Do without the shell."})
		s := w.ended("side")
		if s.Status != events.Completed || s.Created.ForkOf.Hash == "" || s.Created.Workspace != "run/side" || s.AgentLoopSnapshot.Turns.Len() != 3 {
			t.Fatalf("%s %+v", w.story("side"), s.Result)
		}
		if r := s.ToolCallHistory.At(1); r.Code != run.CodeInterrupted {
			t.Errorf("%+v", r)
		}
		if said := s.MessagesAfter("step-1", 2); len(said) != 2 || said[1] != "Do without the shell." {
			t.Errorf("%q in %+v", said, s.Messages)
		}
		if s.Result.Output != "Without." {
			t.Errorf("the model was not shown what was said: %q", s.Result.Output)
		}
		if o := w.state("origin"); !waiting(o) || o.Sequence != at {
			t.Errorf("the fork changed the other run: %s", w.story("origin"))
		}
		if talk := prompt.Conversation(s, "step-1"); len(talk) != 3 || !strings.Contains(talk[1].Results[0].Output, "the run was forked before the call was made") {
			t.Errorf("%+v", talk)
		}
		w.task(events.Task{ID: "side", ForkOf: &events.ForkPoint{Run: "origin", Sequence: at}, Say: "Do without the shell."})
		w.task(events.Task{ID: "side", ForkOf: &events.ForkPoint{Run: "origin", Sequence: at - 1}})
		if d := w.letter(letters); d.Code != "duplicate_id" {
			t.Errorf("%+v", d)
		}
		if again := w.state("side"); again.Sequence != s.Sequence {
			t.Error("the same fork was told twice")
		}
	})
	t.Run("PLUS-1 every event of a run can be forked, and each fork ends or waits at its own gate", func(t *testing.T) {
		w := w.on(t)
		w.publish(w.opened("origin").AnswerSubject, `{"decision":"approve"}`)
		last := w.ended("origin")
		for seq := uint64(1); seq <= last.Sequence; seq++ {
			id := "at-" + string(rune('a'+seq))
			w.task(events.Task{ID: id, ForkOf: &events.ForkPoint{Run: "origin", Sequence: seq, SameWorkspace: true}})
			if seq == last.Sequence {
				if d := w.letter(letters); d.Code != "bad_fork" || !strings.Contains(d.Reason, "had ended at that event") {
					t.Errorf("%+v", d)
				}
				break
			}
			s := w.await(id, "ended or waiting", func(s run.State) bool { return s.Status.Ended() || waiting(s) })
			if s.Status == events.Failed || s.Created.Workspace != "run/origin" {
				t.Errorf("at %d: %+v\n%s", seq, s.Result, w.story(id))
			}
		}
		w.task(events.Task{ID: "more", ForkOf: &events.ForkPoint{Run: "origin", Sequence: last.Sequence}, Say: "And now?"})
		if s := w.ended("more"); s.Status != events.Completed || s.Turns().Len() != last.Turns().Len()+1 {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("PLUS-1 what cannot be forked is refused with the reason, before anything is stored", func(t *testing.T) {
		w := w.on(t)
		for _, c := range []struct {
			task events.Task
			code string
		}{
			{events.Task{ID: "x1", ForkOf: &events.ForkPoint{Run: "nobody", Sequence: 3}}, "unknown_run"},
			{events.Task{ID: "x2", ForkOf: &events.ForkPoint{Run: "origin", Sequence: 9999}}, "bad_fork"},
			{events.Task{ID: "x3", ForkOf: &events.ForkPoint{Run: "origin", Sequence: 2}, Say: "hello"}, "bad_fork"},
			{events.Task{ID: "x4", ForkOf: &events.ForkPoint{Run: "origin"}}, "bad_input"},
			{events.Task{ID: "x5", Agent: "forker", ForkOf: &events.ForkPoint{Run: "origin", Sequence: 3}}, "bad_input"},
			{events.Task{ID: "x6", Agent: "forker", Task: "t", Say: "hello"}, "bad_input"},
		} {
			w.task(c.task)
			if d := w.letter(letters); d.Code != c.code || d.Hint == "" {
				t.Errorf("%s: %+v", c.task.ID, d)
			}
			if len(w.events(c.task.ID)) != 0 {
				t.Errorf("%s exists", c.task.ID)
			}
		}
	})
	t.Run("PLUS-1 a fork that was begun and not finished is completed by whoever hears its task next", func(t *testing.T) {
		w := w.on(t)
		roles.stop()
		b, err := json.Marshal(events.Task{ID: "torn", ForkOf: &events.ForkPoint{Run: "origin", Sequence: at}, Say: "Go on."})
		if err != nil {
			t.Fatal(err)
		}
		torn := *w
		torn.ports.Journal = &tornJournal{Journal: w.ports.Journal, left: 2}
		broken := torn.start(events.Planner)
		w.publish(events.TaskSubject("test"), string(b))
		w.await("torn", "begun", func(s run.State) bool { return s.Sequence == 2 })
		broken.stop()
		if s := w.state("torn"); s.Sequence != 2 || s.Status != events.Created {
			t.Fatalf("%s", w.story("torn"))
		}
		whole.start()
		s := w.ended("torn")
		if n := strings.Count(w.story("torn"), string(events.RunCreated)); s.Status != events.Completed || n != 1 {
			t.Errorf("%s", w.story("torn"))
		}
	})
}
