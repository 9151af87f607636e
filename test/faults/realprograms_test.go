//go:build slow

package faults

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/test/guests"
)

// form is a way to drive a real program.
type form struct {
	guests.Guest
	// name is that of the agent and its runtime, entry the file of the runtime.
	name, entry string
	// gates is true where it can wait for a person: it asks about each call, or on its screen.
	gates bool
}

// forms are the ways to drive a program: that of its preset, and the screen where it has a usable one.
func forms(t *testing.T, g guests.Guest, file string) []form {
	t.Helper()
	preset, err := os.ReadFile(filepath.Join("..", "..", "internal", "runtime", "presets", g.Preset+".toml"))
	if err != nil {
		t.Fatal(err)
	}
	all := []form{{g, g.Preset, strings.Replace(string(preset), fmt.Sprintf("command = %q", g.Preset), fmt.Sprintf("command = %q", file), 1), g.Asks}}
	if g.Preset == "claude" {
		g.Asks = false // it asks on its screen, which is no permission
		all = append(all, form{g, "claude-screen", strings.ReplaceAll(guests.Screen, "PROGRAM", file), true})
	}
	return all
}

// What is killed, and when.
const (
	killedRunner, killedProgram   = "toolrunner", "program"
	inStream, atAGate, inACommand = "stream", "gate", "command"
)

// realRun is a run whose program is at a moment when something is killed.
type realRun struct {
	form
	moment, kill string
}

func (r realRun) id() string { return r.name + "-" + r.moment + "-" + r.kill }

// answers are those of the model: what it wants first, and what it wants when the program goes on.
func (r realRun) answers() []guests.Step {
	const release, hold = "release () { echo ran >> ran; }; release it", "echo ran >> ran; while true; do sleep 0.2; done"
	end := guests.Step{Text: "All is done."}
	look := guests.Step{Call: r.Bash, What: "cat ran"}
	switch {
	case r.moment == inStream:
		return []guests.Step{{Call: r.Bash, What: "echo ran >> ran"}, {Text: strings.Repeat("It is a long story. ", 1200), Slow: true}, look, end}
	case r.moment == atAGate:
		return []guests.Step{{Call: r.Bash, What: release}, {Call: r.Bash, What: release}, end}
	case r.Asks: // it wants to do it again, which a person refuses
		return []guests.Step{{Call: r.Long, What: hold}, look, {Call: r.Long, What: hold}, end}
	}
	return []guests.Step{{Call: r.Long, What: hold}, look, end}
}

// realPrograms is the play of real programs that are lost, and of toolrunners that are lost with them.
type realPrograms struct {
	*failover
	guest guests.Guest
	file  string
	forms []form
	mock  *guests.Mock
}

// TestRealPrograms kills a toolrunner with -9 while real programs of others work at it, and then the programs: in an
// answer of their model, at a gate, and in a command (make runtimes). The toolrunner is started again.
func TestRealPrograms(t *testing.T) {
	dir := os.Getenv("INSPAN_TEST_RUNTIMES")
	if dir == "" {
		t.Skip("NOT TESTED: INSPAN_TEST_RUNTIMES names no folder of the programs: use make runtimes")
	}
	sandboxtest.Need(t, bwrap.New("", ""))
	cmd := "github.com/inspan/inspan/cmd/"
	bin := binaries(t, cmd+"executor", cmd+"toolrunner", cmd+"gatekeeper", cmd+"inspan")
	for _, g := range guests.All() {
		t.Run(g.Preset, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
			defer cancel()
			p := &realPrograms{failover: &failover{t: t, ctx: ctx, fleet: newFleet(t, fleetConfig{nodes: 1, replicas: 1, bin: bin})}, guest: g}
			p.plain, p.patience, p.zero, p.file = true, 8*time.Minute, time.Now(), g.Install(t, dir)
			p.forms = forms(t, g, p.file)
			p.explain = func() string { return p.mock.Said() }
			p.found(dir)
			p.begin()
			for _, kill := range []string{killedRunner, killedProgram} {
				p.round(t, kill)
			}
			p.t = t
			p.await("the programs have ended with their runs", func() bool { return len(p.running(p.file)) == 0 })
			t.Logf("transcript\n%s", p.said.String())
			for _, x := range p.panics() {
				t.Error(x)
			}
		})
	}
}

// runs are those of a round.
func (p *realPrograms) runs(kill string) (all []realRun) {
	for _, f := range p.forms {
		for _, moment := range []string{inStream, atAGate, inACommand} {
			if moment != atAGate || f.gates {
				all = append(all, realRun{f, moment, kill})
			}
		}
	}
	return all
}

func (p *realPrograms) workspace(id string) string { return filepath.Join(p.dir, "work", "run", id) }

// found makes the runtimes, the agents and the model.
func (p *realPrograms) found(dir string) {
	p.t.Helper()
	for _, folder := range []string{"secrets", "agents/runtimes"} {
		if err := os.MkdirAll(filepath.Join(p.dir, folder), 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
	plays := map[string][]guests.Step{}
	for _, r := range append(p.runs(killedRunner), p.runs(killedProgram)...) {
		plays[r.id()] = r.answers()
	}
	p.mock = guests.Serve(p.t, dir, p.guest.Fixtures(plays, p.workspace))
	model := runtime.Presets()[p.guest.Preset].Model
	p.write("secrets/"+model.BaseEnv, p.mock.URL+p.guest.Base)
	p.write("secrets/"+model.KeyEnv, "the-key-of-the-provider")
	for _, f := range p.forms {
		asks := "bash\n    match: {glob: \"release *\"}"
		if !f.Asks {
			asks = "other"
		}
		p.write("agents/runtimes/"+f.name+".toml", strings.Replace(f.entry, "verified = ", "#", 1))
		p.write("agents/"+f.name+".prompt", "---\nname: "+f.name+"\nruntime: "+f.name+"\ntools: ["+strings.Join(events.InnerTools(), ", ")+`]
sandbox: {mode: bwrap, network: {enabled: true, allowed_hosts: [other.example]}}
guards:
  - id: asks
    tool: `+asks+`
    action: ask
    reason: a person answers
---
Work.
`)
	}
	p.env = func(string) []string {
		return []string{"INSPAN_MCP_SECRETS=" + filepath.Join(p.dir, "secrets"), "INSPAN_SANDBOX_READ_ONLY=" + filepath.Dir(p.file), "INSPAN_WORKERS=32"}
	}
}

// begin starts the station.
func (p *realPrograms) begin() {
	p.t.Helper()
	p.start("n1")
	setUp(p.ctx, p.t, p.fleet, topology.Limits{})
	p.seat = p.connect(p.ctx, "operator", 0)
	var err error
	if p.c, err = operator.On(p.seat.conn, stationName); err != nil {
		p.t.Fatal(err)
	}
	for _, s := range p.services {
		p.start(s)
	}
	p.await("the agents are registered", func() bool {
		all, err := p.c.Agents(p.ctx)
		return err == nil && len(all) == len(p.forms)
	})
}

// round brings each run to its moment, kills, and judges what becomes of them.
func (p *realPrograms) round(t *testing.T, kill string) {
	t.Helper()
	all := p.runs(kill)
	commands := func(r realRun) bool { return r.moment == inACommand }
	p.middle(slices.DeleteFunc(slices.Clone(all), commands))
	p.middle(slices.DeleteFunc(slices.Clone(all), func(r realRun) bool { return !commands(r) })) // no program lets one run for ever
	before := kin{}
	for _, r := range all {
		maps.Copy(before, p.within(r.id()))
	}
	if kill == killedRunner {
		maps.Copy(before, p.kin("toolrunner.1"))
		p.kills("toolrunner.1", fmt.Sprintf("at which %d programs work", len(all)))
	} else {
		for _, r := range all {
			p.killProgram(r.id())
		}
	}
	t.Run("SAFE-7 CONT-4 nothing that a "+kill+" had started stays on the machine once it is killed", func(t *testing.T) {
		p.t = t
		p.await("all that it started is gone", func() bool { return len(before.left()) == 0 })
	})
	for _, r := range all {
		name := fmt.Sprintf("PLUS-12c SAFE-7 CONT-4 %s (%s), its %s killed, goes on in its session, and nothing is done twice", r.name, r.moment, kill)
		if kill == killedRunner && !r.Moves {
			name = fmt.Sprintf("PLUS-12c SAFE-7 %s (%s), its %s killed, has its session lost, says so, and nothing is done twice", r.name, r.moment, kill)
		}
		t.Run(name, func(t *testing.T) {
			p.t = t
			p.judge(r)
		})
	}
	p.t = t
}

// middle starts runs and waits until each is at its moment.
func (p *realPrograms) middle(all []realRun) {
	p.t.Helper()
	for _, r := range all {
		if _, err := p.c.Start(p.ctx, events.Task{ID: r.id(), Agent: r.name, Task: guests.KeyOf(r.id())}); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, r := range all {
		p.await(r.id()+" is there", func() bool {
			s, evs := p.state(r.id())
			if s.Status.Ended() {
				p.t.Fatalf("%s is %s: %+v\n%s", r.id(), s.Status, s.Result, p.cli("inspect", r.id()))
			}
			return r.there(s, evs) && (r.moment == atAGate || p.ran(r.id()) != "")
		})
		p.tell("%-22s %s", r.name, r.moment)
	}
}

// ran is what a run has in the file that each command writes to.
func (p *realPrograms) ran(id string) string { return p.failover.file(id, "ran") }

// there reports whether a run is at its moment in the log, and its session is stored.
func (r realRun) there(s run.State, evs []client.Item) bool {
	stored, asked, answered := false, 0, 0
	for _, it := range evs {
		switch d := it.Payload.(type) {
		case *events.CallProgressedData:
			stored = stored || d.Session != "" && (d.Transcript != nil || !r.Moves)
		case *events.CallReservedData:
			asked++
		case *events.CallSettledData:
			answered++
		}
	}
	switch r.moment {
	case inStream:
		return stored && asked == 2 && answered == 1
	case atAGate:
		return stored && len(s.Waiting()) == 1
	}
	return stored
}

// within are the processes that work in the workspace of a run.
func (p *realPrograms) within(id string) kin {
	p.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		p.t.Fatal(err)
	}
	found := kin{}
	for _, path := range all {
		at, err := os.Readlink(filepath.Join(filepath.Dir(path), "cwd"))
		if pid, _, begun, ok := stat(path); err == nil && ok && at == p.workspace(id) {
			found[pid] = begun
		}
	}
	return found
}

// killProgram ends the program of a run with the signal that none can see.
func (p *realPrograms) killProgram(id string) {
	p.t.Helper()
	found := guests.ProcessesIn(p.workspace(id), p.file)
	for _, pid := range found {
		_ = syscall.Kill(pid, syscall.SIGKILL) // one may end with another
	}
	if len(found) == 0 {
		p.t.Errorf("%s has no program", id)
	}
	p.tell("kill -9 of the program of %s", id)
}

// answered answers what a run asks a person, where it does.
func (p *realPrograms) answered(r realRun) {
	p.t.Helper()
	ended := func(s run.State) bool { return s.Status.Ended() }
	switch {
	case r.moment == atAGate:
		s := p.when(r.id(), "the program asks again", func(s run.State) bool { return ended(s) || len(s.Gates) == 2 && len(s.Waiting()) == 1 })
		p.answer(r.id(), s, p.c.Gates().Approve)
	case r.moment == inACommand && r.Asks:
		s := p.when(r.id(), "a person is asked", func(s run.State) bool { return ended(s) || len(s.Waiting()) == 1 })
		p.answer(r.id(), s, p.c.Gates().Reject)
		p.when(r.id(), "it is paused", func(s run.State) bool { return ended(s) || s.Status == events.Paused })
		if _, err := p.c.Control(p.ctx, r.id(), events.Control{Action: "resume", By: "anna"}); err != nil {
			p.t.Error(err)
		}
	}
}

// judge has a run go on to its end, and holds that it did so in its session and did nothing twice.
func (p *realPrograms) judge(r realRun) {
	p.t.Helper()
	goesOn, starts, ran := r.Moves || r.kill == killedProgram, 1, "ran\n"
	if goesOn {
		p.answered(r)
	}
	s := p.when(r.id(), "the run ends", func(s run.State) bool { return s.Status.Ended() })
	_, evs := p.state(r.id())
	seen := look(evs)
	seen.ran = p.ran(r.id())
	p.tell("%-22s %-8s %-10s killed: %s, %d session, %d starts, done %d times", r.name, r.moment, r.kill, s.Status, len(seen.sessions), len(seen.runners), strings.Count(seen.ran, "\n"))
	for _, word := range []string{"inspect", "audit"} {
		p.t.Logf("$ inspan %s %s\n%s", word, r.id(), p.cli(word, r.id()))
	}
	if r.kill == killedRunner {
		starts = 2 // the second one finds no session where that is not stored
	}
	if r.moment == atAGate && !goesOn {
		ran = ""
	}
	if seen.ran != ran || len(seen.sessions) != 1 || len(seen.runners) != starts || len(slices.Compact(slices.Sorted(slices.Values(seen.runners)))) != starts {
		p.t.Errorf("done %q, want %q; in the sessions %v, started at %v", seen.ran, ran, slices.Sorted(maps.Keys(seen.sessions)), seen.runners)
	}
	for call, n := range seen.began {
		if n != 1 {
			p.t.Errorf("call %s, whose effect is once, began %d times", call, n)
		}
	}
	if !goesOn {
		last := s.ToolCallHistory.At(s.ToolCallHistory.Len() - 1)
		if s.Status != events.Failed || last.Code != events.OutcomeUnknown {
			p.t.Errorf("%s: %+v", s.Status, last)
		}
		return
	}
	if s.Status != events.Completed || !strings.Contains(s.Plan.Steps[0].Output, "All is done.") || r.moment == inStream && s.Lost.Requests != 1 {
		p.t.Errorf("%s: %+v, lost %+v\n%s", s.Status, s.Result, s.Lost, p.mock.Said())
	}
	if last := p.mock.Last(p.t, guests.KeyOf(r.id())); !strings.Contains(last, "interrupted") {
		p.t.Errorf("no prompt says that the work goes on: %.2000s", last)
	}
}

// seen is what the log of a run has of its program.
type seen struct {
	sessions map[string]bool
	// runners are where it was started, began how often each call began whose effect is once.
	runners []string
	began   map[string]int
	ran     string
}

func look(evs []client.Item) seen {
	it := seen{sessions: map[string]bool{}, began: map[string]int{}}
	for _, e := range evs {
		switch d := e.Payload.(type) {
		case *events.CallStartedData:
			if d.Tool == events.ToolRuntime {
				it.runners = append(it.runners, d.Runner)
			}
			if d.Effect == "once" {
				it.began[d.Call]++
			}
		case *events.CallProgressedData:
			if d.Session != "" {
				it.sessions[d.Session] = true
			}
		}
	}
	return it
}
