package gatekeeper

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
)

// forbidden are simple commands that a locked built-in rule denies.
var forbidden = []string{"git push --force origin main", "git push -f", "git push origin +main", "rm -rf /", "rm -r -f ..", "find / -delete",
	"mkfs.ext4 /dev/sda1", "shutdown now", "dd if=/dev/zero of=/dev/sda", "git push --mirror", "git push origin :main"}

// prefixes make another simple command of a simple command; quotes take any command line as one word, %q, and are
// simple commands; compounds hold any command line.
var (
	prefixes = []string{"X=1 %s", "env X=1 %s", "sudo %s", "timeout 5 %s", "nice -n 5 %s", "xargs -I{} %s", "command %s", "exec %s", "stdbuf -o0 %s",
		"nohup %s", "sudo -u root env -i %s", `\%s`, "/usr/bin/%s", "coproc %s"}
	quotes    = []string{"sh -c %q", "bash -lc %q", "eval %q", "trap %q EXIT", "env -S %q", "su -c %q"}
	compounds = []string{"true && %s", "false || %s", "ls; %s", "ls | %s", "( %s )", "{ %s; }", "! %s", "echo $( %s )", "echo `%s`", "%s &",
		"if true; then %s; fi", "while true; do %s; break; done", "for i in 1 2; do %s; done", "cat <(%s)", "f() { %s; }; f", "\n\n%s", "ls # no\n%s",
		"time %s", "cat <<EOF\n$( %s )\nEOF", "case x in x) %s;; esac", "%s 2>/dev/null", "x=$( %s )", "[ -n \"$( %s )\" ]"}
)

// wrap hides a command line in others.
func wrap(t *rapid.T, text string) string {
	simple := true
	for range rapid.IntRange(0, 4).Draw(t, "depth") {
		kinds := [][]string{quotes, compounds}
		if simple {
			kinds = append(kinds, prefixes)
		}
		at := rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")
		w := rapid.SampledFrom(kinds[at]).Draw(t, "wrap")
		if strings.Contains(w, "`") && strings.Contains(text, "`") {
			w = "echo $( %s )" // the inner ones would end it
		}
		if w[0] == '\\' && text[0] == '\\' {
			w = "sudo %s" // two are a backslash in the name
		}
		if strings.HasPrefix(w, "env -S") && slices.Contains([]string{"coproc", "time", "!"}, strings.Fields(text)[0]) {
			w = "bash -lc %q" // env knows no word of the shell: it would look for a program of that name
		}
		if word := "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"; at == 0 {
			text = strings.Replace(w, "%q", word, 1)
		} else {
			text = strings.Replace(w, "%s", text, 1)
		}
		// Behind "timeout 5" an assignment or a word of the shell itself is the name of a program that is not there.
		simple = at != 1 && !slices.Contains([]string{"X=1", "command", "exec", "eval", "trap", "coproc"}, strings.Fields(w)[0])
	}
	return text
}

// liberal are what an agent file may say to be let through.
func liberal(t *rapid.T) events.Agent {
	a := runtest.Agent("main", "bash", "read", "write", "edit", "glob", "grep")
	a.Digest = strings.Repeat("0", 64) // that of another agent: who makes a file can claim any
	ids := []string{"force-push", "recursive-delete-beyond", "outside-workspace", "mine", "power"}
	for i := range rapid.IntRange(0, 3).Draw(t, "own rules") {
		r := events.Rule{ID: rapid.SampledFrom(ids).Draw(t, "id"), Action: guard.Allow}
		if rapid.Bool().Draw(t, "fresh") {
			r.ID = fmt.Sprintf("own-%d", i)
		}
		if rapid.Bool().Draw(t, "remove") {
			r = events.Rule{ID: r.ID, Remove: true}
		}
		a.Guards = append(a.Guards, r)
	}
	if rapid.Bool().Draw(t, "hook") {
		a.Hooks = []events.Hook{{ID: "yes", On: events.OnPreTool, Builtin: "audit"}}
	}
	return a
}

// smuggled are arguments with more in them than the tool knows.
func smuggled(t *rapid.T, key, value string) json.RawMessage {
	v, _ := json.Marshal(value)
	harmless, _ := json.Marshal("ls")
	if rapid.IntRange(0, 3).Draw(t, "plain") > 0 {
		return json.RawMessage(fmt.Sprintf(`{%q:%s}`, key, v))
	}
	forms := []string{`{%[1]q:%[3]s,%[1]q:%[2]s}`, `{%[1]q:%[2]s,"guards":[],"hooks":[],"approved":true}`, `{%[1]q:%[3]s,%[4]q:%[2]s}`,
		`{%[4]q:%[2]s,%[1]q:%[3]s}`, `{%[1]q:[%[2]s]}`, `{%[1]q:%[2]s,"timeout_ms":1}`, ` {%[1]q :%[2]s } `, `{%[1]q:%[2]s}{}`}
	return json.RawMessage(fmt.Sprintf(rapid.SampledFrom(forms).Draw(t, "form"), key, v, harmless, strings.ToUpper(key[:1])+key[1:]))
}

// bad draws a call that must never be made.
func bad(t *rapid.T) (name string, input json.RawMessage) {
	if rapid.Bool().Draw(t, "shell") {
		text := wrap(t, rapid.SampledFrom(forbidden).Draw(t, "command"))
		return "bash", smuggled(t, "command", text)
	}
	path := rapid.SampledFrom([]string{"../x", "/etc/passwd", "a/../../x", "~/x", `..\x`, "./../x", "/"}).Draw(t, "path")
	name = rapid.SampledFrom([]string{"read", "write", "edit", "grep"}).Draw(t, "tool")
	return name, smuggled(t, "path", path)
}

// harmless reports what a tool that decodes these arguments would do is nothing bad.
func harmless(name string, input json.RawMessage) bool {
	var in struct {
		Command string `json:"command"`
		Path    string `json:"path"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return true // no tool takes it
	}
	if name == "bash" {
		return in.Command == "ls"
	}
	return in.Path == "ls"
}

func TestPROP25(t *testing.T) {
	t.Parallel()
	registry, err := tool.NewRegistry(tools.Builtin()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("PROP-25 GUARD-9 on every path to a tool the guards are evaluated, and nothing an agent supplies avoids it", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			role := &Role{cfg: Config{Tools: registry, ToolsOf: func(events.Agent) *tool.Registry { return registry }}}
			warm := runtest.Agent("other", "bash") // an agent of the same digest was judged before
			warm.Digest = strings.Repeat("0", 64)
			if _, err := role.rules(warm); err != nil {
				t.Fatal(err)
			}
			b := runtest.New("main", "r1")
			created := runtest.Created()
			agent := liberal(t)
			created.Agents = map[string]events.Agent{"main": agent}
			created.Options.Autonomy = rapid.IntRange(1, 5).Draw(t, "autonomy")
			step := runtest.Step("a")
			if rapid.Bool().Draw(t, "sub") { // the call comes from an agent that the plan brought along
				step.Agent = "sub"
			}
			plan := runtest.Plan(step)
			if step.Agent == "sub" {
				sub := agent
				sub.Name, sub.Guards = "sub", liberal(t).Guards
				plan.Agents = map[string]events.Agent{"sub": sub}
			} else {
				plan.Steps[0].Agent = "main"
			}
			b.Append(created, runtest.Started(), plan, runtest.Ready("a"), runtest.Allowed("a"))
			var calls []events.RequestedCall
			for i := range rapid.IntRange(1, 3).Draw(t, "calls") {
				name, input := bad(t)
				c := runtest.Asked(1, i+1, name, `{}`)
				c.Input = input
				calls = append(calls, c)
			}
			paused := rapid.Bool().Draw(t, "paused")
			say(t, b, runtest.Turn(1, "a", "calls", calls...))
			if paused {
				b.Append(runtest.Paused("later"), runtest.Resumed())
			}
			nothingBegins(t, b.State())
			follow(t, b, role)
		})
	})
}

// say says a turn whose calls may hold what no event can.
func say(t *rapid.T, b *runtest.Builder, turn *events.TurnFinishedData) {
	for i, c := range turn.Calls {
		if !json.Valid(c.Input) {
			turn.Calls[i].Input = json.RawMessage(`{}`)
		}
	}
	b.Append(turn)
}

// nothingBegins fails where the toolrunner would begin a call without a verdict.
func nothingBegins(t *rapid.T, s run.State) {
	for id, c := range s.Open {
		if c.Phase != run.CallRequested {
			continue
		}
		if d := call.Next(s, id, time.Unix(0, 0), call.Lease{}); d.Kind != call.Nothing {
			t.Fatalf("call %s without a verdict: %+v", id, d)
		}
	}
}

// follow looks, lets a person approve whatever is asked, and looks again: no bad call may be allowed.
func follow(t *rapid.T, b *runtest.Builder, role *Role) {
	for range 4 {
		law := role.policy(nil, map[string]bool{})
		law.Hooks = func(events.Agent, *run.Call, string, json.RawMessage) ([]events.HookAnswer, bool) {
			return []events.HookAnswer{{Hook: "agent:yes", On: events.OnPreTool, Answer: events.HookContinue}}, true
		}
		said, err := gate.Look(b.State(), time.Unix(0, 0), law)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range said {
			allowed, ok := p.(*events.CallAllowedData)
			if !ok {
				continue
			}
			s := b.State()
			c := s.Open[allowed.Call]
			if g := s.GateFor(c.Step, c.ID); g != nil && g.Rule == guard.UnclearShell {
				continue // no one could tell what it is, and a person has said yes to it
			}
			if string(c.Input) != "{}" && !harmless(c.Tool, c.Input) {
				t.Fatalf("%s %s is allowed by %q", c.Tool, c.Input, allowed.Rule)
			}
		}
		b.Append(said...)
		nothingBegins(t, b.State())
		s := b.State()
		for _, g := range s.Waiting() {
			b.Append(runtest.Yes(g))
		}
	}
}
