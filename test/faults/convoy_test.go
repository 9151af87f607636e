//go:build slow

package faults

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/inspan/inspan/internal/formula"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// The play: two legs that are runs of their own, a step whose check fails once, and one that a person rejects. Every
// command takes long enough for a process to be killed in its middle.
const (
	shipFormula = `formula = "ship"
description = "Ship the report."
version = 2
[defaults]
agent = "leg"
[[legs]]
id = "left"
title = "Look at the left side"
child = "own"
[[legs]]
id = "right"
title = "Look at the right side"
child = "own"
[synthesis]
title = "Write report.md"
agent = "writer"
accept = "grep -q both report.md"
`
	legScript = `
turns:
  - when: {turn: 1}
    calls: [{name: bash, input: {command: "sleep 2; echo seen"}}]
    usage: {input: 200, output: 20}
  - text: I looked at my side.
    delay: 1s
    usage: {input: 300, output: 30}
`
	writerScript = `
turns:
  - when: {turn: 1}
    text: It is written.
    delay: 2s
    usage: {input: 400, output: 40}
  - when: {turn: 2, message: {contains: "The step is not done"}}
    calls: [{name: write, input: {path: report.md, content: "both sides are sound"}}]
    usage: {input: 500, output: 50}
  - text: Now it is written.
    usage: {input: 600, output: 60}
`
	sayScript = "turns:\n  - text: announced\n    usage: {input: 100, output: 10}\n"
)

// spans is an OTLP/HTTP receiver of traces.
type spans struct {
	mu  sync.Mutex
	all []*otlp.Span // guarded by mu
}

// ServeHTTP implements http.Handler.
func (r *spans) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var in collect.ExportTraceServiceRequest
	body, err := io.ReadAll(req.Body)
	if err == nil && req.URL.Path == "/v1/traces" && proto.Unmarshal(body, &in) == nil {
		r.mu.Lock()
		for _, res := range in.ResourceSpans {
			for _, scope := range res.ScopeSpans {
				r.all = append(r.all, scope.Spans...)
			}
		}
		r.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// draw writes the spans below one, each a line.
func draw(b *strings.Builder, all []*otlp.Span, parent, indent string, seen map[string]bool) {
	var below []*otlp.Span
	for _, s := range all {
		if id := string(s.SpanId); string(s.ParentSpanId) == parent && !seen[id] {
			seen[id] = true
			below = append(below, s)
		}
	}
	slices.SortFunc(below, func(a, b *otlp.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	for _, s := range below {
		fmt.Fprintf(b, "%s%s  %.2f s\n", indent, s.Name, float64(s.EndTimeUnixNano-s.StartTimeUnixNano)/1e9)
		draw(b, all, string(s.SpanId), indent+"  ", seen)
	}
}

// cli carries out inspan against the station and returns what it prints.
func (p *failover) cli(args ...string) string {
	p.t.Helper()
	cmd := exec.Command(filepath.Join(p.bin, "inspan"), args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "INSPAN_NATS_URL="+p.url("operator", 0), "INSPAN_STATION="+stationName, "NO_COLOR=1", "HOME="+p.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("inspan %s: %v\n%s\n%s", strings.Join(args, " "), err, out, p.said.String())
	}
	return string(out)
}

// kills ends a process with -9 and begins it again.
func (p *failover) kills(name, when string) {
	p.t.Helper()
	p.stop(name, syscall.SIGKILL)
	p.tell("kill -9 of %s %s", name, when)
	p.start(name)
}

// when waits until a run is as said.
func (p *failover) when(id, what string, holds func(s run.State) bool) (s run.State) {
	p.t.Helper()
	p.await(what, func() bool { s, _ = p.state(id); return holds(s) })
	return s
}

// TestConvoy is the play of delegated and checked work (make convoy): separate programs and a server of their own, each of
// which is killed in its middle.
func TestConvoy(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	traces := &spans{}
	otlpServer := httptest.NewServer(traces)
	t.Cleanup(otlpServer.Close)
	cmd := "github.com/inspan/inspan/cmd/"
	p := &failover{fleet: newFleet(t, fleetConfig{bin: binaries(t, cmd+"executor", cmd+"toolrunner", cmd+"gatekeeper", cmd+"inspan"), nodes: 1, replicas: 1}), t: t, ctx: ctx}
	p.plain = true
	p.write("prices.yaml", "scripted/*: {input: 2, output: 10}\n")
	p.env = func(string) []string {
		return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + otlpServer.URL, "OTEL_METRICS_EXPORTER=none", "INSPAN_PRICES=" + filepath.Join(p.dir, "prices.yaml")}
	}
	for name, script := range map[string]string{"leg": legScript, "writer": writerScript, "say": sayScript} {
		p.write("agents/"+name+".prompt", "---\nname: "+name+"\nmodel: scripted/"+name+"\ntools: [bash, write]\n---\nWork.\n")
		p.write("scripts/"+name+".yaml", script)
	}
	p.start("n1")
	setUp(ctx, t, p.fleet, topology.Limits{})
	p.seat = p.connect(ctx, "operator", 0)
	var err error
	if p.c, err = operator.On(p.seat.conn, stationName); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.services {
		p.start(s)
	}
	p.await("the agents are registered", func() bool { all, err := p.c.Agents(ctx); return err == nil && len(all) == 3 })
	t.Run("PROP-15 PROP-16 PROP-18 PLUS-10 FORM-3 FORM-6 PLAN-9 OBS-21 SAFE-7 a convoy with children, a failing check and a revision outlives kill -9 of each service and of the server", func(t *testing.T) {
		p.t = t
		p.play("ship")
		p.judge("ship", traces)
	})
	for _, x := range p.panics() {
		t.Error(x)
	}
}

// play has the convoy carried out.
func (p *failover) play(id string) {
	p.t.Helper()
	p.zero = time.Now()
	p.explain = func() string {
		said := p.cli("why", id)
		s, _ := p.state(id)
		for _, c := range s.Children {
			said += p.cli("why", c.ID)
			_, all := p.state(c.ID)
			for _, e := range all {
				said += fmt.Sprintf("  %d %s\n", e.State.Sequence, e.Payload.Kind())
			}
		}
		return said
	}
	m, err := formula.Load(fstest.MapFS{"ship.formula.toml": &fstest.MapFile{Data: []byte(shipFormula)}}, "ship")
	if err != nil {
		p.t.Fatal(err)
	}
	c, err := m.Compile(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	c.Plan.Steps = append(c.Plan.Steps, events.TaskStep{ID: "announce", Description: "Announce it to everybody", Agent: "say",
		Needs: []string{"synthesis"}, Critical: true})
	if _, err := p.c.Start(p.ctx, events.Task{ID: id, Agent: c.Agent, Task: c.Task, Plan: c.Plan, Formula: &c.Formula,
		Accept: &events.Accept{Checks: []events.Check{{Kind: events.CheckCommand, Run: "grep -q sound report.md"}}}}); err != nil {
		p.t.Fatal(err)
	}
	p.tell("the convoy %s begins", id)
	s := p.when(id, "both legs are given to children", func(s run.State) bool { return len(s.Children) == 2 })
	p.kills("planner.1", "while both children live")
	child := s.Children[0].ID
	p.when(child, "a child's command is under way", func(s run.State) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(s.Open)), func(c *run.Call) bool { return c.Phase == run.CallStarted })
	})
	p.kills("toolrunner.1", "in the middle of a command of child "+child)
	p.kills("gatekeeper.1", "while it has calls to permit")
	p.when(id, "both children have ended", func(s run.State) bool { return len(s.Children) >= 2 && len(s.Living()) == 0 })
	p.tell("both children have ended")
	p.when(id, "the report is asked for", func(s run.State) bool { st := s.Step("synthesis"); return st.Owed > 0 })
	p.kills("executor.1", "in the middle of the answer of a model")
	p.when(id, "the check has failed", func(s run.State) bool { st := s.Step("synthesis"); return st.Claim != nil && st.Turns > 1 })
	p.tell("the check of the report has failed, the agent reads why")
	p.kills("persister.1", "after that")
	s = p.when(id, "a person is asked", func(s run.State) bool { return len(s.Waiting()) == 1 })
	p.tell("a person is asked before the step %s", s.Waiting()[0].StepID)
	p.kills("n1", "(the server) while the gate stands")
	p.await("the server is back", func() bool { _, err := p.c.Agents(p.ctx); return err == nil })
	p.tell("$ inspan reject %s\n%s", id, p.cli("reject", id, "--reason", "tell the team first"))
	p.when(id, "it is paused", func(s run.State) bool { return s.Status == events.Paused })
	_, err = p.c.Control(p.ctx, id, events.Control{Action: "revise", By: "anna", Reason: "the team first", Plan: &events.TaskPlan{Steps: []events.TaskStep{
		{ID: "team", Description: "Tell the team", Agent: "say", Needs: []string{"synthesis"}, Child: events.ChildShared}}}})
	if err == nil {
		_, err = p.c.Control(p.ctx, id, events.Control{Action: "resume", By: "anna"})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.tell("the plan is revised, and the run goes on")
	s = p.when(id, "the run has ended", func(s run.State) bool { return s.Status.Ended() })
	p.tell("the run is %s", s.Status)
}

// judge prints what there is to see of the convoy and holds that it is as it would be without a kill.
func (p *failover) judge(id string, traces *spans) {
	p.t.Helper()
	s, evs := p.state(id)
	n := map[events.Kind]int{}
	for _, e := range evs {
		n[e.Payload.Kind()]++
	}
	if s.Status != events.Completed || s.Result == nil || len(s.Result.Verified) == 0 || s.Step("announce") != nil {
		p.t.Errorf("%s %+v", s.Status, s.Result)
	}
	if n[events.ChildSpawned] != 3 || n[events.ChildFinished] != 3 || n[events.CheckFailed] != 1 || n[events.CheckPassed] != 1 ||
		n[events.PlanRevised] != 1 || n[events.StepFinished] != 4 || n[events.RunCompleted] != 1 {
		p.t.Errorf("%v", n)
	}
	spent := s.Own()
	for _, c := range s.Children {
		k, all := p.state(c.ID)
		if k.Status != events.Completed || c.Attempt != 1 || k.Created.TraceParent != s.Created.TraceParent ||
			all[len(all)-1].Payload.Kind() != events.RunCompleted {
			p.t.Errorf("child %s of %s: %s, attempt %d, trace %s of %s", c.ID, c.Step, k.Status, c.Attempt, k.Created.TraceParent, s.Created.TraceParent)
		}
		spent = spent.Plus(k.Own())
	}
	if used := s.Used(); used.Cost != spent.Cost || used.Tokens() != spent.Tokens() || used.Cost == 0 {
		p.t.Errorf("the root says that %+v was used, the runs say %+v", used, spent)
	}
	items := map[string]events.WorkItem{}
	p.await("the items of the steps are closed", func() bool {
		all, err := client.NewWorkItems(p.c).List(p.ctx)
		for _, w := range all {
			if w.Step != nil && w.Step.Run == id {
				items[w.Step.Step] = w
			}
		}
		return err == nil && len(items) == 5 && !slices.ContainsFunc(slices.Collect(maps.Values(items)), func(w events.WorkItem) bool { return w.Status != events.WorkIsClosed })
	})
	if why := items["announce"].ClosedAs; why != "the plan was revised without it" || items["team"].ClosedAs != string(events.StepIsCompleted) {
		p.t.Errorf("%+v", items)
	}
	p.events(id)
	for _, args := range [][]string{{"tree", id}, {"cost", id}, {"inspect", id}, {"work", "list", "--all", "--label", "ship"}, {"audit", id}} {
		fmt.Fprintf(&p.said, "\n$ inspan %s\n%s", strings.Join(args, " "), p.cli(args...))
	}
	for _, name := range p.services { // what they hold is exported as they end
		p.stop(name, syscall.SIGTERM)
	}
	traces.mu.Lock()
	defer traces.mu.Unlock()
	byTrace, known := map[string]int{}, map[string]bool{}
	for _, span := range traces.all {
		byTrace[hex.EncodeToString(span.TraceId)]++
		known[string(span.SpanId)] = true
	}
	fmt.Fprintf(&p.said, "\nThe trace %v, of spans that were exported before their process was killed or as it ended:\n", slices.Sorted(maps.Keys(byTrace)))
	seen := map[string]bool{}
	draw(&p.said, traces.all, "", "  ", seen)
	for _, span := range traces.all {
		if !known[string(span.ParentSpanId)] {
			draw(&p.said, traces.all, string(span.ParentSpanId), "  ", seen)
		}
	}
	if len(byTrace) != 1 {
		p.t.Errorf("spans of the traces %v", byTrace)
	}
	p.t.Logf("transcript\n%s", p.said.String())
}
