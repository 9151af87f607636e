package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// flowTask is a task of a formula of which only the steps are given.
func flowTask(t *testing.T, id, steps string) events.Task {
	t.Helper()
	return compiled(t, id, "formula = \"f\"\n[vars.list]\ntype = \"array\"\ndefault = [\"x\", \"y\", {n = 3}]\n[defaults]\nagent = \"says\"\n"+steps)
}

// statuses of the steps of a run, in the order of the plan.
func statuses(s run.State) string {
	var all []string
	for _, st := range s.Plan.Steps {
		all = append(all, st.ID+" "+string(st.Status))
	}
	return strings.Join(all, ", ")
}

func TestFlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "says"}, `
turns:
  - {when: {step: list}, text: '{"files": ["a.go", "b.go", "c.go"], "n": 2}'}
  - {when: {message: {contains: "about one item of a list"}}, text: "did {{step}}"}
  - {when: {step: rounds-3}, text: '{"left": 0}'}
  - {when: {message: {contains: "one round"}}, text: '{"left": 1}'}
  - text: "said {{step}}"
`)
	w.agent(events.Agent{Name: "flaky"}, `
turns:
  - {when: {step: try-3}, text: "third time"}
  - error: {class: invalid, message: no such thing}
`)
	w.agent(events.Agent{Name: "wrong"}, "turns:\n  - {text: \"no\", finish: refusal}\n")
	w.agent(events.Agent{Name: "slow"}, "turns:\n  - {when: {step: late-2}, text: \"in time\"}\n  - {text: \"too late\", delay: 20s}\n")
	w.agent(events.Agent{Name: "plans", Plan: "model"}, `
turns:
  - when: {purpose: plan, message: {contains: "a model cannot set flow"}}
    text: '{"steps":[{"id":"a","description":"one","agent":"says"}]}'
  - when: {purpose: plan}
    text: '{"steps":[{"id":"a","description":"one","agent":"says","flow":{"kind":"approval","approval":{"timeout_ms":1,"on_timeout":"approve"}}}]}'
  - text: never
`)
	w.start()
	completed := func(t *testing.T, w *world, task events.Task) run.State {
		t.Helper()
		w.task(task)
		s := w.ended(task.ID)
		if s.Status != events.Completed {
			t.Fatalf("%s: %s %+v\n%s\n%s", task.ID, s.Status, s.Result, statuses(s), w.story(task.ID))
		}
		return s
	}
	t.Run("FORM-1 a step that failed is tried again, with a wait that is an event, in steps of their own", func(t *testing.T) {
		w := w.on(t)
		s := completed(t, w, flowTask(t, "tries", `[[steps]]
id = "try"
title = "try it"
agent = "flaky"
retry = {max_attempts = 3, backoff = "300ms", factor = 2}
[[steps]]
id = "after"
title = "go on"
needs = ["try"]
`))
		if got, want := statuses(s), "try completed, try-1 failed, try-2 failed, try-3 completed, after completed"; got != want || s.Step("try").Output != "third time" {
			t.Errorf("got %s, want %s", got, want)
		}
		if w.count("tries")["step.expanded"] != 3 || s.Step("try-3").Part.NotBefore.Sub(s.Step("try-2").Part.NotBefore) < 600*time.Millisecond {
			t.Errorf("%v\n%s", s.Step("try-3").Part, w.story("tries"))
		}
	})
	t.Run("a hard failure is not tried again, and soft_fail lets the others go on", func(t *testing.T) {
		w := w.on(t)
		s := completed(t, w, flowTask(t, "soft", `[[steps]]
id = "bad"
title = "refuse"
agent = "wrong"
retry = {max_attempts = 3, on_exhausted = "soft_fail"}
[[steps]]
id = "after"
title = "go on"
when = "steps.bad.status == \"failed\""
`))
		if got, want := statuses(s), "bad failed, bad-1 failed, after completed"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		w.task(flowTask(t, "hard", "[[steps]]\nid = \"bad\"\ntitle = \"refuse\"\nagent = \"wrong\"\nretry = {max_attempts = 2, on = \"any\"}\n"+
			"[[steps]]\nid = \"after\"\ntitle = \"go on\"\nneeds = [\"bad\"]\n"))
		s = w.ended("hard")
		if got, want := statuses(s), "bad failed, bad-1 failed, bad-2 failed, after blocked"; got != want || s.Status != events.Failed ||
			!strings.Contains(s.Result.Error, "bad: attempt 2 of 2") || fmt.Sprint(s.Result.FailedSteps) != "[bad]" {
			t.Errorf("got %s, want %s: %+v", got, want, s.Result)
		}
	})
	t.Run("a timeout ends an attempt, which is transient", func(t *testing.T) {
		w := w.on(t)
		s := completed(t, w, flowTask(t, "late", "[[steps]]\nid = \"late\"\ntitle = \"be slow\"\nagent = \"slow\"\ntimeout = \"500ms\"\nretry = {max_attempts = 2}\n"))
		if got, want := statuses(s), "late completed, late-1 failed, late-2 completed"; got != want || s.Step("late-1").Reason != events.FinishTimeout {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("FORM-1 a step whose condition is false is skipped, and what depends on it goes on", func(t *testing.T) {
		w := w.on(t)
		s := completed(t, w, flowTask(t, "when", `[[steps]]
id = "list"
title = "list them"
[[steps]]
id = "yes"
title = "do"
when = "len(steps.list.output.files) == 3 and steps.list.output.n > 1"
[[steps]]
id = "no"
title = "do not"
when = "\"d.go\" in steps.list.output.files"
[[steps]]
id = "end"
title = "end"
needs = ["yes", "no"]
`))
		if got, want := statuses(s), "list completed, yes completed, no skipped, end completed"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		w.task(flowTask(t, "wrong", "[[steps]]\nid = \"list\"\ntitle = \"list them\"\n[[steps]]\nid = \"a\"\ntitle = \"do\"\nwhen = \"steps.list.output.none > 1\"\n"+
			"[[steps]]\nid = \"b\"\ntitle = \"do\"\nwhen = \"[1 for a in range(90000) for b in range(90000)] and steps.list.output\"\n"))
		s = w.ended("wrong")
		if got, want := statuses(s), "list completed, a failed, b failed"; got != want || !strings.Contains(s.Step("a").Error, `there is no "none"`) ||
			!strings.Contains(s.Step("b").Error, "too many steps") {
			t.Errorf("got %s, want %s: %+v", got, want, s.Result)
		}
	})
	t.Run("FORM-10 for_each makes a step of each item, so many at a time, and joins their outputs", func(t *testing.T) {
		w := w.on(t)
		s := completed(t, w, flowTask(t, "each", `[[steps]]
id = "list"
title = "list them"
[[steps]]
id = "fix"
title = "fix one"
for_each = "steps.list.output.files"
max_concurrency = 1
[[steps]]
id = "all"
title = "x"
for_each = "vars.list"
[[steps]]
id = "sum"
kind = "set"
value = "{\"n\": len(steps.fix.output), \"last\": steps.all.output[2]}"
`))
		if got := s.Step("fix").Output; got != `["did fix-1","did fix-2","did fix-3"]` || s.Step("sum").Output != `{"last":"did all-3","n":3}` {
			t.Errorf("got %s, %s\n%s", got, s.Step("sum").Output, w.story("each"))
		}
		if s.Step("fix-2").AllowedAt < s.Step("fix-1").AllowedAt || string(s.Step("all-3").Part.Item) != `{"n":3}` {
			t.Errorf("%+v %s", s.Step("fix-2"), s.Step("all-3").Part.Item)
		}
	})
	t.Run("join any needs one, a list that is none or too long fails, an empty one is done", func(t *testing.T) {
		w := w.on(t)
		s := completed(t, w, flowTask(t, "any", "[[steps]]\nid = \"one\"\ntitle = \"do\"\nfor_each = \"vars.list\"\njoin = \"any\"\nmax_concurrency = 1\n"+
			"[[steps]]\nid = \"none\"\ntitle = \"do\"\nfor_each = \"[]\"\n"))
		if got, want := statuses(s), "one completed, one-1 completed, one-2 skipped, one-3 skipped, none completed"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		w.task(flowTask(t, "lists", "[[steps]]\nid = \"long\"\ntitle = \"do\"\nfor_each = \"list(range(10000))\"\n[[steps]]\nid = \"text\"\ntitle = \"do\"\nfor_each = \"vars.list[0]\"\n"+
			"[[steps]]\nid = \"big\"\ntitle = \"do\"\nfor_each = \"['x' * 9000]\"\n"))
		s = w.ended("lists")
		if !strings.Contains(s.Step("long").Error, "the list has 10000 items, the limit is 500") || !strings.Contains(s.Step("text").Error, "is no list") ||
			!strings.Contains(s.Step("big").Error, "item 1 of the list is too large") {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("SUB-1 with child own each item is a run of its own, and a failed one is tried again", func(t *testing.T) {
		w := w.on(t)
		s := completed(t, w, flowTask(t, "fan", "[[steps]]\nid = \"fan\"\ntitle = \"out\"\nchild = \"own\"\nfor_each = \"vars.list\"\nmax_concurrency = 2\nretry = {max_attempts = 2}\n"))
		if got := s.Step("fan").Output; len(s.Children) != 3 || !strings.HasPrefix(got, `["did `) {
			t.Errorf("%s %+v\n%s", got, s.Children, w.story("fan"))
		}
	})
	t.Run("GATE-7 an approval waits for those it names, and is a step like others", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "asks", "[[steps]]\nid = \"ok\"\nkind = \"approval\"\nmessage = \"Land it?\"\napprovers = [\"overseer\"]\n[[steps]]\nid = \"land\"\ntitle = \"land\"\nneeds = [\"ok\"]\n"))
		w.await("asks", "a gate", waiting)
		g := w.opened("asks")
		letters := w.letters()
		w.publish(g.AnswerSubject, `{"decision":"approve"}`)
		if l := w.letter(letters); !strings.Contains(fmt.Sprint(l), "overseer") {
			t.Errorf("%+v", l)
		}
		w.publish(g.AnswerSubject+".overseer", `{"decision":"approve"}`)
		if s := w.ended("asks"); s.Status != events.Completed || s.Step("ok").Output != "approved by overseer" || g.Description != "Land it?" {
			t.Errorf("%+v\n%s", s.Result, w.story("asks"))
		}
	})
	t.Run("GATE-7 an approval that no one gives in time is a yes where its author says so, else a no", func(t *testing.T) {
		w := w.on(t)
		completed(t, w, flowTask(t, "silent", "[[steps]]\nid = \"ok\"\nkind = \"approval\"\nmessage = \"Land it?\"\ntimeout = \"300ms\"\non_timeout = \"approve\"\n"))
		w.task(flowTask(t, "refused", "[[steps]]\nid = \"ok\"\nkind = \"approval\"\nmessage = \"Land it?\"\ntimeout = \"300ms\"\n"))
		w.await("refused", "a pause", func(s run.State) bool { return s.Status == events.Paused })
	})
	t.Run("GATE-7 an approval that no one gives in time is escalated: others may answer, too, and no time limit is left", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "lost", "[[steps]]\nid = \"ok\"\nkind = \"approval\"\nmessage = \"Land it?\"\napprovers = [\"anna\"]\ntimeout = \"400ms\"\n"+
			"on_timeout = \"escalate\"\nescalate_to = [\"lead\"]\n[[steps]]\nid = \"land\"\ntitle = \"land\"\nneeds = [\"ok\"]\n"))
		w.await("lost", "a gate", waiting)
		first := w.opened("lost")
		letters := w.letters()
		w.publish(first.AnswerSubject+".lead", `{"decision":"approve"}`)
		if l := w.letter(letters); l.Code != "not_approver" && l.Code != "gate_expired" && l.Code != "gate_closed" {
			t.Errorf("%+v", l)
		}
		s := w.await("lost", "the second gate", func(s run.State) bool { return len(s.Gates) == 2 && s.Gates[1].Status == run.GatePending })
		second := s.Gates[1]
		if s.Status != events.Running || !second.ExpiresAt.IsZero() || s.Gates[0].OnExpiry != events.ExpiryEscalates {
			t.Fatalf("%s %+v\n%s", s.Status, second, w.story("lost"))
		}
		w.publish(events.GateSubject("test", "lost", second.ID)+".eve", `{"decision":"approve"}`)
		if l := w.letter(letters); l.Code != "not_approver" || !strings.Contains(l.Reason, "anna, lead") {
			t.Errorf("%+v", l)
		}
		w.publish(events.GateSubject("test", "lost", second.ID)+".lead", `{"decision":"approve"}`)
		if s := w.ended("lost"); s.Status != events.Completed || s.Step("ok").Output != "approved by lead" || w.count("lost")["gate.opened"] != 2 {
			t.Errorf("%+v\n%s", s.Result, w.story("lost"))
		}
		if r := replayed(t, lawOf(t, events.GateTerms{}), w.log("lost")); !r.OK() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a switch chooses a step, and a wait lets time pass", func(t *testing.T) {
		w := w.on(t)
		s := completed(t, w, flowTask(t, "switch", `[[steps]]
id = "list"
title = "list them"
[[steps]]
id = "which"
kind = "switch"
conditions = [{if = "steps.list.output.n == 1", next = "a"}, {if = "steps.list.output.n == 2", next = "b"}]
default = "c"
[[steps]]
id = "a"
title = "do"
[[steps]]
id = "b"
kind = "wait"
duration = "200ms"
[[steps]]
id = "c"
title = "do"
`))
		if got, want := statuses(s), "list completed, which completed, a skipped, b completed, c skipped"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("PLAN-15a a loop goes on in fresh steps until its condition holds, or its bound is reached", func(t *testing.T) {
		w := w.on(t)
		s := completed(t, w, flowTask(t, "loop", "[[steps]]\nid = \"rounds\"\ntitle = \"one round\"\nloop = {until = \"last.left == 0\", max = 5}\n"))
		if got, want := statuses(s), "rounds completed, rounds-1 completed, rounds-2 completed, rounds-3 completed"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		w.task(flowTask(t, "endless", "[[steps]]\nid = \"more\"\ntitle = \"one round\"\nloop = {until = \"last.left == 0\", max = 2}\n"))
		if s := w.ended("endless"); !strings.Contains(s.Result.Error, "the loop did not end within 2 rounds") {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("a teardown is carried out however the steps of its scope end", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "scope", "[[steps]]\nid = \"bad\"\ntitle = \"refuse\"\nagent = \"wrong\"\nscope = {name = \"tree\", teardown = \"clean\"}\n"+
			"[[steps]]\nid = \"more\"\ntitle = \"more\"\nneeds = [\"bad\"]\nscope = {teardown = \"clean\"}\n[[steps]]\nid = \"clean\"\ntitle = \"clean up\"\n"))
		s := w.ended("scope")
		if got, want := statuses(s), "bad failed, more blocked, clean completed"; got != want || s.Status != events.Failed {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("PLAN-3 a plan of a model has no control flow", func(t *testing.T) {
		w := w.on(t)
		s := completed(t, w, events.Task{ID: "model", Agent: "plans", Task: "plan it"})
		if s.Step("a").Flow != nil || w.count("model")["plan.requested"] != 2 {
			t.Errorf("%s", w.story("model"))
		}
	})
}
