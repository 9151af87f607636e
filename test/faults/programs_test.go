//go:build slow

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// programModel has programs ask their model through the toolrunner.
const programModel = `model = {api = "anthropic", url = "https://nowhere.invalid", base_env = "INSPAN_FAKE_BASE", key_env = "INSPAN_FAKE_KEY"}
`

// programEntries are the runtimes of the play, by driver: ours speaks the protocol of each. The first two ask about each
// call; the others ask no one, and are isolated.
var programEntries = map[string]string{
	"acp": `kind = "acp"
env = {INSPAN_FAKE_AGENT = "acp", INSPAN_FAKE_SESSIONS = "%s"}
session = {resume = true}
capabilities = {gate_tools = "native"}
`,
	"claude": `kind = "cli"
env = {INSPAN_FAKE_AGENT = "claude", INSPAN_FAKE_SESSIONS = "%s"}
headless = {parser = "claude"}
session = {resume = true}
capabilities = {gate_tools = "native"}
`,
	"codex": `kind = "cli"
env = {INSPAN_FAKE_AGENT = "codex"}
headless = {parser = "codex"}
session = {resume = true, transcripts = [".fake/sessions/*/{session}.jsonl"]}
capabilities = {gate_tools = "none"}
`,
	"pty": `kind = "cli"
driver = "pty"
env = {INSPAN_FAKE_AGENT = "pty"}
ready = {prefix = "> "}
turn = {busy = "esc to interrupt", end = '-- done {turn}'}
session = {resume = true, id_flag = "--session-id", resume_flag = "--resume", transcripts = [".fake/sessions/*/{session}.jsonl"]}
capabilities = {gate_tools = "none"}

[[questions]]
match = "May I go on"
action = "ask"
yes = "y"
no = "n"
`,
}

// What the programs are to do. Each is killed in the line after "!tell", the first time that it comes to it. Told to go
// on with its session it asks for the same again.
const (
	inModel = "!tell\n!model %d\n!say end"
	atGate  = "!tell\n!bash release () { echo ran >> ran; }; release it\n!say end"
	inTool  = "!tell\n!bash echo ran >> ran; while true; do sleep 0.2; done\n!say end"
	// These ask no one, so that no one but the program itself sees that it is not to do it again.
	onScreen  = "!tell\n!question May I go on?\n!say end"
	inCommand = "!tell\n!bash if mkdir once; then echo ran >> ran; while true; do sleep 0.2; done; fi\n!say end"
)

// programMoments are the runs of the play: where each is when its toolrunner is killed.
var programMoments = []struct {
	driver, moment, task string
	most                 int
}{
	{"acp", "model", inModel, 101}, {"acp", "gate", atGate, 0}, {"acp", "tool", inTool, 0},
	{"claude", "model", inModel, 102}, {"claude", "gate", atGate, 0}, {"claude", "tool", inTool, 0},
	{"codex", "model", inModel, 103}, {"codex", "tool", inCommand, 0},
	{"pty", "model", inModel, 104}, {"pty", "gate", onScreen, 0}, {"pty", "tool", inCommand, 0},
}

// provider is a model that stops in the middle of its first answer to each program.
type provider struct {
	mu    sync.Mutex
	asked map[int]int // guarded by mu: requests by the most that they ask for
	over  context.Context
}

// ServeHTTP implements http.Handler.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Most int `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.asked[body.Most]++
	first := p.asked[body.Most] == 1
	p.mu.Unlock()
	if !first {
		_, _ = io.WriteString(w, `{"type":"message","usage":{"input_tokens":10,"output_tokens":20}}`) // the client may be gone
		return
	}
	_, _ = io.WriteString(w, `{"type":"message",`)
	w.(http.Flusher).Flush()
	select {
	case <-r.Context().Done():
	case <-p.over.Done():
	}
}

func (p *provider) times(most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[most]
}

// programs is the play of toolrunners that are killed while programs of others work.
type programs struct {
	*failover
	provider *provider
}

// TestPrograms kills a toolrunner with -9 while programs of others, one of each driver, work at it: in an answer of
// their model, at a gate, and in a tool call (make programs). Another toolrunner goes on.
func TestPrograms(t *testing.T) {
	sandboxtest.Need(t, bwrap.New("", ""))
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	cmd := "github.com/inspan/inspan/cmd/"
	p := &programs{&failover{fleet: newFleet(t, fleetConfig{nodes: 1, replicas: 1, bin: binaries(t, cmd+"executor", cmd+"toolrunner",
		cmd+"gatekeeper", "github.com/inspan/inspan/test/faults/guest")}), t: t, ctx: ctx}, &provider{asked: map[int]int{}, over: ctx}}
	p.plain, p.patience, p.zero = true, 5*time.Minute, time.Now()
	p.found()
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
	p.await("the agents are registered", func() bool {
		all, err := p.c.Agents(ctx)
		return err == nil && len(all) == len(programEntries)
	})
	before := p.middle()
	p.services = append(p.services, "toolrunner.2")
	p.start("toolrunner.2")
	p.await("the other one is there", func() bool {
		b, err := os.ReadFile(p.log("toolrunner.2"))
		return err == nil && strings.Contains(string(b), `"receiving"`)
	})
	p.stop("toolrunner.1", syscall.SIGKILL)
	p.tell("kill -9 of toolrunner.1, at which %d programs work", len(programMoments))
	t.Run("SAFE-7 CONT-4 no program and no command of a toolrunner that was killed stays on the machine", func(t *testing.T) {
		p.t = t
		p.await("all that it started is gone", func() bool { return len(before.left()) == 0 })
	})
	for _, m := range programMoments {
		t.Run(fmt.Sprintf("PLUS-12c SAFE-7 CONT-4 a program over %s whose toolrunner is killed (%s) goes on in its session at another one, and nothing is done twice",
			m.driver, m.moment), func(t *testing.T) {
			p.t = t
			p.judge(m.driver, m.moment, m.most)
		})
	}
	p.t = t
	p.await("the programs have ended with their runs", func() bool { return len(p.guests()) == 0 })
	t.Logf("transcript\n%s", p.said.String())
	for _, x := range p.panics() {
		t.Error(x)
	}
}

// found makes the runtimes and the agents.
func (p *programs) found() {
	p.t.Helper()
	model := httptest.NewServer(p.provider)
	p.t.Cleanup(model.Close)
	for _, dir := range []string{"sessions", "secrets", "agents/runtimes"} {
		if err := os.MkdirAll(filepath.Join(p.dir, dir), 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
	p.write("secrets/INSPAN_FAKE_BASE", model.URL)
	p.write("secrets/INSPAN_FAKE_KEY", "the-key-of-the-provider")
	for driver, entry := range programEntries {
		head, mode := fmt.Sprintf("name = \"my-%s\"\ncommand = %q\n", driver, filepath.Join(p.bin, "guest"))+programModel, "bwrap, network: {enabled: true, allowed_hosts: [other.example]}"
		if !isolated(driver) {
			entry, mode = fmt.Sprintf(entry, filepath.Join(p.dir, "sessions")), "host"
		}
		p.write("agents/runtimes/my-"+driver+".toml", head+entry)
		p.write("agents/"+driver+".prompt", "---\nname: "+driver+"\nruntime: my-"+driver+"\ntools: [bash, edit, other]\nsandbox: {mode: "+mode+`}
guards:
  - id: asks
    tool: bash
    match: {glob: "release *"}
    action: ask
    reason: a release needs a person
  - id: answers
    tool: other
    action: ask
    reason: a person answers
---
Work.
`)
	}
	p.env = func(string) []string {
		return []string{"INSPAN_MCP_SECRETS=" + filepath.Join(p.dir, "secrets"), "INSPAN_SANDBOX_READ_ONLY=" + p.bin, "INSPAN_WORKERS=32"}
	}
}

func (p *programs) id(driver, moment string) string { return driver + "-" + moment }

// file is what a run has in a file of its workspace; empty for none.
func (p *failover) file(id, name string) string {
	b, err := os.ReadFile(filepath.Join(p.dir, "work", "run", id, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return string(b)
}

// middle brings each program to its moment, and returns the processes that toolrunner.1 has then.
func (p *programs) middle() kin {
	p.t.Helper()
	most := int64(100000)
	for _, m := range programMoments {
		id, task := p.id(m.driver, m.moment), m.task
		if m.most > 0 {
			task = fmt.Sprintf(task, m.most)
		}
		if _, err := p.c.Start(p.ctx, events.Task{ID: id, Agent: m.driver, Task: task, MaxTokens: &most}); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, m := range programMoments {
		id := p.id(m.driver, m.moment)
		p.await(id+" is at its "+m.moment, func() bool {
			s, _ := p.state(id)
			if s.Status.Ended() {
				p.t.Fatalf("%s is %s: %+v", id, s.Status, s.Result)
			}
			switch m.moment {
			case "model":
				return p.provider.times(m.most) == 1 && p.stored(id, m.driver)
			case "gate":
				return len(s.Waiting()) == 1 && p.stored(id, m.driver)
			}
			return p.file(id, "ran") != "" && p.stored(id, m.driver)
		})
		p.tell("%s is at its %s", id, m.moment)
	}
	found := p.kin("toolrunner.1")
	if len(found) < len(programMoments) || len(p.guests()) != len(programMoments) {
		p.t.Fatalf("toolrunner.1 has %d processes, %d programs work, want %d", len(found), len(p.guests()), len(programMoments))
	}
	return found
}

// isolated reports whether the programs of a driver have a sandbox whose HOME is gone with it.
func isolated(driver string) bool {
	return !strings.Contains(programEntries[driver], "INSPAN_FAKE_SESSIONS")
}

// stored reports whether the log of a run names the session of its program, with its files where those would be gone.
func (p *programs) stored(id, driver string) bool {
	_, evs := p.state(id)
	return slices.ContainsFunc(evs, func(it client.Item) bool {
		d, ok := it.Payload.(*events.CallProgressedData)
		return ok && d.Session != "" && (d.Transcript != nil || !isolated(driver))
	})
}

// guests are the programs that run.
func (p *programs) guests() []string { return p.running(filepath.Join(p.bin, "guest")) }

// running are the processes of a program.
func (p *failover) running(program string) (all []string) {
	p.t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && exe == program {
			all = append(all, filepath.Base(filepath.Dir(link)))
		}
	}
	return all
}

// kin are processes, by their ids, with when each began.
type kin map[int]string

// kin are the processes that one has started, and what these have.
func (p *failover) kin(name string) kin {
	p.t.Helper()
	parents, begun := map[int]int{}, map[int]string{}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, path := range all {
		if id, parent, at, ok := stat(path); ok {
			parents[id], begun[id] = parent, at
		}
	}
	found, root := kin{}, p.pid(name)
	for id := range parents {
		for up := parents[id]; up > 1; up = parents[up] {
			if up == root {
				found[id] = begun[id]
				break
			}
		}
	}
	return found
}

// stat reads one of /proc; ok is false where the process is gone, or has ended and is not waited for.
func stat(path string) (id, parent int, begun string, ok bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, "", false
	}
	_, rest, _ := strings.Cut(string(b), ") ") // after the name, which may have blanks
	f := strings.Fields(rest)
	if len(f) < 20 || f[0] == "Z" {
		return 0, 0, "", false
	}
	id, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
	parent, _ = strconv.Atoi(f[1])
	return id, parent, f[19], true
}

// left are those that run still.
func (k kin) left() (all []int) {
	for _, id := range slices.Sorted(maps.Keys(k)) {
		if _, _, begun, ok := stat(fmt.Sprintf("/proc/%d/stat", id)); ok && begun == k[id] {
			all = append(all, id)
		}
	}
	return all
}

// judge has a run go on, and holds that it did so in its session and did nothing twice.
func (p *programs) judge(driver, moment string, most int) {
	p.t.Helper()
	id := p.id(driver, moment)
	asks := driver == "acp" || driver == "claude"
	switch {
	case moment == "gate":
		s := p.when(id, "the program asks again", func(s run.State) bool { return s.Status.Ended() || len(s.Gates) == 2 && len(s.Waiting()) == 1 })
		p.answer(id, s, p.c.Gates().Approve)
	case moment == "tool" && asks: // no one knows whether it was done
		s := p.when(id, "a person is asked", func(s run.State) bool { return s.Status.Ended() || len(s.Waiting()) == 1 })
		p.answer(id, s, p.c.Gates().Reject)
		p.when(id, "it is paused", func(s run.State) bool { return s.Status.Ended() || s.Status == events.Paused })
		if _, err := p.c.Control(p.ctx, id, events.Control{Action: "resume", By: "anna"}); err != nil {
			p.t.Fatal(err)
		}
	}
	s := p.when(id, "the run ends", func(s run.State) bool { return s.Status.Ended() })
	_, evs := p.state(id)
	var runners []string
	sessions, began := map[string]bool{}, map[string]int{}
	for _, it := range evs {
		switch d := it.Payload.(type) {
		case *events.CallStartedData:
			if d.Tool == events.ToolRuntime {
				runners = append(runners, p.process(d.Runner))
			}
			if d.Effect == "once" {
				began[d.Call]++
			}
		case *events.CallProgressedData:
			if d.Session != "" {
				sessions[d.Session] = true
			}
		}
	}
	p.tell("%s is %s, at %v, in %d session", id, s.Status, runners, len(sessions))
	output := ""
	if s.Plan != nil {
		output = s.Plan.Steps[0].Output
	}
	if s.Status != events.Completed || !strings.Contains(output, "prompt 2") || !strings.Contains(output, "end") {
		p.t.Errorf("%s: %+v, %q", s.Status, s.Result, output)
	}
	if !slices.Equal(runners, []string{"toolrunner.1", "toolrunner.2"}) || len(sessions) != 1 {
		p.t.Errorf("it was started at %v, in the sessions %v", runners, slices.Sorted(maps.Keys(sessions)))
	}
	for call, n := range began {
		if n != 1 {
			p.t.Errorf("call %s, whose effect is once, began %d times", call, n)
		}
	}
	if ran := p.file(id, "ran"); ran != "ran\n" && moment != "model" && (moment != "gate" || asks) {
		p.t.Errorf("it was done %d times", strings.Count(ran, "\n"))
	}
	if moment == "model" && (p.provider.times(most) != 2 || s.Lost.Requests != 1) {
		p.t.Errorf("the model was asked %d times, %+v are lost", p.provider.times(most), s.Lost)
	}
}

// answer answers the gate that a run waits at.
func (p *failover) answer(id string, s run.State, say func(context.Context, client.Decision) (run.State, error)) {
	p.t.Helper()
	if s.Status.Ended() {
		return // that is an error of itself
	}
	if _, err := say(p.ctx, client.Decision{Run: id, Gate: s.Waiting()[0].ID, By: "anna", Reason: "so"}); err != nil {
		p.t.Fatal(err)
	}
}
