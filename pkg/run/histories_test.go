package run_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

const histories = "../../test/histories"

var update = flag.Bool("update", false, "write the histories that do not exist yet; those that do are never changed")

// stories are how the histories were made. Once written they stay as they are: new ones are added.
var stories = map[string]func() *runtest.Builder{
	"simple": func() *runtest.Builder {
		b := runtest.New("demo", "simple")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("only")), runtest.Ready("only"), runtest.Allowed("only"))
		b.Append(runtest.Turn(1, "only", "I look at the file.", runtest.Asked(1, 1, "read", `{"path":"wheel.txt"}`)))
		ref := runtest.Ref("only", "c1-1", "read")
		b.Append(runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, "a broken <spoke> & a bent rim"))
		b.Append(runtest.Checkpoint(b.State()), runtest.Turn(2, "only", "The wheel is fixed."), runtest.StepDone("only", "The wheel is fixed."))
		b.Append(runtest.PlanDone(1))
		b.Append(runtest.Completed(b.State()))
		return b
	},
	"gates": func() *runtest.Builder {
		b := runtest.New("demo", "gates")
		deploy := runtest.Step("deploy", "build")
		deploy.Critical = true
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build"), deploy), runtest.Ready("build"), runtest.Allowed("build"))
		b.Append(runtest.Turn(1, "build", "I push.", runtest.Asked(1, 1, "bash", `{"command":"git push"}`)), runtest.GateAt("g-c1-1", "build", "c1-1"))
		yes := func(id string) { s := b.State(); b.Append(runtest.Yes(s.Gate(id))) }
		no := func(id, why string) { s := b.State(); b.Append(runtest.No(s.Gate(id), why)) }
		no("g-c1-1", "not to main")
		ref := runtest.Ref("build", "c1-1", "bash")
		b.Append(runtest.Paused("gate rejected: not to main"), runtest.CallNo(ref), runtest.Resumed())
		b.Append(runtest.Turn(2, "build", "I push to a branch.", runtest.Asked(2, 1, "bash", `{"command":"git push origin fix"}`)), runtest.GateAt("g-c2-1", "build", "c2-1"))
		yes("g-c2-1")
		ref = runtest.Ref("build", "c2-1", "bash")
		b.Append(runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
		fence := b.State().Sequence
		b.Append(runtest.CallDone(ref, fence, "pushed"), runtest.Turn(3, "build", "Pushed."), runtest.StepDone("build", "Pushed."))
		b.Append(runtest.Ready("deploy"), runtest.GateAt("g-deploy", "deploy", ""), runtest.Adjusted(3, 4))
		yes("g-deploy")
		b.Append(runtest.Allowed("deploy"), runtest.Turn(4, "deploy", "Deployed."), runtest.StepDone("deploy", "Deployed."), runtest.PlanDone(2))
		b.Append(runtest.Completed(b.State()))
		return b
	},
	"failed-step": func() *runtest.Builder {
		b := runtest.New("demo", "failed-step")
		b.Append(runtest.Created(), runtest.Started(),
			runtest.Plan(runtest.Step("a"), runtest.Step("b", "a"), runtest.Step("c", "b"), runtest.Step("free")),
			runtest.Ready("a"), runtest.Ready("free"), runtest.Allowed("a"), runtest.Allowed("free"))
		b.Append(runtest.Turn(1, "a", "I try.", runtest.Asked(1, 1, "bash", `{"command":"make"}`)))
		ref := runtest.Ref("a", "c1-1", "bash")
		b.Append(runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
		fence := b.State().Sequence
		b.Append(runtest.CallBad(ref, fence, events.OutcomeUnknown), runtest.StepBad("a", "no one knows whether make ran"))
		b.Append(runtest.Turn(2, "free", "Nothing to do."), runtest.StepDone("free", "nothing"))
		b.Append(runtest.Failed(b.State(), events.FinishStep, "step a failed: no one knows whether make ran"))
		return b
	},
	"compacted": func() *runtest.Builder {
		b := runtest.New("demo", "compacted")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("long")), runtest.Ready("long"), runtest.Allowed("long"))
		for n := 1; n <= 4; n++ {
			b.Append(runtest.Turn(n, "long", "I go on.", runtest.Asked(n, 1, "read", `{"path":"wheel.txt"}`)))
			ref := runtest.Ref("long", fmt.Sprintf("c%d-1", n), "read")
			b.Append(runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, "a long text"))
			if n == 2 {
				b.Append(runtest.TurnDeferred(3, "long", 1, b.State().UpdatedAt), runtest.Compacted(1, 1, "long", "the wheel was looked at"))
			}
			if n == 4 {
				b.Append(runtest.Compacted(3, 3, "long", "the wheel was looked at three times"))
			}
		}
		b.Append(runtest.Turn(5, "long", "The wheel is fixed."), runtest.StepDone("long", "The wheel is fixed."), runtest.PlanDone(1))
		b.Append(runtest.Completed(b.State()))
		return b
	},
	"outage": func() *runtest.Builder {
		b := runtest.New("demo", "outage")
		b.Append(runtest.Created(), runtest.Started(), &events.PlanRequestedData{Event: "plan_requested", Try: 1, Agents: []string{"worker"}},
			runtest.PlanWaits(1, 1, b.State().UpdatedAt, false), &events.PlanAnsweredData{Event: "plan_answered", Try: 1, Text: "{}", Attempt: 2})
		b.Append(runtest.Plan(runtest.Step("a"), runtest.Step("b")), runtest.Ready("a"), runtest.Ready("b"), runtest.Allowed("a"), runtest.Allowed("b"))
		b.Append(runtest.TurnWaits(1, "a", 1, b.State().UpdatedAt, false), runtest.Turn(1, "b", "Done."), runtest.StepDone("b", "done"))
		b.Append(runtest.TurnWaits(2, "a", 2, b.State().UpdatedAt, true), runtest.PausedClock("provider anthropic: overloaded"), runtest.Resumed())
		b.Append(runtest.TurnWaits(2, "a", 1, b.State().UpdatedAt, false), runtest.PausedClock("lunch"), runtest.Resumed())
		b.Append(runtest.Turn(2, "a", "Done, too."), runtest.StepDone("a", "done"), runtest.PlanDone(2))
		b.Append(runtest.Completed(b.State()))
		return b
	},
	"checkpoints": func() *runtest.Builder {
		b := runtest.New("demo", "checkpoints")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b", "a"), runtest.Step("c", "b")), runtest.Ready("a"), runtest.Allowed("a"))
		done := runtest.StepDone("a", "done")
		done.Checkpoint = 1
		b.Append(runtest.Turn(1, "a", "done"), done)
		s := b.State()
		b.Append(&events.CheckpointSavedData{Event: "checkpoint", Name: "step-a", Number: 1, Covered: s.Sequence, Key: "snap.checkpoints"}, runtest.Ready("b"), runtest.Allowed("b"))
		bad := runtest.StepBad("b", "it broke")
		bad.Checkpoint = 2
		b.Append(bad)
		b.Append(runtest.Failed(b.State(), events.FinishStep, "step b failed: it broke"))
		return b
	},
	"direct": func() *runtest.Builder {
		b := runtest.New("demo", "direct")
		b.Append(runtest.DirectCreated(), runtest.Turn(1, "step-1", "I look at the file.", runtest.Asked(1, 1, "read", `{"path":"wheel.txt"}`)))
		ref := runtest.Ref("step-1", "c1-1", "read")
		b.Append(runtest.CallYes(ref, "read"), runtest.Paused("lunch"), runtest.CallDone(ref, 0, "a broken <spoke> & a bent rim"), runtest.Resumed())
		b.Append(runtest.Turn(2, "step-1", "The wheel is fixed."), runtest.StepDone("step-1", "The wheel is fixed."))
		b.Append(runtest.Completed(b.State()))
		return b
	},
	"git": func() *runtest.Builder {
		b := gitRun()
		call := func(step, id, tool, input, output string, turn int) {
			ref := runtest.Ref(step, id, tool)
			b.Append(runtest.Turn(turn, step, "", runtest.Asked(turn, 1, tool, input)), runtest.CallYes(ref, "idempotent"), runtest.CallBegun(ref, 1))
			s := b.State()
			b.Append(runtest.CallDone(ref, s.Sequence, output))
		}
		b.Append(runtest.Ready(events.CheckoutStep), runtest.Allowed(events.CheckoutStep))
		call(events.CheckoutStep, "c1-1", events.GitPrepare, `{"new_branch":"agent/x"}`, `{"branch":"agent/x","commit":"1"}`, 1)
		b.Append(runtest.StepDone(events.CheckoutStep, "the branch agent/x at 1"), runtest.Ready("a"), runtest.Allowed("a"), runtest.Turn(2, "a", "I break it."), runtest.StepBad("a", "it broke"))
		b.Append(runtest.Ready(events.DeliverStep), runtest.Allowed(events.DeliverStep))
		call(events.DeliverStep, "c3-1", events.GitCommit, `{"message":"half"}`, `{"branch":"agent/x","commit":"2","made":true}`, 3)
		b.Append(runtest.StepDone(events.DeliverStep, "kept"))
		end := runtest.Failed(b.State(), events.FinishStep, "step failed: a: it broke")
		end.Delivery = &events.Delivery{Branch: "agent/x", Commit: "2", Base: "1", Bundle: "branch.1"}
		b.Append(end)
		return b
	},
	"moved": func() *runtest.Builder {
		b := runtest.New("demo", "moved")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("only")), runtest.Ready("only"), runtest.Allowed("only"), runtest.Paused("to move"))
		b.Append(runtest.Moved(b.State()), runtest.Resumed(), runtest.Turn(1, "only", "Here now."), runtest.StepDone("only", "here"), runtest.PlanDone(1))
		b.Append(runtest.Completed(b.State()))
		return b
	},
	"revised": func() *runtest.Builder {
		b := runtest.New("demo", "revised")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build"), runtest.Step("deploy", "build"), runtest.Step("tell", "deploy")),
			runtest.Ready("build"), runtest.Allowed("build"), runtest.Turn(1, "build", "Built."), runtest.StepDone("build", "Built."),
			runtest.Ready("deploy"), runtest.GateAt("g-deploy", "deploy", ""))
		s := b.State()
		b.Append(runtest.No(s.Gate("g-deploy"), "not to production"), runtest.Paused("gate rejected: not to production"))
		b.Append(runtest.Revised(b.State(), runtest.Step("staging", "build"), runtest.Step("report", "staging")), runtest.Resumed())
		b.Append(runtest.Ready("staging"), runtest.Allowed("staging"), runtest.Turn(2, "staging", "Staged."), runtest.StepDone("staging", "Staged."))
		b.Append(runtest.Ready("report"), runtest.Allowed("report"), runtest.Turn(3, "report", "Reported."), runtest.StepDone("report", "Reported."), runtest.PlanDone(3))
		b.Append(runtest.Completed(b.State()))
		return b
	},
	"retries": func() *runtest.Builder {
		b := runtest.New("demo", "retries")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("only")), runtest.Ready("only"), runtest.Allowed("only"))
		b.Append(runtest.TurnDeferred(1, "only", 1, b.State().UpdatedAt), runtest.TurnDeferred(1, "only", 2, b.State().UpdatedAt))
		b.Append(runtest.Turn(1, "only", "Two at once.", runtest.Asked(1, 1, "bash", `{"command":"curl a"}`), runtest.Asked(1, 2, "bash", `{"command":"curl b"}`)))
		one, two := runtest.Ref("only", "c1-1", "bash"), runtest.Ref("only", "c1-2", "bash")
		b.Append(runtest.CallYes(one, "idempotent"), runtest.CallYes(two, "idempotent"), runtest.CallBegun(one, 1))
		first := b.State().Sequence
		b.Append(runtest.CallDeferred(one, 1, first, b.State().UpdatedAt), runtest.CallBegun(two, 1))
		second := b.State().Sequence
		b.Append(runtest.Paused("maintenance"), runtest.CallDone(two, second, "b"), runtest.Resumed(), runtest.CallBegun(one, 2))
		b.Append(runtest.CallBegun(one, 3)) // the runner's lease ran out, another took over
		third := b.State().Sequence
		b.Append(runtest.CallDone(one, third, "a"), runtest.Turn(2, "only", "Both fetched."), runtest.StepDone("only", "a and b"), runtest.PlanDone(1))
		b.Append(runtest.Completed(b.State()))
		return b
	},
}

// badStories are histories that must be refused: lines, and the words of the refusal.
var badStories = map[string]func() (lines [][]byte, fault string){
	"bad-gap": func() ([][]byte, string) {
		evs := stories["simple"]().Events()
		return append(append([][]byte{}, evs[:5]...), evs[6:]...), "run simple, event 7 (call.allowed): sequence 7 does not follow 5: an event is missing or repeated"
	},
	"bad-hash": func() ([][]byte, string) {
		evs := stories["simple"]().Events()
		changed := append([][]byte{}, evs...)
		changed[7] = bytes.Replace(evs[7], []byte("a bent rim"), []byte("a good rim"), 1)
		return changed, "run simple, event 9 (checkpoint.saved): prevhash is not the hash of the event before: the log was changed"
	},
	"bad-author": func() ([][]byte, string) {
		b := called()
		forged := b.Bad(runtest.CallYes(bash, "once"), func(f *events.Event) { f.Source = events.Source("demo", events.Executor) })
		return append(b.Events(), forged), `run r, event 7 (call.allowed): said by "executor", only gatekeeper may say it`
	},
	"bad-after-end": func() ([][]byte, string) {
		b := stories["failed-step"]()
		return append(b.Events(), b.Bad(runtest.Ready("b"), func(*events.Event) {})), "(step.ready): comes after the end of the run (failed)"
	},
	"bad-old-fence": func() ([][]byte, string) {
		b := called(runtest.CallYes(bash, "once"), runtest.CallBegun(bash, 1), runtest.CallBegun(bash, 2))
		return append(b.Events(), b.Bad(runtest.CallDone(bash, 8, "late"), func(*events.Event) {})), "run r, event 10 (call.finished): fence 8 is not the current fence 9"
	},
	"bad-direct": func() ([][]byte, string) {
		c := runtest.DirectCreated()
		c.Options.Autonomy = 2
		b := runtest.New("demo", "r")
		return [][]byte{b.Bad(c, func(*events.Event) {})}, "run r, event 1 (run.created): autonomy 2 asks a person before the step, so that the run does not take the direct path"
	},
	"bad-version": func() ([][]byte, string) {
		b := running()
		return append(b.Events(), b.Bad(runtest.StepBad("a", "x"), func(f *events.Event) { f.Type = "dev.inspan.step.failed.v2" })), `unknown event type "dev.inspan.step.failed.v2"`
	},
	"bad-torn": func() ([][]byte, string) {
		evs := running().Events()
		return append(append([][]byte{}, evs[:4]...), evs[4][:len(evs[4])/2]), "run r, event 5 (): cannot be read: damaged event"
	},
}

// writeNew writes a file unless it is there.
func writeNew(t *testing.T, name string, content []byte) {
	t.Helper()
	path := filepath.Join(histories, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func writeStories(t *testing.T) {
	t.Helper()
	for name, story := range stories {
		b := story()
		doc, err := json.MarshalIndent(b.State(), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		writeNew(t, name+".jsonl", runtest.Lines(b.Events()))
		writeNew(t, name+".state.json", append(doc, '\n'))
	}
	for name, story := range badStories {
		lines, fault := story()
		writeNew(t, name+".jsonl", runtest.Lines(lines))
		writeNew(t, name+".error.txt", []byte(fault+"\n"))
	}
}

func TestHistories(t *testing.T) {
	t.Parallel()
	if *update {
		writeStories(t)
	}
	files, err := filepath.Glob(filepath.Join(histories, "*.jsonl"))
	if err != nil || len(files) < len(stories)+len(badStories) {
		t.Fatalf("got %d histories, %v; want at least %d: make them with go test ./pkg/run -update", len(files), err, len(stories)+len(badStories))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		evs := runtest.Split(b)
		if strings.HasPrefix(name, "bad-") {
			t.Run("SAFE-2 EVT-8 the history "+name+" is refused in the words that stand beside it", func(t *testing.T) {
				t.Parallel()
				want, err := os.ReadFile(filepath.Join(histories, name+".error.txt"))
				if err != nil {
					t.Fatal(err)
				}
				got, err := run.Fold(run.State{}, evs...)
				if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(string(want))) {
					t.Errorf("got %v, want an error with %q", err, strings.TrimSpace(string(want)))
				}
				if got.Sequence != 0 {
					t.Errorf("got a state at %d, want none", got.Sequence)
				}
			})
			continue
		}
		t.Run("EVT-1 the history "+name+" folds to the state that stands beside it, for ever", func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(filepath.Join(histories, name+".state.json"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := run.Fold(run.State{}, evs...)
			if err != nil {
				t.Fatal(err)
			}
			holds(t, "state", generic(t, []byte(document(t, s))), generic(t, want))
			if !s.Status.Ended() {
				t.Errorf("the run is %s, want a whole run", s.Status)
			}
		})
	}
}
