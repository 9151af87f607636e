// Package plays holds the stories of the kernel as transcripts: the events of a run, one thing that a service receives,
// and what it appends.
//
// Promises: the service is the real one, with the real ledger and loop over a station in memory. What stands behind the
// line of dashes was made by -rewrite; a reviewer reads its diff. Fields that depend on the clock are left out.
//
// A line of the given events is a type and the fields that differ from those of pkg/run/runtest. The line that begins
// with > names the service and what it receives: nothing for the last event, "event" and the type of an earlier one, or
// the last tokens of a subject and a body. A line of the model is an answer of it.
package plays_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/scripted"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/tools/specs"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/executor"
	"github.com/inspan/inspan/services/gatekeeper"
	"github.com/inspan/inspan/services/planner"
	"github.com/inspan/inspan/services/planner/part"
	"github.com/inspan/inspan/services/planner/resolve"
)

var rewrite = flag.Bool("rewrite", false, "write what the services answer into the plays")

const (
	station = "demo"
	runID   = "run"
	dashes  = "----\n"
)

func TestPlays(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d plays, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		title, _, _ := strings.Cut(string(text), "\n")
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			given, want, ok := strings.Cut(string(text), dashes)
			if !ok {
				t.Fatalf("%s: want a line ---- before the answer", file)
			}
			got := perform(t, given)
			if *rewrite {
				if err := os.WriteFile(file, []byte(given+dashes+got), 0o644); err != nil { //nolint:gosec // a file of the tree
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("%s: got\n%swant\n%s(go test ./test/plays -rewrite, then read the diff)", file, got, want)
			}
		})
	}
}

// perform tells a service what a play says and returns what it appended.
func perform(t *testing.T, play string) string {
	t.Helper()
	b := runtest.New(station, runID)
	var by events.Service
	var what, body, script string
	for line := range strings.Lines(play) {
		line = strings.TrimSpace(line)
		kind, fields, _ := strings.Cut(line, " ")
		switch {
		case line == "" || !strings.Contains(kind, ".") && kind != ">" && kind != "model":
		case kind == "model":
			script += "  - " + fields + "\n"
		case kind == ">":
			name, rest, _ := strings.Cut(fields, " ")
			by = events.Service(name)
			what, body, _ = strings.Cut(rest, " ")
		default:
			b.Append(given(t, b.State(), events.Kind(kind), fields))
		}
	}
	if by == "" {
		t.Fatal("want a line > SERVICE")
	}
	clock := mem.NewHand(runtest.Start.Add(time.Duration(len(b.Events())) * time.Second))
	s, err := mem.New(station, mem.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Seed(t, s.Journal(), b.Events()...)
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: station, By: by, Journal: s.JournalOf(by), Now: clock.Now,
		Entropy: rand.NewChaCha8([32]byte{1})})
	if err != nil {
		t.Fatal(err)
	}
	receive(t, s, by, runlog.Handle(l, roleOf(t, by, s, l, clock, script)), what, body)
	return answer(t, s, len(b.Events()))
}

// given is an event of a type with some fields changed.
func given(t *testing.T, s run.State, k events.Kind, fields string) events.Payload {
	t.Helper()
	var p events.Payload
	switch last := len(s.Gates) - 1; k {
	case events.RunCreated:
		p = runtest.Created()
	case events.RunStarted:
		p = runtest.Started()
	case events.RunPaused:
		p = runtest.Paused("")
	case events.RunResumed:
		p = runtest.Resumed()
	case events.PlanMade:
		p = runtest.Plan(runtest.Step("a"))
	case events.PlanRequested:
		p = &events.PlanRequestedData{Event: "plan_requested", Try: 1, Agents: []string{"worker"}}
	case events.PlanAnswered:
		p = &events.PlanAnsweredData{Event: "plan_answered", Try: 1, Attempt: 1, InputTokens: 20, OutputTokens: 9, TotalTokens: 29}
	case events.StepReady:
		p = runtest.Ready("a")
	case events.StepAllowed:
		p = runtest.Allowed("a")
	case events.StepFinished:
		p = runtest.StepDone("a", "done")
	case events.StepFailed:
		p = runtest.StepBad("a", "no luck")
	case events.TurnFinished:
		p = runtest.Turn(1, "a", "")
	case events.GateOpened:
		p = runtest.GateAt("g-1", "a", "")
	case events.GateApproved:
		p = runtest.Yes(s.Gates[last])
	case events.GateRejected:
		p = runtest.No(s.Gates[last], "no")
	case events.CallAllowed:
		p = runtest.CallYes(runtest.Ref("a", "c1-1", "read"), "read")
	case events.CallStarted:
		p = runtest.CallBegun(runtest.Ref("a", "c1-1", "read"), 1)
	case events.CallFinished:
		p = runtest.CallDone(runtest.Ref("a", "c1-1", "read"), 0, "text")
	default:
		t.Fatalf("plays have no events of type %q yet: add one to given", k)
	}
	if fields != "" {
		d := json.NewDecoder(strings.NewReader(fields))
		d.DisallowUnknownFields()
		if err := d.Decode(p); err != nil {
			t.Fatalf("%s: %v", k, err)
		}
	}
	return p
}

// agents are those that the planner may find.
type agents struct{}

func (agents) Agent(_ context.Context, name string) (events.Agent, error) {
	if name != "worker" {
		return events.Agent{}, kernel.ErrNotFound
	}
	return runtest.Agent("worker", "read", "bash"), nil
}

func (agents) Names(context.Context) ([]string, error) { return []string{"worker"}, nil }

// models answer from the script of a play.
type models struct{ script string }

func (m models) Model(string) (llm.Model, string, error) {
	if m.script == "" {
		return nil, "", errors.New("the play has no line of the model")
	}
	model, err := scripted.Parse("play", []byte("turns:\n"+m.script))
	return model, "scripted/play", err
}

func roleOf(t *testing.T, by events.Service, s *mem.Station, l *runlog.Ledger, clock mem.Clock, script string) runlog.Role {
	t.Helper()
	tools, err := specs.Registry()
	if err != nil {
		t.Fatal(err)
	}
	var r runlog.Role
	switch by {
	case events.Planner:
		made, _ := resolve.New(resolve.Config{Agents: agents{}, Blobs: s.Blobs()})
		r, err = planner.New(planner.Config{Names: part.Names{Station: station}, Ledger: l, Timers: s.Timers(), Resolve: made})
	case events.Gatekeeper:
		r, err = gatekeeper.New(gatekeeper.Config{Ledger: l, Timers: s.Timers(), Blobs: s.Blobs(), Tools: tools})
	case events.Executor:
		r, err = executor.New(executor.Config{Ledger: l, Timers: s.Timers(), Blobs: s.Blobs(), Tools: tools,
			Models: models{script}, Now: clock.Now})
	default:
		t.Fatalf("plays have no service %q yet: add it to roleOf", by)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// receive hands one message to a service through the loop that every service runs.
func receive(t *testing.T, s *mem.Station, by events.Service, h kernel.Handler, what, body string) {
	t.Helper()
	var m kernel.Message
	switch what {
	case "task":
		m = &letter{subject: events.TaskSubject(station), data: []byte(body)}
	case "", "event":
		log := s.Log(runID)
		at := len(log) - 1
		if what == "event" {
			at = slices.IndexFunc(log, func(r kernel.Record) bool { return r.Kind == events.Kind(body) })
		}
		i := slices.IndexFunc(s.Ready(by), func(w mem.Waiting) bool { return w.Seq == log[at].Seq })
		if m, _ = s.Take(by, i); m == nil {
			t.Fatalf("%s does not receive %s", by, log[at].Kind)
		}
	default:
		m = &letter{subject: "station." + station + ".run." + runID + "." + what, data: []byte(body)}
	}
	loop, err := kernel.NewLoop(kernel.LoopConfig{Handlers: []kernel.Handler{h}, Inbox: once{m}, Refusals: s.Refusals(),
		Log: zerolog.Nop(), Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := loop.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// once delivers one message.
type once struct{ m kernel.Message }

func (o once) Listen(ctx context.Context, _ events.Service, _ int, receive func(context.Context, kernel.Message)) error {
	receive(ctx, o.m)
	return nil
}

// letter is a message of somebody outside, or of a timer.
type letter struct {
	subject string
	data    []byte
}

func (l *letter) Subject() string         { return l.subject }
func (l *letter) Data() []byte            { return l.data }
func (*letter) Header(string) string      { return "" }
func (*letter) Seq() uint64               { return 7 }
func (*letter) Time() time.Time           { return runtest.Start }
func (*letter) Deliveries() uint64        { return 1 }
func (*letter) Ack(context.Context) error { return nil }
func (*letter) Nak(time.Duration) error   { return nil }
func (*letter) Working() error            { return nil }

// unsteady fields depend on the clock, on the version of rules or on the whole definition of an agent.
var unsteady = []string{"wait_ms", "duration_ms", "rules_digest", "digest", "task_digest", "agents", "expires_at", "not_before",
	"calls_key", "model_ref", "started_at", "proposal_hash", "options", "durability", "policy_digest"}

// answer is what a service appended to the logs, and what it refused.
func answer(t *testing.T, s *mem.Station, from int) string {
	t.Helper()
	var out bytes.Buffer
	for _, id := range s.Runs() {
		log := s.Log(id)
		if id == runID {
			log = log[from:]
		}
		for _, r := range log {
			f, err := events.Decode(r.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			fields := map[string]any{}
			if err := json.Unmarshal(f.Data, &fields); err != nil {
				t.Fatal(err)
			}
			for _, name := range unsteady {
				delete(fields, name)
			}
			data, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s %s\n", r.Kind, events.Plain(data))
		}
	}
	for _, d := range s.Dead() {
		fmt.Fprintf(&out, "refused %s: %s; %s\n", d.Letter.Code, d.Letter.Reason, d.Letter.Hint)
	}
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}
