package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ask is one call that a planned model asks for.
type ask struct {
	tool string
	args map[string]any
}

func shell(text string) ask { return ask{"bash", map[string]any{"command": text}} }
func beyond(text string) ask {
	return ask{"bash", map[string]any{"command": text, "run_in_background": true}}
}
func output(handle string) ask {
	return ask{"bash_output", map[string]any{"bash_id": handle, "wait_ms": 20_000}}
}
func kill(handle string) ask { return ask{"kill_shell", map[string]any{"shell_id": handle}} }

// inTurns is a model that asks for one list of calls after the other and then says done.
func inTurns(t testing.TB, turns ...[]ask) *received {
	return &received{planned: func(req llm.Request) llm.Answer {
		n := req.Meta.Turn
		if n > len(turns) {
			return llm.Answer{Text: "done"}
		}
		var a llm.Answer
		for i, c := range turns[n-1] {
			input, err := json.Marshal(c.args)
			if err != nil {
				t.Error(err)
			}
			a.Calls = append(a.Calls, llm.Call{ID: fmt.Sprint("t", n, "-", i), Name: c.tool, Input: input})
		}
		return a
	}}
}

func one(all ...ask) [][]ask {
	var turns [][]ask
	for _, a := range all {
		turns = append(turns, []ask{a})
	}
	return turns
}

// backgrounder is an agent that may run commands in the background.
func backgrounder() events.Agent {
	return events.Agent{Name: "runner", Model: "heard/x", Tools: []string{"bash", "bash_output", "kill_shell"}}
}

// forever is a command that never ends and can be told from all others of the machine.
func forever() string {
	return fmt.Sprintf("sleep %d.%09d", 100_000+rand.IntN(900_000), rand.IntN(1_000_000_000))
}

// living counts the processes of this machine whose command line holds all words of a text.
func living(text string) int {
	n := 0
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		b, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && strings.TrimSuffix(strings.ReplaceAll(string(b), "\x00", " "), " ") == text {
			n++
		}
	}
	return n
}

// livingUntil waits until that many processes of a command live.
func (w *world) livingUntil(text string, want int) {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx := w.ctx()
	for living(text) != want {
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("%d processes %q live, want %d", living(text), text, want)
		}
	}
}

// results are those of all calls of a run, in order of their ends.
func results(s run.State) []string {
	var all []string
	for _, r := range run.Slice(s.ToolCallHistory) {
		all = append(all, r.Result)
	}
	return all
}

func TestBackground(t *testing.T) {
	t.Parallel()
	for _, backend := range []sandbox.Backend{host.New(""), bwrap.New("", "")} {
		t.Run("TOOL-10 TOOL-22 SBX-2 SBX-15 a command runs beyond its call, is read on from where it was read, listed, ended, and what is left ends with the step: "+string(backend.Mode()), func(t *testing.T) {
			t.Parallel()
			sandboxtest.Need(t, backend)
			w := newWorld(t)
			w.tune = func(c *service.Config) { c.Sandbox = string(backend.Mode()) }
			sleeps, rest := forever(), forever()
			w.ports.Models = inTurns(t, one(
				beyond("cd sub 2>/dev/null; echo first >&2; echo mine > $TMPDIR/note; while [ ! -e go ]; do sleep 0.02; done; echo second; (setsid "+sleeps+" &); "+sleeps),
				output("bg-c1-1"),
				shell("cat $TMPDIR/note; touch go"),
				output("bg-c1-1"),
				ask{"bash_output", map[string]any{}},
				kill("bg-c1-1"),
				output("bg-c1-1"),
				kill("bg-c1-1"),
				beyond(rest),
				output("bg-c7-1"),
				ask{"bash_output", map[string]any{"bash_id": "bg-c1-1", "filter": "("}},
			)...)
			w.agent(backgrounder(), "")
			w.start()
			w.task(events.Task{ID: "beyond", Agent: "runner", Task: "go"})
			s := w.ended("beyond")
			if s.Status != events.Completed || s.ToolCallHistory.Len() != 11 {
				t.Fatalf("%+v\n%s", s.Result, w.story("beyond"))
			}
			for i, want := range []string{"Started in the background as bg-c1-1", "first\n", "mine\n", "second\n", "bg-c1-1 has been running for", "ended by kill_shell", "(no new output)", "ended by kill_shell",
				"as bg-c9-1", "no command of this step has the handle \"bg-c7-1\"", "invalid regular expression"} {
				if got := results(s)[i]; !strings.Contains(got, want) {
					t.Errorf("call %d: %q, want %q in it", i+1, got, want)
				}
			}
			if got := results(s)[3]; strings.Contains(got, "\nfirst") {
				t.Errorf("what was read is shown again: %q", got)
			}
			started := said[*events.CallFinishedData](w, "beyond")[0].Background
			if started == nil || started.ID != "bg-c1-1" || started.Runner == "" {
				t.Errorf("the event says %+v", started)
			}
			if n := living(sleeps); n != 0 {
				t.Errorf("%d processes outlive kill_shell", n)
			}
			w.livingUntil(rest, 0)
		})
	}
	t.Run("TOOL-10 an agent that cannot read or end it starts nothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		sleeps := forever()
		w.ports.Models = inTurns(t, one(beyond(sleeps))...)
		a := backgrounder()
		a.Tools = []string{"bash", "bash_output"}
		w.agent(a, "")
		w.start()
		w.task(events.Task{ID: "may-not", Agent: "runner", Task: "go"})
		s := w.ended("may-not")
		if r := s.ToolCallHistory.At(0); r.Code != "denied" || !strings.Contains(r.Hint, "kill_shell") || living(sleeps) > 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestBackgroundEnds ends a run in each way while a command is in the background.
func TestBackgroundEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		task   events.Task
		second ask
		end    func(w *world)
		want   events.Status
	}{
		"stop":    {second: shell("sleep 600"), want: events.Failed, end: func(w *world) { w.publish("station.test.run.ends.control", `{"action":"stop"}`) }},
		"timeout": {task: events.Task{Timeout: "2s"}, second: shell("sleep 600"), want: events.Failed, end: func(*world) {}},
		"success": {second: shell("true"), want: events.Completed, end: func(*world) {}},
		"failure": {task: events.Task{MaxSteps: new(int)}, second: shell("true"), want: events.Failed, end: func(*world) {}},
	} {
		t.Run("SBX-15 TOOL-22 nothing of the background outlives its run: "+name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			sleeps := forever()
			w.ports.Models = inTurns(t, one(beyond("(setsid "+sleeps+" >/dev/null 2>&1 &); "+sleeps), output("bg-c1-1"), c.second)...)
			w.agent(backgrounder(), "")
			w.start()
			c.task.ID, c.task.Agent, c.task.Task = "ends", "runner", "go"
			if c.task.MaxSteps != nil {
				*c.task.MaxSteps = 2
			}
			w.task(c.task)
			if name == "stop" {
				w.livingUntil(sleeps, 2)
				c.end(w)
			}
			if s := w.ended("ends"); s.Status != c.want {
				t.Errorf("%s: %+v", s.Status, s.Result)
			}
			w.livingUntil(sleeps, 0)
		})
	}
	t.Run("SBX-15 TOOL-22 the end of the toolrunner ends it too, and a paused run keeps it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		sleeps := forever()
		thinks := make(chan struct{})
		m := inTurns(t, one(beyond(sleeps))...)
		plan := m.planned
		m.planned = func(req llm.Request) llm.Answer {
			if req.Meta.Turn == 2 {
				<-thinks
			}
			return plan(req)
		}
		w.ports.Models = m
		w.agent(backgrounder(), "")
		others := w.start(events.Planner, events.Gatekeeper, events.Executor)
		hands := w.start(events.Toolrunner)
		w.task(events.Task{ID: "rests", Agent: "runner", Task: "go"})
		w.livingUntil(sleeps, 1)
		w.await("rests", "told", func(s run.State) bool { return s.ToolCallHistory.Len() == 1 })
		w.publish("station.test.run.rests.control", `{"action":"pause"}`)
		w.await("rests", "paused", func(s run.State) bool { return s.Status == events.Paused })
		if living(sleeps) != 1 {
			t.Error("it ended with the pause")
		}
		hands.stop()
		if n := living(sleeps); n != 0 {
			t.Errorf("%d processes outlive their toolrunner", n)
		}
		close(thinks)
		others.stop()
	})
}

// TestBackgroundMoves has several toolrunners.
func TestBackgroundMoves(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10 SAFE-7 with three toolrunners each call finds the one where its command is", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		turns := one(beyond("while :; do echo tick; sleep 0.05; done"))
		for range 8 {
			turns = append(turns, []ask{output("bg-c1-1"), shell("ls $TMPDIR/.. >/dev/null && echo $TMPDIR")})
		}
		w.ports.Models = inTurns(t, append(turns, []ask{kill("bg-c1-1")})...)
		w.agent(backgrounder(), "")
		w.start()
		w.start(events.Toolrunner)
		w.start(events.Toolrunner)
		w.task(events.Task{ID: "many", Agent: "runner", Task: "go"})
		s := w.ended("many")
		tmp := map[string]bool{}
		for i, r := range results(s) {
			call := s.ToolCallHistory.At(i)
			switch {
			case call.CallName == "bash_output" && !strings.Contains(r, "tick\n"):
				t.Errorf("call %s: %q", call.ID, r)
			case call.CallName == "bash" && i > 0:
				tmp[r] = true
			}
		}
		if s.Status != events.Completed || len(tmp) != 1 {
			t.Errorf("%+v, shells had the places %v", s.Result, tmp)
		}
	})
	for _, mode := range []string{"local", "follow"} {
		t.Run("TOOL-10 SAFE-7 SBX-15 what was lost with its toolrunner is told as lost, is not started again, and ends: "+mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			sleeps := forever()
			on := make(chan struct{})
			m := inTurns(t, one(beyond("echo once >> ran; "+sleeps), output("bg-c1-1"), kill("bg-c1-1"), ask{"bash_output", map[string]any{}}, shell("cat ran"))...)
			plan := m.planned
			m.planned = func(req llm.Request) llm.Answer {
				if req.Meta.Turn == 2 {
					<-on
				}
				return plan(req)
			}
			w.ports.Models = m
			w.agent(backgrounder(), "")
			w.start(events.Planner, events.Gatekeeper, events.Executor)
			g := &graves{Leases: w.ports.Leases}
			root := func(n int) string {
				if mode == "local" {
					return "both"
				}
				return strconv.Itoa(n)
			}
			first := g.on(w, mode, root(1))
			w.task(events.Task{ID: "lost", Agent: "runner", Task: "go"})
			w.livingUntil(sleeps, 1)
			w.await("lost", "told", func(s run.State) bool { return s.ToolCallHistory.Len() == 1 })
			g.on(w, mode, root(2))
			first.lose()
			close(on)
			s := w.ended("lost")
			if s.Status != events.Completed {
				t.Fatalf("%+v\n%s", s.Result, w.story("lost"))
			}
			for i, want := range []string{"Started", "lost with its toolrunner " + first.instance, "lost with its toolrunner", "lost with its toolrunner", map[string]string{"local": "once\n", "follow": ""}[mode]} {
				if got := results(s)[i]; !strings.Contains(got, want) {
					t.Errorf("call %d: %q, want %q in it", i+1, got, want)
				}
			}
			if n := strings.Count(results(s)[4], "once"); n > 1 {
				t.Errorf("it ran %d times", n)
			}
			w.livingUntil(sleeps, 0) // the toolrunner that is taken for lost sees to it
		})
	}
	t.Run("WS-3 SBX-15 where workspaces follow, what the background wrote last is kept with the workspace", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.Drain = time.Minute } // a busy machine keeps a tree slowly
		w.ports.Models = inTurns(t, one(beyond("while [ ! -e go ]; do sleep 0.02; done; sleep 1; echo late > late.txt"), shell("touch go"), output("bg-c1-1"))...)
		w.agent(backgrounder(), "")
		w.start(events.Planner, events.Gatekeeper, events.Executor)
		g := &graves{Leases: w.ports.Leases}
		first := g.on(w, "follow", "one")
		w.task(events.Task{ID: "in-1", Agent: "runner", Task: "go", Session: "s"})
		if s := w.ended("in-1"); s.Status != events.Completed {
			t.Fatalf("%+v", s.Result)
		}
		w.sessionOf("s", "free", free)
		first.stop()
		g.on(w, "follow", "two")
		w.ports.Models.(*received).planned = inTurns(t, one(shell("cat late.txt"))...).planned
		w.task(events.Task{ID: "in-2", Agent: "runner", Task: "go", Session: "s"})
		if s := w.ended("in-2"); !strings.Contains(results(s)[0], "late\n") {
			t.Errorf("%q", results(s))
		}
	})
}

func TestBackgroundLimits(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-14 TOOL-10 a run has no more than eight at a time, and their output is kept in bounds and told where it is not", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		sleeps := forever()
		var many []ask
		for i := range 9 {
			many = append(many, beyond(fmt.Sprintf("%s; : %d", sleeps, i)))
		}
		w.ports.Models = inTurns(t, many, []ask{kill("bg-c1-1"), kill("bg-c1-2"), kill("bg-c1-3"), kill("bg-c1-4"), kill("bg-c1-5"), kill("bg-c1-6"), kill("bg-c1-7"), kill("bg-c1-8"), kill("bg-c1-9")},
			[]ask{beyond("echo the beginning; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the end")},
			[]ask{shell("until [ $(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'head -c 3000000[0]') = 0 ]; do sleep 0.1; done; sleep 0.5")},
			[]ask{output("bg-c3-1")})
		w.tune = func(c *service.Config) { c.Workers = 4 }
		w.agent(backgrounder(), "")
		w.start()
		w.task(events.Task{ID: "many", Agent: "runner", Task: "go"})
		s := w.ended("many")
		refused := 0
		for _, r := range run.Slice(s.ToolCallHistory) {
			if r.Turn == 1 && r.Outcome == run.OutcomeFailed {
				refused++
				if !strings.Contains(r.Result, "this run has 8 background commands") || !strings.Contains(r.Hint, "kill_shell") {
					t.Errorf("%+v", r)
				}
			}
		}
		if refused != 1 {
			t.Errorf("%d of 9 were refused\n%s", refused, w.story("many"))
		}
		last := s.ToolCallHistory.At(s.ToolCallHistory.Len() - 1)
		if !strings.Contains(last.Result, "bytes are no longer retained") || !strings.Contains(last.Result, "\nthe end\n") || strings.Contains(last.Result, "\nthe beginning") ||
			last.ResultRef == nil || last.ResultRef.Size > 1<<20+4096 {
			t.Errorf("%d bytes, %+v: %.300q", len(last.Result), last.ResultRef, last.Result)
		}
		w.livingUntil(sleeps, 0)
	})
}
