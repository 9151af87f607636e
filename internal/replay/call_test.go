package replay_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/replay"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestCallEnds(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-6 the failure of a call is decided as it was, with all that is said of it", func(t *testing.T) {
		t.Parallel()
		full := call.Failure{Error: "no", Class: "transient", Hint: "try", Transient: true, RetryAfter: 9_000_000, Took: 7_000_000, Usage: &events.Usage{Commands: 1, UserMS: 2},
			Hooks: []events.HookAnswer{{Hook: "h", Answer: "allow"}}}
		complete(t, full)
		again(t, func(s run.State, a call.Attempt) []events.Payload { return call.Fail(s, a, full, time.Now()) })
		full.Transient, full.Class = false, "permanent"
		again(t, func(s run.State, a call.Attempt) []events.Payload { return call.Fail(s, a, full, time.Now()) })
	})
	t.Run("PLUS-6 the end of a call is decided as it was, with all that is said of it", func(t *testing.T) {
		t.Parallel()
		zero := 0
		full := call.Result{Output: "out", Ref: &events.Ref{SHA256: "1", Size: 9, Type: "output"}, Images: []events.Image{{}}, Success: true, ExitCode: &zero,
			Took: 7_000_000, Reconciled: true, Usage: &events.Usage{Commands: 1, UserMS: 2}, Notes: "sub/AGENTS.md", Dir: "sub", Background: &events.Background{ID: "bg-c", Runner: "t", At: 3}, Uncommitted: &events.Uncommitted{Paths: 2}, Hooks: []events.HookAnswer{{Hook: "h", Answer: "allow"}}}
		complete(t, full)
		again(t, func(s run.State, a call.Attempt) []events.Payload { return call.Finish(s, a, full) })
	})
}

// complete reports fields that a test leaves out.
func complete(t *testing.T, of any) {
	t.Helper()
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("this test says nothing of %s", v.Type().Field(i).Name)
		}
	}
}

// again ends a call that runs in bwrap, and expects that to be decided again as it was.
func again(t *testing.T, end func(run.State, call.Attempt) []events.Payload) {
	t.Helper()
	b := runtest.New("main", "r")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
		runtest.Turn(1, "a", "do", runtest.Asked(1, 1, "bash", `{"command":"make"}`)))
	b.Append(runtest.CallYes(runtest.Ref("a", "c1-1", "bash"), "once"), runtest.CallBegun(runtest.Ref("a", "c1-1", "bash"), 1))
	before := b.State().Sequence
	c := *b.State().Open["c1-1"]
	b.Append(end(b.State(), call.Attempt{Call: c, Number: 1, Fence: c.Fence, Sandbox: "bwrap"})...)
	law := replay.Policy{Knows: func(events.Agent, string) bool { return false }} // verdicts are taken as they were
	rep, err := replay.Log(t.Context(), law, bytes.NewReader(runtest.Lines(b.Events())))
	if err != nil || rep.Refused != nil || b.State().Sequence != before+1 {
		t.Fatal(err, rep.Refused)
	}
	for _, change := range rep.Changes {
		if change.Sequence > before {
			t.Errorf("%s", change)
		}
	}
}
