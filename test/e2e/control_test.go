package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// probe is a tool of the test: it counts its attempts and does what the test says.
type probe struct {
	name     string
	effect   tool.Effect
	limit    time.Duration // of one attempt; zero means the default
	attempts atomic.Int64
	keys     chan string
	do       func(ctx context.Context, attempt int64, c tool.Call) (tool.Result, error)
}

func (p *probe) Spec() tool.Spec {
	return tool.Spec{Name: p.name, Description: "a probe", Effect: p.effect, Timeout: p.limit, Input: json.RawMessage(`{"type":"object"}`)}
}

func (p *probe) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	return p.do(ctx, p.attempts.Add(1), c)
}

// calling is a script that calls one tool and then ends.
func calling(name, input string) string {
	return fmt.Sprintf("turns:\n  - when: {turn: 1}\n    calls:\n      - {name: %s, input: %s}\n  - when: {turn: 2}\n    text: \"Result: {{result.1}}\"\n", name, input)
}

func TestControl(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 8)
	ended := make(chan error, 8)
	// Its own limit is far beyond that of the test, so what ends it is the end of its run or nothing.
	slow := &probe{name: "slow", effect: tool.Once, limit: 24 * time.Hour, do: func(ctx context.Context, _ int64, _ tool.Call) (tool.Result, error) {
		began <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return tool.Result{}, ctx.Err()
	}}
	gate := make(chan struct{})
	held := &probe{name: "held", effect: tool.Once, do: func(ctx context.Context, _ int64, _ tool.Call) (tool.Result, error) {
		began <- struct{}{}
		select {
		case <-gate:
			return tool.Result{Output: "let go"}, nil
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
	}}
	w := newWorld(t, slow, held)
	w.agent(events.Agent{Name: "slow", Tools: []string{"slow"}}, calling("slow", "{}"))
	w.agent(events.Agent{Name: "held", Tools: []string{"held"}}, calling("held", "{}"))
	w.agent(events.Agent{Name: "busy", Tools: []string{"bash"}}, calling("bash", `{timeout_ms: 600000, command: "sleep 600 & echo $! $$ > new; mv new pids; exec sleep 600"}`))
	letters := w.letters()
	w.start()
	// cause waits until the tool has ended and returns why.
	cause := func(t *testing.T, w *world) error {
		t.Helper()
		select {
		case err := <-ended:
			return err
		case <-w.ctx().Done():
			t.Fatal("the tool was not ended")
			return nil
		}
	}

	t.Run("LOOP-4f LIFE-7b TOOL-22 stop ends the run and the work itself, not only the waiting for it", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "stop", Agent: "slow", Task: "be slow"})
		<-began
		w.publish("station.test.run.stop.control", `{"action":"stop","by":"anna","reason":"enough"}`)
		s := w.ended("stop")
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishStopped || s.Result.By != "anna" {
			t.Errorf("%s %+v", s.Status, s.Result)
		}
		if err := cause(t, w); !errors.Is(err, runlog.ErrRunEnded) {
			t.Errorf("got the work ended by %v, want by the end of its run", err)
		}
		if n := w.count("stop"); n["call.started"] != 1 || n["call.finished"]+n["call.failed"] != 0 {
			t.Errorf("%v", n)
		}
	})
	t.Run("LIFE-7b TOOL-22 stop ends the processes of a command long before they would end", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "kill", Agent: "busy", Task: "sleep", Session: "kill"})
		pids := w.numbers(filepath.Join(w.dir, "work", "session", "kill", "pids"))
		for _, pid := range pids {
			if !lives(pid) {
				t.Fatalf("process %d of the command ended by itself", pid)
			}
		}
		w.publish("station.test.run.kill.control", `{"action":"stop","by":"anna"}`)
		if s := w.ended("kill"); s.Result.FinishReason != events.FinishStopped {
			t.Errorf("%+v", s.Result)
		}
		for _, pid := range pids {
			w.until(fmt.Sprintf("was process %d of the command gone", pid), func() bool { return !lives(pid) })
		}
	})
	t.Run("LIFE-5 LIFE-6 pause holds back what is new, results are still recorded, resume goes on", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "pause", Agent: "held", Task: "wait"})
		<-began
		w.publish("station.test.run.pause.control", `{"action":"pause","reason":"lunch"}`)
		w.await("pause", "paused", func(s run.State) bool { return s.Status == events.Paused })
		gate <- struct{}{}
		s := w.await("pause", "with its result", func(s run.State) bool { return s.ToolCallHistory.Len() == 1 })
		if s.Status != events.Paused || s.Turns().Len() != 1 {
			t.Errorf("%s after %d turns", s.Status, s.Turns().Len())
		}
		w.publish("station.test.run.pause.control", `{"action":"resume"}`)
		if s := w.ended("pause"); s.Status != events.Completed || s.Result.Output != "Result: let go" {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("LIFE-3 a wrong move is refused with both statuses and leaves the log untouched", func(t *testing.T) {
		w := w.on(t)
		before := len(w.events("pause"))
		w.publish("station.test.run.pause.control", `{"action":"resume"}`)
		if d := w.letter(letters); d.Code != "bad_move" || !strings.Contains(d.Reason, "completed") {
			t.Errorf("%+v", d)
		}
		if after := len(w.events("pause")); after != before {
			t.Errorf("%d events became %d", before, after)
		}
	})
	t.Run("PLUS-3d LOOP-14 LOOP-4c a run whose time is up fails with timeout, and its work is ended", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "timeout", Agent: "slow", Task: "be slow", Timeout: "1500ms"})
		<-began
		s := w.ended("timeout")
		if s.Result.FinishReason != events.FinishTimeout {
			t.Errorf("%+v", s.Result)
		}
		if err := cause(t, w); !errors.Is(err, runlog.ErrRunEnded) {
			t.Errorf("got the work ended by %v, want by the end of its run", err)
		}
	})
}

// lives reports whether a process runs. One that ended and that its parent has not waited for yet does not. Its command
// line would not tell: that is empty too while a process that runs starts another program.
func lives(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	state := string(stat[bytes.LastIndexByte(stat, ')')+1:]) // it follows the name, which is in brackets
	return !strings.HasPrefix(state, " Z") && !strings.HasPrefix(state, " X")
}

func TestTools(t *testing.T) {
	t.Parallel()
	three := 3
	flaky := &probe{name: "flaky", effect: tool.Idempotent, keys: make(chan string, 16)}
	flaky.do = func(_ context.Context, n int64, c tool.Call) (tool.Result, error) {
		flaky.keys <- c.Key
		if n <= 2 {
			return tool.Result{}, tool.Fail(tool.Transient, "", errors.New("network is away"))
		}
		return tool.Result{Output: "third time lucky"}, nil
	}
	hopeless := &probe{name: "hopeless", effect: tool.Once, do: func(context.Context, int64, tool.Call) (tool.Result, error) {
		return tool.Result{}, tool.Fail(tool.Transient, "", errors.New("never works"))
	}}
	broken := &probe{name: "broken", effect: tool.Once, do: func(context.Context, int64, tool.Call) (tool.Result, error) { panic("oh no") }}
	large := &probe{name: "large", effect: tool.Read, do: func(context.Context, int64, tool.Call) (tool.Result, error) {
		return tool.Result{Output: "head of it\n... truncated", Full: []byte(strings.Repeat("x", 3<<20))}, nil
	}}
	w := newWorld(t, flaky, hopeless, broken, large)
	retry := events.Retry{MaxRetries: &three, BaseBackoffMS: 20}
	for _, p := range []*probe{flaky, hopeless, broken, large} {
		w.agent(events.Agent{Name: p.name, Tools: []string{p.name}, Retry: retry}, calling(p.name, "{}"))
	}
	w.agent(events.Agent{Name: "outside", Tools: []string{"read"}}, calling("read", "{path: ../../secret.txt}"))
	w.agent(events.Agent{Name: "sneaky", Tools: []string{"read"}}, calling("read", "{path: link.txt}"))
	w.agent(events.Agent{Name: "stranger", Tools: []string{"read"}}, calling("bash", `{command: "id"}`))
	w.agent(events.Agent{Name: "shell", Tools: []string{"bash"}}, calling("bash", `{command: "echo out; echo err >&2; exit 3"}`))
	w.agent(events.Agent{Name: "hang", Tools: []string{"bash"}}, calling("bash", `{command: "sleep 300 & sleep 300", timeout_ms: 300}`))
	w.agent(events.Agent{Name: "destroyer", Tools: []string{"bash"}}, calling("bash", `{command: "true && git push --force origin main"}`))
	w.agent(events.Agent{Name: "greedy", Tools: []string{"read"}}, "turns:\n  - when: {turn: {from: 1, to: 4}}\n    calls:\n      - {name: read, input: {path: \"n{{turn}}\"}}\n      - {name: read, input: {path: \"m{{turn}}\"}}\n  - when: {turn: 5}\n    text: done\n")
	w.agent(events.Agent{Name: "parallel", Tools: []string{"read"}}, "turns:\n  - when: {turn: 1}\n    calls:\n      - {name: read, input: {path: a}}\n      - {name: read, input: {path: b}}\n      - {name: read, input: {path: c}}\n  - when: {turn: 2}\n    text: \"{{result.3}} {{result.2}} {{result.1}}\"\n")
	w.start()
	run1 := func(w *world, id string, more ...func(*events.Task)) run.State {
		task := events.Task{ID: id, Agent: id, Task: "go", Session: id}
		for _, m := range more {
			m(&task)
		}
		w.task(task)
		return w.ended(id)
	}
	only := func(s run.State) run.CallRecord {
		t.Helper()
		if s.ToolCallHistory.Len() == 0 {
			t.Fatalf("no call ended: %+v", s.Result)
		}
		return s.ToolCallHistory.At(0)
	}
	t.Run("TOOL-3 TOOL-4 a transient failure is tried again later, with the same idempotency key", func(t *testing.T) {
		w := w.on(t)
		s := run1(w, "flaky")
		if rec := only(s); rec.RetryCount != 2 || rec.Result != "third time lucky" || s.TotalToolCalls != 1 {
			t.Errorf("%+v", rec)
		}
		first := <-flaky.keys
		for range 2 {
			if k := <-flaky.keys; k != first || len(k) != 64 {
				t.Errorf("key %q, want %q", k, first)
			}
		}
	})
	t.Run("TOOL-7 when all retries fail that is recorded, with error events before", func(t *testing.T) {
		w := w.on(t)
		s := run1(w, "hopeless")
		if rec := only(s); rec.Outcome != run.OutcomeFailed || rec.RetryCount != 3 || hopeless.attempts.Load() != 4 {
			t.Errorf("%+v after %d attempts", rec, hopeless.attempts.Load())
		}
		if n := w.count("hopeless"); n["call.deferred"] != 3 || n["call.started"] != 4 || n["call.failed"] != 1 {
			t.Errorf("OBS-11: %v", n)
		}
	})
	t.Run("a tool that panics fails its call and nothing else", func(t *testing.T) {
		w := w.on(t)
		if rec := only(run1(w, "broken")); rec.Outcome != run.OutcomeFailed || !strings.Contains(rec.Result, "oh no") {
			t.Errorf("%+v", rec)
		}
	})
	t.Run("SAFE-15 PERS-19 a large output goes to the object store first and is referred to", func(t *testing.T) {
		w := w.on(t)
		rec := only(run1(w, "large"))
		if rec.ResultRef == nil || rec.ResultRef.Size != 3<<20 {
			t.Fatalf("%+v", rec.ResultRef)
		}
		b, err := w.ports.Blobs.Get(w.ctx(), *rec.ResultRef)
		if err != nil || len(b) != 3<<20 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
	t.Run("GUARD-12 WS-12 paths outside the workspace are refused, by text and through links", func(t *testing.T) {
		w := w.on(t)
		if err := os.WriteFile(filepath.Join(w.dir, "work", "secret.txt"), []byte("the secret"), 0o644); err != nil {
			t.Fatal(err)
		}
		if rec := only(run1(w, "outside")); rec.Outcome != run.OutcomeRefused || rec.Code != events.RefusedGuard {
			t.Errorf("%+v", rec)
		}
		dir := filepath.Join(w.dir, "work", "session", "sneaky")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink("../../secret.txt", filepath.Join(dir, "link.txt"))); err != nil {
			t.Fatal(err)
		}
		if rec := only(run1(w, "sneaky")); rec.Success || strings.Contains(rec.Result, "the secret") {
			t.Errorf("%+v", rec)
		}
	})
	t.Run("TOOL-1 PROP-6 a tool outside the allowed set is refused and never executed", func(t *testing.T) {
		w := w.on(t)
		if rec := only(run1(w, "stranger")); rec.Code != events.RefusedPermission || w.count("stranger")["call.started"] != 0 {
			t.Errorf("%+v", rec)
		}
	})
	t.Run("TEST-11a TOOL-16 bash gives stdout, stderr and exit status", func(t *testing.T) {
		w := w.on(t)
		rec := only(run1(w, "shell"))
		if rec.Success || !strings.Contains(rec.Result, "out") || !strings.Contains(rec.Result, "err") || !strings.Contains(rec.Result, "3") {
			t.Errorf("%+v", rec)
		}
	})
	t.Run("TOOL-6 TOOL-22 a call past its time is ended with all its processes and recorded as a timeout", func(t *testing.T) {
		w := w.on(t)
		if rec := only(run1(w, "hang")); rec.Outcome != run.OutcomeFailed || rec.Code != "timeout" {
			t.Errorf("%+v", rec)
		}
	})
	t.Run("GUARD-7 GUARD-14 a destructive command in a chain is stopped by the built-in rule, which is recorded", func(t *testing.T) {
		w := w.on(t)
		if rec := only(run1(w, "destroyer")); rec.Code != events.RefusedGuard || rec.Rule != "force-push" {
			t.Errorf("%+v", rec)
		}
	})
	t.Run("TOOL-8 TOOL-9 the budget holds exactly", func(t *testing.T) {
		w := w.on(t)
		five := 5
		s := run1(w, "greedy", func(t *events.Task) { t.MaxToolCalls = &five })
		refused := 0
		for _, r := range run.All(s.ToolCallHistory) {
			if r.Code == events.RefusedBudget {
				refused++
			}
		}
		if s.TotalToolCalls != 5 || refused != 3 || s.BudgetLeft() != 0 {
			t.Errorf("%d executed, %d refused, %d left", s.TotalToolCalls, refused, s.BudgetLeft())
		}
	})
	t.Run("LOOP-12 all results of a turn are in before the next one, in the order of the calls", func(t *testing.T) {
		w := w.on(t)
		for _, f := range []string{"a", "b", "c"} {
			w.file("session/parallel", f, "content of "+f)
		}
		s := run1(w, "parallel")
		out := s.Result.Output
		if a, b, c := strings.Index(out, "content of a"), strings.Index(out, "content of b"), strings.Index(out, "content of c"); a < 0 || b < a || c < b {
			t.Errorf("%q", out)
		}
	})
}
