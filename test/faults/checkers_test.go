//go:build slow

package faults

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/test/faults/effects"
	"github.com/inspan/inspan/test/robust/report"
)

// TestCheckers shows the checkers what must not be: a checker that finds nothing in it proves nothing.
func TestCheckers(t *testing.T) {
	b := runtest.New(stationName, "r")
	ref := runtest.Ref("a", "c1-1", "note_once")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
		runtest.Turn(1, "a", "go", runtest.Asked(1, 1, "note_once", `{}`)), runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
	b.Append(runtest.CallDone(ref, b.State().Sequence, "ok"))
	seen := view{node: "n1", events: map[string][]kernel.Record{}}
	for i, f := range b.Events() {
		seen.events["r"] = append(seen.events["r"], kernel.Record{Seq: uint64(i + 1), Bytes: f})
	}
	line := func(moment, key string) effects.Line {
		return effects.Line{Moment: moment, Class: tool.Once, Run: "r", Call: "c1-1", Key: key}
	}
	good := []effects.Line{line(effects.Begin, "k"), line(effects.Effect, "k"), line(effects.End, "k")}
	ev := seen.events["r"][2]
	short := view{node: "n2", events: map[string][]kernel.Record{"r": seen.events["r"][:3]}}
	now := time.Now()
	claimed := func(head, seq uint64) porcupine.Operation {
		return porcupine.Operation{Input: claim{run: "r", head: head}, Output: seq, Call: 1, Return: 2}
	}
	answered := func(by, winner string, at int64) porcupine.Operation {
		return porcupine.Operation{Input: answer{run: "r", gate: "g", by: by, decision: "approve"}, Output: winner, Call: at, Return: at + 1}
	}
	for _, c := range []struct {
		name, want string
		check      func(v *verdicts)
	}{
		{"what is right", "", func(v *verdicts) { seen.join(good, v); seen.same(seen, v) }},
		{"a second effect", "took effect 2 times", func(v *verdicts) { seen.join(append(good, good[1]), v) }},
		{"a second key", "had two keys", func(v *verdicts) { seen.join(append(good, line(effects.Verify, "other")), v) }},
		{"a second beginning", "was announced 1 times", func(v *verdicts) { seen.join(append(good, good[0]), v) }},
		{"a result without an effect", "never was", func(v *verdicts) { seen.join(good[:1], v) }},
		{"an event that is gone", "is not in the log", func(v *verdicts) {
			short.lost(map[string]map[uint64][32]byte{"r": {9: sha256.Sum256(ev.Bytes)}}, v)
		}},
		{"an event that is another", "is not in the log", func(v *verdicts) { seen.lost(map[string]map[uint64][32]byte{"r": {3: {1}}}, v) }},
		{"replicas that differ", "their bytes differ", func(v *verdicts) { seen.same(short, v) }},
		{"two claims behind one event", "not linearizable", func(v *verdicts) {
			linear(v, "SAFE-4", "claims", claimModel, []porcupine.Operation{claimed(0, 1), claimed(0, 2)})
		}},
		{"two winners of a gate", "not linearizable", func(v *verdicts) {
			linear(v, "GATE-9", "gates", gateModel, []porcupine.Operation{answered("a", "a approved", 1), answered("b", "b approved", 5)})
		}},
		{"a late winner", "not linearizable", func(v *verdicts) {
			linear(v, "GATE-9", "gates", gateModel, []porcupine.Operation{answered("a", "b approved", 1), answered("b", "b approved", 5)})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &verdicts{part: &report.Part{}, said: map[string]bool{}}
			c.check(v)
			got := strings.Join(v.part.Violations, "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("violations %q, want %q", got, c.want)
			}
		})
	}
	if d, ok := after([]time.Time{now, now.Add(time.Second)}, now.Add(time.Millisecond)); !ok || d != 999*time.Millisecond {
		t.Errorf("recovery %s %v", d, ok)
	}
	if got := (view{}).count(); got != 0 || b.State().Status != events.Running {
		t.Errorf("count %d", got)
	}
}
