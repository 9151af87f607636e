package sim

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// final judges where everything stands after the last thing happened.
func (a *audit) final() {
	for _, r := range a.w.play.Scene.Runs {
		a.standsStill(r.ID)
		a.viewsAgree(r.ID)
		a.checkpointsAreExact(r.ID)
		a.noGateOverdue(r.ID)
		a.resultsAreReal(r.ID)
		a.noTimeoutHidesAStall(r.ID)
	}
	a.nothingIsLost()
	a.sessionIsWhole()
	a.itemIsWhole()
	a.boxIsWhole()
	a.treesAreWhole()
	a.branchesAreWhole()
	if a.calm() {
		a.allDone()
	}
}

// calm reports whether nothing in the play could go wrong or be said against it.
func (a *audit) calm() bool {
	return a.w.play.Inject == nil && a.w.play.Trouble == (Trouble{Events: a.w.play.Trouble.Events}) && !a.w.play.Scene.Rude && a.w.play.Scene.Leave == 0 && a.w.play.Scene.meek()
}

// standsStill holds that a run has ended, or stands in a wait that its log declares.
func (a *audit) standsStill(id string) {
	s := a.w.state[id]
	if s.Sequence == 0 || s.Status.Ended() || len(s.Waiting()) > 0 || s.Status == events.Paused {
		return
	}
	a.breaks("run %s is %s at #%d and no one owes it anything: %s", id, s.Status, s.Sequence, a.w.standing())
}

// viewsAgree holds that the index and the fold of the log from its beginning say the same.
func (a *audit) viewsAgree(id string) {
	var s run.State
	for _, r := range a.w.st.Log(id) {
		next, err := s.Apply(r.Bytes)
		if err != nil {
			a.breaks("run %s: the log does not fold: %v", id, err)
			return
		}
		s = next
	}
	if s.Sequence == 0 {
		return
	}
	if !same(s, a.w.state[id]) {
		a.breaks("run %s: folding the same log twice gives two states", id)
		return
	}
	b, err := a.w.st.KV(topology.StateBucket).Get(context.Background(), "run."+id)
	if err != nil {
		a.breaks("run %s has no row in the index: %v", id, err)
		return
	}
	var row run.Info
	if err := json.Unmarshal(b, &row); err != nil {
		a.breaks("run %s: its row: %v", id, err)
		return
	}
	if want := run.InfoOf(s); row.Status != want.Status || len(row.Gates) != len(want.Gates) || row.ToolCallCount != want.ToolCallCount {
		a.breaks("run %s: its row says %s with %d gates and %d calls at #%d, the log %s with %d and %d at #%d", id,
			row.Status, len(row.Gates), row.ToolCallCount, row.Sequence, want.Status, len(want.Gates), want.ToolCallCount, want.Sequence)
	}
	if s.Status.Ended() && row.Archive == nil {
		a.breaks("run %s has ended and has no archive", id)
	}
}

// checkpointsAreExact holds PERS-1: the end of each step is one checkpoint, with the next number and a name of its own,
// whatever was delivered twice, late or to whom that died.
func (a *audit) checkpointsAreExact(id string) {
	s := a.w.state[id]
	if s.Plan == nil || s.Direct() || !s.Options.EternalEngine {
		return
	}
	names := map[string]int{}
	for i, c := range run.All(s.Checkpoints) {
		if names[c.Name]++; names[c.Name] > 1 || c.Number != i+1 {
			a.breaks("run %s: checkpoint %d is %+v", id, i+1, c)
		}
	}
	ended := 0
	for _, r := range a.w.st.Log(id) {
		f, err := events.Decode(r.Bytes)
		if err != nil {
			return // reported by others
		}
		if k, err := f.Kind(); err == nil && (k == events.StepFinished || k == events.StepFailed || k == events.CheckpointTaken) {
			ended++
		}
	}
	if ended != s.Checkpoints.Len() || ended != s.CheckpointCount {
		a.breaks("run %s: %d steps ended or intervals were over, and there are %d checkpoints, the last of number %d", id, ended, s.Checkpoints.Len(), s.CheckpointCount)
	}
}

func same(a, b run.State) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// resultsAreReal holds that a result in the log is that of an effect that took place, and that every effect of a call
// that never ended belongs to a run that did.
func (a *audit) resultsAreReal(id string) {
	for _, r := range a.w.st.Log(id) {
		if r.Kind != "" && r.Kind != events.CallFinished {
			continue
		}
		_, p, err := events.Read(r.Bytes)
		if err != nil {
			return // told by others
		}
		d, ok := p.(*events.CallFinishedData)
		if !ok || !d.Success || answered(d.Tool) { // no success either where a hook held it back
			continue
		}
		_, output := cutNews(d.Output)
		if text, ok := strings.CutPrefix(output, "[server "+serverName+" was started "); ok {
			a.w.tale.counts["results after a lost server"]++
			_, output, _ = strings.Cut(text, "]\n")
		}
		n, ok := effectOf(output)
		if !ok || n >= len(a.w.tools.effects) {
			a.breaks("run %s: call %s finished with %q", id, d.Call, d.Output)
			return
		}
		if e := a.w.tools.effects[n]; e.run != id || e.call != d.Call {
			a.breaks("run %s: call %s finished with the result of call %s of run %s", id, d.Call, e.call, e.run)
		}
	}
}

// nothingIsLost holds that every task and every answer is in the log or on the dead-letter list.
func (a *audit) nothingIsLost() {
	dead := map[uint64]bool{}
	for _, d := range a.w.st.Dead() {
		dead[d.Letter.Seq] = true
		if d.Letter.Code == "integrity_hold" {
			a.breaks("a sound log was held: %s", d.Letter.Reason)
		}
	}
	for input, id := range a.w.person.tasks {
		if a.w.state[id].Sequence == 0 && !dead[input] {
			a.breaks("task %s (input %d) is neither a run nor refused", id, input)
		}
	}
	for input, said := range a.w.person.answers {
		if l := a.runs[said.run]; !dead[input] && (l == nil || !l.inputs[input]) {
			a.breaks("answer %s to %s (input %d) is neither in the log nor refused", said.decision, said.gate, input)
		}
	}
}

// allDone holds that a play without trouble does all that was asked, once.
func (a *audit) allDone() {
	for _, r := range a.w.play.Scene.Runs {
		if r.Kid || r.OfItem || r.OfAgent {
			continue
		}
		if a.w.state[r.ID].Status != events.Completed {
			a.breaks("run %s is %s although nothing went wrong", r.ID, a.w.state[r.ID].Status)
		}
		if r.Budget < 20 {
			continue
		}
		for _, st := range r.Steps {
			for _, c := range slices.Concat(st.Turns...) {
				if c.Kid == "" { // else no tool does it
					a.didOnce(r, c)
				}
			}
		}
	}
}

func (a *audit) didOnce(r SceneRun, c SceneCall) {
	n := 0
	for _, e := range a.w.tools.effects {
		if e.n == c.N && !e.verify {
			n++
		}
	}
	want := 1
	if c.Breaks || c.Wrong || c.Tool == "nothing" || c.Fails > r.Retries {
		want = 0
	}
	if n != want {
		a.breaks("run %s: %s %d took effect %d times, want %d, although nothing went wrong", r.ID, c.Tool, c.N, n, want)
	}
}
