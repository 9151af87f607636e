//go:build slow

package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/test/guests"
)

// theRealKey is the key of the provider, which no program and no event has.
const theRealKey = "sk-the-key-of-the-provider"

// guestWorld is a station with one real program, and what answers in the place of its model.
type guestWorld struct {
	*world
	guest guests.Guest
	mock  *guests.Mock
	file  string
}

func (g guestWorld) on(t *testing.T) guestWorld {
	g.world = g.world.on(t)
	return g
}

// TestRealRuntimes has agents that are carried out by real programs of others, in real sandboxes. Only their models are
// not: a mock of the providers that others wrote answers with what the plays say.
func TestRealRuntimes(t *testing.T) {
	dir := os.Getenv("INSPAN_TEST_RUNTIMES")
	if dir == "" {
		t.Skip("NOT TESTED: INSPAN_TEST_RUNTIMES names no folder of the programs: use make runtimes")
	}
	sandboxtest.Need(t, bwrap.New("", ""))
	for _, g := range guests.All() {
		t.Run(g.Preset, func(t *testing.T) { testGuest(t, g, dir) })
	}
}

func testGuest(t *testing.T, g guests.Guest, dir string) {
	e := runtime.Presets()[g.Preset]
	file := g.Install(t, dir)
	w := guestWorld{world: newWorld(t), guest: g, file: file}
	w.ports.Egress = network(t, func(http.ResponseWriter, *http.Request) {})
	w.mock = guests.Serve(t, dir, g.Fixtures(playsOf(g), w.at))
	secrets := filepath.Join(w.dir, "secrets")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{e.Model.KeyEnv: theRealKey, e.Model.BaseEnv: w.mock.URL + g.Base} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.tune = func(c *service.Config) {
		c.MCPSecrets, c.SandboxReadOnly = secrets, []string{filepath.Dir(file)}
	}
	r := e.Runtime()
	r.Command[0] = file
	w.agent(events.Agent{Name: "guest", Model: "runtime/" + g.Preset, Prompt: "Work.", Runtime: &r,
		Guards: []events.Rule{
			{ID: "no-deploys", Tool: "bash", Match: events.Match{Glob: "deploy *"}, Action: "deny", Reason: "nothing is deployed"},
			{ID: "no-cat", Tool: "bash", Match: events.Match{Glob: "cat *secret.txt"}, Action: "deny", Reason: "it is secret"},
			{ID: "no-read", Tool: "read", Match: events.Match{Path: "**secret.txt"}, Action: "deny", Reason: "it is secret"},
			{ID: "asks", Tool: "bash", Match: events.Match{Glob: "release *"}, Action: "ask", Reason: "a release needs a person"}},
		Sandbox: events.Sandbox{Mode: "bwrap", AllowedHosts: []string{"other.example"}},
		Tools:   append(events.InnerTools(), events.ToolRuntime)}, "")
	first := w.start(events.Toolrunner)
	w.start(events.Planner, events.Executor, events.Gatekeeper, events.Persister)
	t.Run("PLUS-12a PLUS-12e ID-3a ID-6a it writes a file and runs a command, and what that used is counted", func(t *testing.T) { w.on(t).works() })
	if g.Asks {
		lose := func(string) {
			first.stop()
			first = w.start(events.Toolrunner) // it lives for as long as the station, and not as a subtest
		}
		t.Run("PLUS-12a SAFE-1 what a rule refuses does not happen", func(t *testing.T) { w.on(t).refused() })
		t.Run("PLUS-12b GATE-9 a gate waits for a person, and then it happens", func(t *testing.T) { w.on(t).gated() })
		t.Run("PLUS-12c CONT-4 it is killed at a gate, goes on in its session, and the act happens once", func(t *testing.T) {
			w := w.on(t)
			w.lostAtGate("killed", func(id string) { w.kill(id) })
		})
		if g.Moves {
			t.Run("PLUS-12c SAFE-7 its toolrunner is stopped at a gate, it goes on in its session, and the act happens once", func(t *testing.T) { w.on(t).lostAtGate("lost", lose) })
		} else {
			t.Run("PLUS-12c SAFE-7 its toolrunner is stopped at a gate, with its session, and the outcome is unknown", func(t *testing.T) { w.on(t).lostForGood(lose) })
		}
		t.Run("PLUS-12c CONT-4 it is killed in a command, which is unknown then, and not made again without a person", func(t *testing.T) { w.on(t).killedInCommand() })
	} else {
		t.Run("PLUS-12c CONT-4 it is killed in a command, and goes on in its session", func(t *testing.T) { w.on(t).killedInCommand() })
		t.Logf("NOT TESTED: %s asks no one, so there is no call that a rule could refuse, no gate to wait at, and no "+
			"toolrunner that is stopped at one", g.Preset)
	}
	t.Run("PLUS-12c PLUS-12e it is killed in an answer of its model, and nothing is lost or done twice", func(t *testing.T) { w.on(t).killedInAnswer() })
	t.Run("PLUS-12e PLUS-3 it is refused its model when the budget of the run is spent", func(t *testing.T) { w.on(t).spends() })
	t.Run("PLUS-12e SAFE-1 the key of the provider is in no event", func(t *testing.T) { w.on(t).keepsKey() })
}

// most is the budget of tokens that a play spends.
const most = 120_000

// playsOf are the answers of the model in each play.
func playsOf(g guests.Guest) map[string][]guests.Step {
	waits := "echo begun >> log; until [ -e go ]; do sleep 0.1; done; echo ended >> log"
	end := guests.Step{Text: "All is done."}
	return map[string][]guests.Step{
		"works": {{Call: g.Write, What: "made.txt"}, {Call: g.Bash, What: "echo ran > ran.txt; echo out-of-it"}, end},
		"refused": {{Call: g.Bash, What: "deploy now; touch deployed.txt"}, {Call: g.Bash, What: "cat secret.txt"},
			{Call: g.Read, What: "secret.txt"}, {Call: g.Bash, What: "echo and on"}, end},
		"gated":   {{Call: g.Bash, What: "release () { echo released >> released.txt; }; release it"}, end},
		"killed":  {{Call: g.Bash, What: "release () { echo released >> released.txt; }; release it"}, {Call: g.Bash, What: "release () { echo released >> released.txt; }; release it"}, end},
		"lost":    {{Call: g.Bash, What: "release () { echo released >> released.txt; }; release it"}, {Call: g.Bash, What: "release () { echo released >> released.txt; }; release it"}, end},
		"command": {{Call: g.Bash, What: waits}, {Call: g.Bash, What: "cat log"}, {Call: g.Bash, What: waits}, end},
		"answer":  {{Call: g.Bash, What: "echo one >> steps"}, {Text: strings.Repeat("It is a long story. ", 400), Slow: true}, {Call: g.Bash, What: "cat steps"}, end},
		"spends":  {{Call: g.Bash, What: "echo one >> steps", Input: most - 3000}, end},
	}
}

// id is that of the run of a play.
func (g guestWorld) id(play string) string { return g.guest.Preset + "-" + play }

// at is the workspace of a play.
func (g guestWorld) at(play string) string { return filepath.Join(g.dir, "work", "run", g.id(play)) }

// read is a file of the workspace of a play, empty where it is not there.
func (g guestWorld) read(play, name string) string {
	b, err := os.ReadFile(filepath.Join(g.at(play), name))
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	return string(b)
}

// play begins the run of a play.
func (g guestWorld) play(play string, most *int64) string {
	g.t.Helper()
	g.task(events.Task{ID: g.id(play), Agent: "guest", Task: guests.KeyOf(play), MaxTokens: most})
	return g.id(play)
}

// outcome is what became of the step.
func outcome(s run.State) string {
	if len(s.Plan.Steps) == 0 {
		return ""
	}
	return s.Plan.Steps[0].Output + s.Plan.Steps[0].Error
}

func (g guestWorld) completed(play string, s run.State) {
	g.t.Helper()
	if s.Status != events.Completed {
		g.t.Fatalf("%s: %s\n%+v\n%s\n%s", s.Status, outcome(s), inner(s), g.story(g.id(play)), g.mock.Said())
	}
	if r := replayed(g.t.(*testing.T), programLaw(g.t.(*testing.T)), g.log(g.id(play))); !r.OK() {
		g.t.Errorf("a replay decides otherwise: %+v", r)
	}
}

func (g guestWorld) works() {
	s := g.ended(g.play("works", nil))
	g.completed("works", s)
	if got := g.read("works", "made.txt"); got != "made\n" || g.read("works", "ran.txt") != "ran\n" || !strings.Contains(outcome(s), "All is done.") {
		g.t.Errorf("it wrote %q, and said %q", got, outcome(s))
	}
	if s.Tokens.Input != 3*guests.InputOfAnswer || s.Tokens.Output != 3*guests.OutputOfAnswer || s.Lost.Requests != 0 {
		g.t.Errorf("%+v, lost %+v\n%s", s.Tokens, s.Lost, g.story(g.id("works")))
	}
	calls := inner(s)
	if !g.guest.Asks {
		return
	}
	if len(calls) != 2 || calls[0].CallName != g.guest.Edits || calls[1].CallName != "bash" || !calls[0].Success ||
		!calls[1].Success || !strings.Contains(calls[1].Result, "out-of-it") {
		g.t.Fatalf("%+v", calls)
	}
	at := g.order(g.id("works"), calls[1].ID)
	if !(0 < at[events.CallRequested] && at[events.CallRequested] < at[events.CallAllowed] &&
		at[events.CallAllowed] < at[events.CallStarted] && at[events.CallStarted] < at[events.CallFinished]) {
		g.t.Errorf("%v\n%s", at, g.story(g.id("works")))
	}
}

// refused has calls that a rule refuses: one that the program asks about by itself, and two that it makes unasked.
func (g guestWorld) refused() {
	if err := os.MkdirAll(g.at("refused"), 0o755); err != nil {
		g.t.Fatal(err)
	}
	s := g.ended(g.play("refused", nil))
	g.completed("refused", s)
	calls := inner(s)
	var rules []string
	for _, c := range calls {
		if c.Outcome == run.OutcomeRefused {
			rules = append(rules, c.Rule)
		}
	}
	if !slices.Equal(rules, []string{"no-deploys", "no-cat", "no-read"}) || g.read("refused", "deployed.txt") != "" ||
		len(calls) != 4 || !calls[3].Success {
		g.t.Errorf("%v, %+v", rules, calls)
	}
}

func (g guestWorld) approve(id string) {
	o := g.opened(id)
	g.publish(o.AnswerSubject+".anna", `{"decision":"approve","proposal_hash":"`+o.ProposalHash+`"}`)
}

func (g guestWorld) gated() {
	id := g.play("gated", nil)
	s := g.await(id, "waiting", func(s run.State) bool { return waiting(s) || s.Status.Ended() })
	if !waiting(s) || g.read("gated", "released.txt") != "" {
		g.t.Fatalf("%s, and the file has %q\n%s\n%s", s.Status, g.read("gated", "released.txt"), g.story(id), g.mock.Said())
	}
	g.approve(id)
	s = g.ended(id)
	g.completed("gated", s)
	if got := g.read("gated", "released.txt"); got != "released\n" || len(s.Gates) != 1 {
		g.t.Errorf("%q, %d gates", got, len(s.Gates))
	}
}

// lostAtGate loses the program while it waits for a person.
func (g guestWorld) lostAtGate(play string, lose func(id string)) {
	id := g.play(play, nil)
	g.await(id, "waiting", func(s run.State) bool { return waiting(s) || s.Status.Ended() })
	lose(id)
	s := g.await(id, "waiting again", func(s run.State) bool { return len(s.Gates) == 2 && waiting(s) || s.Status.Ended() })
	if s.Status.Ended() || g.read(play, "released.txt") != "" {
		g.t.Fatalf("%s: %s, and the file has %q\n%s\n%s", s.Status, outcome(s), g.read(play, "released.txt"), g.story(id), g.mock.Said())
	}
	g.approve(id)
	s = g.ended(id)
	g.completed(play, s)
	if got := g.read(play, "released.txt"); got != "released\n" {
		g.t.Errorf("%q", got)
	}
	g.oneSession(id)
}

// lostForGood loses the program with the sandbox that has its session.
func (g guestWorld) lostForGood(lose func(id string)) {
	id := g.play("lost", nil)
	g.await(id, "waiting", func(s run.State) bool { return waiting(s) || s.Status.Ended() })
	lose(id)
	s := g.ended(id)
	last := s.ToolCallHistory.At(s.ToolCallHistory.Len() - 1)
	if s.Status != events.Failed || last.Code != events.OutcomeUnknown || g.read("lost", "released.txt") != "" {
		g.t.Errorf("%s: %+v, and the file has %q\n%s", s.Status, last, g.read("lost", "released.txt"), g.story(id))
	}
	g.t.Logf("%s: %s", s.Status, outcome(s))
}

// oneSession checks that all programs of a run worked in the same session.
func (g guestWorld) oneSession(id string) {
	g.t.Helper()
	var all []string
	for _, r := range g.events(id) {
		f, err := events.Decode(r.Bytes)
		if err != nil || r.Kind != events.CallProgressed {
			continue
		}
		var d events.CallProgressedData
		if err := json.Unmarshal(f.Data, &d); err != nil {
			g.t.Fatal(err)
		}
		if d.Session != "" && !slices.Contains(all, d.Session) {
			all = append(all, d.Session)
		}
	}
	if len(all) != 1 {
		g.t.Errorf("sessions %q", all)
	}
}

// killedInCommand kills the program in a command that ends once there is a file, which is made when the program was
// started again: nothing is left of the first command that would end then, too.
func (g guestWorld) killedInCommand() {
	const play = "command"
	id := g.play(play, nil)
	g.until("begun", func() bool { return g.read(play, "log") == "begun\n" || g.state(id).Status.Ended() })
	g.kill(id)
	finish := func() {
		if err := os.WriteFile(filepath.Join(g.at(play), "go"), nil, 0o644); err != nil {
			g.t.Fatal(err)
		}
	}
	if g.guest.Asks { // the same command comes again, and stands before a person
		s := g.await(id, "waiting", func(s run.State) bool { return waiting(s) || s.Status.Ended() })
		if s.Status.Ended() || g.read(play, "log") != "begun\n" {
			g.t.Fatalf("%s: %s, and the file has %q\n%s\n%s", s.Status, outcome(s), g.read(play, "log"), g.story(id), g.mock.Said())
		}
		finish()
		g.approve(id)
	} else {
		g.until("begun again", func() bool { return g.read(play, "log") == "begun\nbegun\n" || g.state(id).Status.Ended() })
		finish()
	}
	s := g.ended(id)
	g.completed(play, s)
	if got := g.read(play, "log"); got != "begun\nbegun\nended\n" {
		g.t.Errorf("%q, %s\n%s\n%s", got, outcome(s), g.story(id), g.mock.Last(g.t, guests.KeyOf(play)))
	}
	g.oneSession(id)
	if calls := inner(s); g.guest.Asks && (len(calls) != 3 || calls[0].Code != events.OutcomeUnknown ||
		!strings.Contains(calls[1].Result, "begun") || !calls[2].Success) {
		g.t.Errorf("%+v", calls)
	}
}

func (g guestWorld) killedInAnswer() {
	id := g.play("answer", nil)
	asked := func(n int) func() bool {
		return func() bool {
			c := g.count(id)
			return c[string(events.CallReserved)] == n && c[string(events.CallSettled)] == n-1 || g.state(id).Status.Ended()
		}
	}
	g.until("asked for the second time", asked(2))
	g.kill(id)
	s := g.ended(id)
	g.completed("answer", s)
	if got := g.read("answer", "steps"); got != "one\n" || s.Lost.Requests != 1 {
		g.t.Errorf("%q, lost %+v", got, s.Lost)
	}
	g.oneSession(id)
	if last := g.mock.Last(g.t, guests.KeyOf("answer")); !strings.Contains(last, "interrupted") || !strings.Contains(last, "echo one") {
		g.t.Errorf("the session did not go on: %.2000s", last)
	}
}

func (g guestWorld) spends() {
	most := int64(most)
	s := g.ended(g.play("spends", &most))
	c := g.count(g.id("spends"))
	if got := g.read("spends", "steps"); got != "one\n" || budget.Used(s).Tokens > most || c[string(events.CallReserved)] != 1 {
		g.t.Errorf("%q, used %d, %v\n%s", got, budget.Used(s).Tokens, c, g.mock.Said())
	}
	if said := outcome(s); !strings.Contains(said, "refused by the station") {
		g.t.Errorf("%s: %q", s.Status, said)
	}
	g.t.Logf("%s: %s", s.Status, outcome(s))
}

func (g guestWorld) keepsKey() {
	all := g.events(g.id("works"))
	if len(all) == 0 {
		g.t.Fatal("the run that writes a file was not made")
	}
	for _, r := range all {
		if bytes.Contains(r.Bytes, []byte(theRealKey)) {
			g.t.Errorf("the key is in %s", r.Kind)
		}
	}
}

// kill ends the program of a run, with the signal that no program can see.
func (g guestWorld) kill(id string) {
	g.t.Helper()
	at := filepath.Join(g.dir, "work", "run", id)
	g.until("started", func() bool {
		killed := false
		for _, p := range guests.ProcessesIn(at, g.file) {
			killed = syscall.Kill(p, syscall.SIGKILL) == nil || killed
		}
		return killed
	})
}
