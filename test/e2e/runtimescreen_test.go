package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/runtime/runtimetest"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TestRuntimeScreen has an agent whose program has only a screen.
func TestRuntimeScreen(t *testing.T) {
	t.Parallel()
	sandboxtest.Need(t, bwrap.New("", ""))
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.tune = func(c *service.Config) { c.SandboxReadOnly = []string{filepath.Dir(self)} }
	r := runtimetest.Screen("", "")
	r.Command, r.Transcripts = []string{self}, runtimetest.Homely(events.DriverPTY).Transcripts
	ask := events.Rule{ID: "asks", Tool: events.ToolOther, Action: "ask", Reason: "a person answers"}
	for name, mode := range map[string]string{"screen": "bwrap", "free": "host"} {
		w.agent(events.Agent{Name: name, Model: "runtime/fake", Prompt: "Work.", Runtime: &r, Sandbox: events.Sandbox{Mode: mode, Network: mode == "host"},
			Guards: []events.Rule{ask}, Tools: []string{"bash", events.ToolOther, events.ToolRuntime}}, "")
	}
	first := w.start(events.Toolrunner)
	w.start(events.Planner, events.Executor, events.Gatekeeper, events.Persister)
	work := func(id, file string) string { return filepath.Join(w.dir, "work", "run", id, file) }

	t.Run("ID-3a ID-8 a step is carried out by a program that has only a screen", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "screen", Agent: "screen", Task: "!bash echo made > made; echo out\n!say bye"})
		s := w.ended("screen")
		b, err := os.ReadFile(work("screen", "made"))
		if s.Status != events.Completed || !strings.Contains(s.Plan.Steps[0].Output, "bye") || err != nil || string(b) != "made\n" {
			t.Fatalf("%s: %+v, %v\n%s", s.Status, s.Result, err, w.story("screen"))
		}
		if strings.Contains(s.Plan.Steps[0].Output, "\x1b") {
			t.Errorf("%q", s.Plan.Steps[0].Output)
		}
		if r := replayed(t, programLaw(t), w.log("screen")); !r.OK() || r.Decided == 0 {
			t.Errorf("a replay decides otherwise: %+v", r)
		}
	})
	t.Run("PLUS-12b GATE-9 a person answers a question on the screen, and one that no one may answer ends the step", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "asked", Agent: "screen", Task: "!question May I go on?\n!say end"})
		w.await("asked", "waiting", waiting)
		g := w.opened("asked")
		if !strings.Contains(string(g.Proposal), "May I go on?") {
			t.Fatalf("%+v", g)
		}
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","proposal_hash":"`+g.ProposalHash+`"}`)
		if s := w.ended("asked"); s.Status != events.Completed || !strings.Contains(s.Plan.Steps[0].Output, "answered y") {
			t.Errorf("%s: %+v\n%s", s.Status, s.Plan.Steps, w.story("asked"))
		}
		w.task(events.Task{ID: "fails", Agent: "screen", Task: "!question Delete everything?"})
		if s := w.ended("fails"); s.Status != events.Failed || !strings.Contains(w.story("fails")+s.Plan.Steps[0].Error, "Delete everything?") {
			t.Errorf("%s: %+v\n%s", s.Status, s.Plan.Steps, w.story("fails"))
		}
	})
	t.Run("PLUS-12d C43 a program with a screen asks no one, and is not started where nothing keeps it in", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "free", Agent: "free", Task: "!bash echo made > made"})
		s := w.ended("free")
		if _, err := os.Stat(work("free", "made")); err == nil || s.Status != events.Failed || !strings.Contains(s.Plan.Steps[0].Error, "asks no one") {
			t.Errorf("%s, %q, %v", s.Status, s.Plan.Steps[0].Error, err)
		}
	})
	t.Run("CONT-6 a run is stopped while its program works", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "stopped", Agent: "screen", Task: "!bash echo begun > begun\n!stay"})
		w.await("stopped", "begun", func(run.State) bool { _, err := os.Stat(work("stopped", "begun")); return err == nil })
		w.publish("station.test.run.stopped.control", `{"action":"stop","by":"anna"}`)
		if s := w.ended("stopped"); s.Status == events.Completed {
			t.Errorf("%s\n%s", s.Status, w.story("stopped"))
		}
	})
	t.Run("PLUS-12c CONT-4 SAFE-7 a program that is killed goes on in its session, and so does one whose toolrunner is lost", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "dies", Agent: "screen", Task: "!tell\n!bash if mkdir once; then kill -9 $PPID; fi\n!say end"})
		if s := w.ended("dies"); s.Status != events.Completed || !strings.Contains(s.Plan.Steps[0].Output, "prompt 2") {
			t.Errorf("%s: %+v\n%s", s.Status, s.Plan.Steps, w.story("dies"))
		}
		w.task(events.Task{ID: "lost", Agent: "screen", Task: "!tell\n!bash echo begun > begun; sleep 3\n!stay\n!say end"})
		w.await("lost", "stored", func(run.State) bool {
			_, err := os.Stat(work("lost", "begun"))
			return err == nil && strings.Count(w.story("lost"), string(events.CallProgressed)) > 1
		})
		first.stop()
		w.start(events.Toolrunner)
		if s := w.ended("lost"); s.Status != events.Completed || !strings.Contains(s.Plan.Steps[0].Output, "prompt 2") {
			t.Errorf("%s: %+v\n%s", s.Status, s.Plan.Steps, w.story("lost"))
		}
	})
}
