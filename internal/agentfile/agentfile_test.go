package agentfile_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

// file makes an agent file with a model and the lines given.
func file(lines string) []byte {
	return []byte("---\nmodel: scripted/x\nharness: agentic\n" + lines + "\n---\nbody\n")
}

// all takes a joined error apart.
func all(err error) []*agentfile.Error {
	var out []*agentfile.Error
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range j.Unwrap() {
			out = append(out, all(e)...)
		}
		return out
	}
	if e, ok := errors.AsType[*agentfile.Error](err); ok {
		return append(out, e)
	}
	return nil
}

// refusals are files with exactly one thing wrong.
var refusals = []struct {
	name, lines string
	code, path  string
	line        int
	text        string // part of the error's text
}{
	{"ID-10 an unknown key", "toolz: [read]", "unknown_key", "toolz", 4, "did you mean tools?"},
	{"ID-10 an unknown key far below", "sandbox:\n  network:\n    enabeld: true", "unknown_key", "sandbox.network.enabeld", 6, "did you mean enabled?"},
	{"ID-10 an unknown key like no other", "frobnicate: 1", "unknown_key", "frobnicate", 4, "known keys: "},
	{"LOOP-2 an unknown key in harness_config", "harness_config: {max_stps: 3}", "unknown_key", "harness_config.max_stps", 4, "did you mean max_steps?"},
	{"ID-10 what is left of station", "station: {max_steps: 3, color: red}", "unknown_key", "station.color", 4, ""},
	{"ID-10 a name that is not the file's", "name: other", "value", "name", 4, `want "demo", got "other"`},
	{"ID-10 a key twice", "plan: model\nplan: model", "yaml", "", 5, "already defined"},
	{"ID-10 a key without a value", "tools:", "type", "tools", 4, "leave the key out"},
	{"ID-10 two documents", "plan: model\n...\nplan: model", "yaml", "", 2, "more than one"},
	{"ID-10 an anchor", "description: &a x", "yaml", "description", 4, "anchors"},
	{"ID-10 an alias", "tools: [*a]", "yaml", "", 4, ""},
	{"ID-10 a tag", "description: !!binary aGk=", "yaml", "description", 4, "tags"},
	{"ID-10 broken YAML", "tools: [read", "yaml", "", 4, "not YAML"},
	{"ID-10 a list for a text", "description: [x]", "type", "description", 4, "want text, got a list"},
	{"ID-10 a number for a text", "description: 5", "type", "description", 4, "put it in quotes"},
	{"TOOL-14 a tool twice", "tools: [read, bash, read]", "duplicate", "tools[2]", 4, "named twice"},
	{"C27 a tool twice by its alias", "tools: [read, read_file]", "duplicate", "tools[1]", 4, "read_file is read"},
	{"TOOL-14 a glob over tools", `tools: ["git_*"]`, "value", "tools[0]", 4, "patterns are allowed only for mcp"},
	{"TOOL-14 a tool that is no text", "tools: [5]", "type", "tools[0]", 4, ""},
	{"LOOP-1 another loop", "x-a: 1\nharness_config: 5", "type", "harness_config", 5, "want a mapping"},
	{"LOOP-2 no steps", "harness_config: {max_steps: 0}", "value", "harness_config.max_steps", 4, "want 1 to 10000, got 0"},
	{"LOOP-2 a timeout without a unit", "harness_config: {timeout: 10}", "type", "harness_config.timeout", 4, ""},
	{"LOOP-2 a timeout that is none", "harness_config: {timeout: soon}", "value", "harness_config.timeout", 4, "such as 30s"},
	{"LOOP-2 two values of one setting", "max_steps: 3\nharness_config: {max_steps: 4}", "conflict", "max_steps", 4, "want 4 as in harness_config.max_steps, got 3"},
	{"LOOP-2 two values of the doom loop", "harness_config: {doom_loop_threshold: 3, doom_loop: {threshold: 4}}", "conflict", "harness_config.doom_loop.threshold", 4, ""},
	{"ID-10 autonomy 0", "autonomy: 0", "value", "autonomy", 4, "want 1 to 5"},
	{"ID-10 autonomy 6", "harness_config: {autonomy: 6}", "value", "harness_config.autonomy", 4, "want 1 to 5"},
	{"ID-10 a plan of another kind", "plan: modle", "value", "plan", 4, "nearest is model"},
	{"ID-10 temperature", "config: {temperature: 2.1}", "value", "config.temperature", 4, "want 0 to 2"},
	{"ID-10 too many retries", "harness_config: {retry: {max_retries: 21}}", "value", "harness_config.retry.max_retries", 4, "0 to 20"},
	{"C26 a mode no one knows", "sandbox: {mode: dokcer}", "value", "sandbox.mode", 4, "nearest is docker"},
	{"C26 workspace and sandbox differ", "sandbox: {mode: host}\nworkspace: {mode: sandbox}", "conflict", "workspace.mode", 5, ""},
	{"C26 workspace on the host and docker", "sandbox: {mode: docker}\nworkspace: {mode: host}", "conflict", "workspace.mode", 5, ""},
	{"SBX-13 a host that is none", "sandbox:\n  network:\n    enabled: true\n    allowed_hosts:\n      - a.example\n      - http://b.example", "value", "sandbox.network.allowed_hosts[1]", 9, "allowed host"},
	{"SBX-13 a host that is never reached", "sandbox: {network: {enabled: true, allowed_hosts: [169.254.169.254]}}", "value", "sandbox.network.allowed_hosts[0]", 4, "never reachable"},
	{"SBX-20 hosts where nothing keeps commands to them", "sandbox: {mode: host, network: {enabled: true, allowed_hosts: [a.example]}}", "conflict", "sandbox.network.allowed_hosts", 4, "bwrap"},
	{"C26 a size", "sandbox: {memory: lots}", "value", "sandbox.memory", 4, "4Gi"},
	{"a rule without id", "guards: [{action: deny}]", "missing", "guards[0].id", 4, ""},
	{"a rule with a bad id", "guards: [{id: 'a b', action: deny}]", "value", "guards[0].id", 4, ""},
	{"a rule without action", "guards: [{id: a}]", "missing", "guards[0].action", 4, "allow, deny or ask"},
	{"a rule with another action", "guards: [{id: a, action: dney}]", "value", "guards[0].action", 4, "nearest is deny"},
	{"a rule twice", "guards: [{id: a, action: deny}, {id: a, action: ask}]", "duplicate", "guards[1]", 4, ""},
	{"a rule no one would apply", "guards: [{id: a, action: deny, on: run_stop}]", "value", "guards[0].on", 4, "have no effect"},
	{"a rule for a role", "guards: [{id: a, action: deny, roles: [x]}]", "value", "guards[0].roles", 4, ""},
	{"a rule that runs a command", "guards: [{id: a, action: deny, run: ./x}]", "value", "guards[0].run", 4, ""},
	{"a rule with an unknown condition", "guards: [{id: a, action: deny, match: {flag_any: [x]}}]", "unknown_key", "guards[0].match.flag_any", 4, "flags_any"},
	{"a rule with an empty condition", "guards: [{id: a, action: deny, match: {argv: []}}]", "value", "guards[0].match.argv", 4, ""},
	{"a rule with an empty word", `guards: [{id: a, action: deny, match: {argv: [git, ""]}}]`, "value", "guards[0].match.argv", 4, ""},
	{"a rule that excepts everything", "guards: [{id: a, action: deny, except: {}}]", "value", "guards[0].except", 4, ""},
	{"a rule that removes and acts", "guards: [{id: a, remove: true, tool: bash}]", "conflict", "guards[0].tool", 4, ""},
	{"a permission of another kind", `permissions: {bash: {"ls *": yes}}`, "value", `permissions.bash."ls *"`, 4, "allow, deny, ask"},
	{"a permission for nothing", `permissions: {bash: {"": deny}}`, "value", "permissions.bash", 4, ""},
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, _, err := agentfile.Parse("demo", file(c.lines))
			errs := all(err)
			if len(errs) != 1 {
				t.Fatalf("%d errors, want 1: %v", len(errs), err)
			}
			e := errs[0]
			if e.Code != c.code || e.Line != c.line || c.path != "" && e.Path != c.path || e.File != "demo.prompt" {
				t.Errorf("got %s at %q line %d of %s; want %s at %q line %d", e.Code, e.Path, e.Line, e.File, c.code, c.path, c.line)
			}
			if !strings.Contains(e.Error(), c.text) {
				t.Errorf("%q does not say %q", e.Error(), c.text)
			}
			if !reflect.ValueOf(a).IsZero() {
				t.Errorf("a refused file gave an agent: %+v", a)
			}
		})
	}
}

func TestParseWholeFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, data, code, text string }{
		{"no frontmatter", "demo", "hello", "frontmatter", "begin it with"},
		{"no end of frontmatter", "demo", "---\nmodel: a/b\n", "frontmatter", "end it with"},
		{"empty", "demo", "", "frontmatter", ""},
		{"no model", "demo", "---\nname: demo\n---\n", "missing", "provider/name"},
		{"LOOP-16 a model without provider", "demo", "---\nmodel: gpt-4o\n---\n", "value", "provider/name"},
		{"LOOP-16 a tier", "demo", "---\nmodel: tier:strong\n---\n", "value", "are not supported"},
		{"LOOP-16 no runtime", "demo", "---\nmodel: runtime:cdex\n---\n", "value", "codex"},
		{"LOOP-1 another harness", "demo", "---\nmodel: a/b\nharness: agentik\n---\n", "value", "agentic"},
		{"a list", "demo", "---\n- a\n---\n", "type", "a mapping"},
		{"not UTF-8", "demo", "---\nmodel: a/\xff\n---\n", "file", "UTF-8"},
		{"a zero byte", "demo", "---\nmodel: a/b\n---\n\x00", "file", "UTF-8"},
		{"a name that cannot be an agent's", "../demo", "---\nmodel: a/b\n---\n", "value", "rename the file"},
		{"a body that is no template", "demo", "---\nmodel: a/b\n---\n\n{{#if x}}y{{/if}}", "template", "demo.prompt:5: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := agentfile.Parse(c.file, []byte(c.data))
			errs := all(err)
			if len(errs) != 1 || errs[0].Code != c.code || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got %v, want one %s with %q", err, c.code, c.text)
			}
		})
	}
}

func TestParseLimits(t *testing.T) {
	t.Parallel()
	tools := func(n int) string {
		var b strings.Builder
		b.WriteString("tools:")
		for i := range n {
			fmt.Fprintf(&b, "\n  - t%d", i)
		}
		return b.String()
	}
	rules := func(n int) string {
		var b strings.Builder
		b.WriteString("guards:")
		for i := range n {
			fmt.Fprintf(&b, "\n  - {id: r%d, action: deny}", i)
		}
		return b.String()
	}
	nested := func(n int) string { return "x-a: " + strings.Repeat("[", n) + strings.Repeat("]", n) }
	sized := func(n int) []byte {
		head := file("")
		return append(head, strings.Repeat("b", n-len(head))...)
	}
	front := func(n int) []byte {
		frame := len("model: scripted/x\nharness: agentic\n\n") + len("# ")
		return file("# " + strings.Repeat("c", n-frame))
	}
	for _, c := range []struct {
		name     string
		at, over []byte
		code     string
	}{
		{"bytes of a file", sized(agentfile.MaxFile), sized(agentfile.MaxFile + 1), "limit"},
		{"bytes of the frontmatter", front(agentfile.MaxFrontmatter), front(agentfile.MaxFrontmatter + 1), "limit"},
		{"tools", file(tools(agentfile.MaxTools)), file(tools(agentfile.MaxTools + 1)), "limit"},
		{"rules", file(rules(agentfile.MaxRules)), file(rules(agentfile.MaxRules + 1)), "limit"},
		{"depth", file(nested(32)), file(nested(33)), "limit"},
		{"description", file("description: " + strings.Repeat("d", agentfile.MaxDescription)), file("description: " + strings.Repeat("d", agentfile.MaxDescription+1)), "limit"},
		{"a tool", file("tools: [" + strings.Repeat("t", 64) + "]"), file("tools: [" + strings.Repeat("t", 65) + "]"), "value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := agentfile.Parse("demo", c.at); err != nil {
				t.Errorf("at the limit: %v", err)
			}
			_, _, err := agentfile.Parse("demo", c.over)
			if errs := all(err); len(errs) != 1 || errs[0].Code != c.code {
				t.Errorf("above the limit: %v", err)
			}
		})
	}
}

func TestParseReportsEverything(t *testing.T) {
	t.Parallel()
	_, _, err := agentfile.Parse("demo", []byte("---\nname: other\ntoolz: []\nautonomy: 9\n---\n{{>x}}"))
	var codes []string
	for _, e := range all(err) {
		codes = append(codes, e.Code)
	}
	if got := strings.Join(codes, " "); got != "missing value unknown_key value template" {
		t.Fatalf("got %q: %v", got, err)
	}
	var many strings.Builder
	for i := range agentfile.MaxErrors + 10 {
		fmt.Fprintf(&many, "u%d: 1\n", i)
	}
	if _, _, err := agentfile.Parse("demo", file(many.String())); len(all(err)) != agentfile.MaxErrors {
		t.Fatalf("%d errors are reported, want %d", len(all(err)), agentfile.MaxErrors)
	}
}

func TestParseDetails(t *testing.T) {
	t.Parallel()
	data := file("tools: [bash, read_file]\nx-mine: [1]\nacme.dev/k: {a: b}")
	a, _, err := agentfile.Parse("demo.prompt", data)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("ID-10 name, digest and body come from the file", func(t *testing.T) {
		t.Parallel()
		sum := sha256.Sum256(data)
		if a.Name != "demo" || a.Digest != hex.EncodeToString(sum[:]) || a.Prompt != "body\n" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("TOOL-14 C27 tools keep their order", func(t *testing.T) {
		t.Parallel()
		if got := strings.Join(a.Tools, " "); got != "bash read" {
			t.Errorf("%q", got)
		}
	})
	t.Run("LOOP-16 PLUS-7 models that stand in for the first stand after commas", func(t *testing.T) {
		t.Parallel()
		a, _, err := agentfile.Parse("demo", []byte("---\nmodel: anthropic/claude-sonnet-4-20250514,openai/gpt-5\n---\n"))
		if err != nil || a.Model != "anthropic/claude-sonnet-4-20250514,openai/gpt-5" {
			t.Errorf("got %q, %v", a.Model, err)
		}
	})
	t.Run("LOOP-1 what the key harness says", func(t *testing.T) {
		t.Parallel()
		for front, want := range map[string]string{
			"": "", "harness_config: {max_steps: 3}": "",
			"harness:": events.HarnessOff, `harness: ""`: events.HarnessOff, "harness: {enabled: false}": events.HarnessOff,
			"harness: {enabled: false, max_steps: 3}": events.HarnessOff, "harness_config: {enabled: false}": events.HarnessOff,
			"harness: agentic": events.HarnessOn, "harness: {enabled: true}": events.HarnessOn, "harness: {max_steps: 3}": events.HarnessOn, "harness: {}": events.HarnessOn,
			"harness_config: {enabled: true}": events.HarnessOn,
		} {
			a, _, err := agentfile.Parse("demo", []byte("---\nmodel: a/b\n"+front+"\n---\n"))
			if err != nil {
				t.Fatalf("%q: %v", front, err)
			}
			if a.Harness != want {
				t.Errorf("%q: got %q, want %q", front, a.Harness, want)
			}
		}
	})
	t.Run("SBX-13 allowed hosts take the place of an open network, and only of an enabled one", func(t *testing.T) {
		t.Parallel()
		for front, want := range map[string]string{
			"sandbox: {network: {enabled: true, allowed_hosts: [a.example, '*.b.example:8080']}}": "false [a.example *.b.example:8080] 0",
			"sandbox: {network: {enabled: true, allowed_hosts: []}}":                              "false [] 0",
			"sandbox: {network: {enabled: false, allowed_hosts: [a.example]}}":                    "false [] 1",
			"sandbox: {network: {allowed_hosts: [a.example]}}":                                    "false [] 1",
			"sandbox: {network: {enabled: true}}":                                                 "true [] 0",
			"sandbox: {network: true}":                                                            "true [] 0",
		} {
			a, warnings, err := agentfile.Parse("demo", file(front))
			if got := fmt.Sprint(a.Sandbox.Network, a.Sandbox.AllowedHosts, len(warnings)); err != nil || got != want {
				t.Errorf("%s: got %s %v, want %s", front, got, err, want)
			}
		}
	})
	t.Run("C26 workspace.mode sandbox is never host", func(t *testing.T) {
		t.Parallel()
		for front, want := range map[string]string{"workspace: {mode: sandbox}": "bwrap", "workspace: {mode: sandbox}\nsandbox: {mode: auto}": "bwrap",
			"workspace: {mode: sandbox}\nsandbox: {mode: docker}": "docker", "workspace: {mode: host}": "host", "sandbox: {mode: auto}": "auto", "": ""} {
			a, _, err := agentfile.Parse("demo", file(front))
			if err != nil || a.Sandbox.Mode != want {
				t.Errorf("%q: %q, want %q (%v)", front, a.Sandbox.Mode, want, err)
			}
		}
	})
	t.Run("line ends and a byte order mark do not matter", func(t *testing.T) {
		t.Parallel()
		b, _, err := agentfile.Parse("demo", []byte("\ufeff---\r\nmodel: a/b\r\ntools:\r\n  - read\r\n--- \r\nbody"))
		if err != nil || b.Model != "a/b" || len(b.Tools) != 1 || b.Prompt != "body" {
			t.Errorf("%+v %v", b, err)
		}
	})
	t.Run("an error has the shape of all formats", func(t *testing.T) {
		t.Parallel()
		_, _, err := agentfile.Parse("demo", file("toolz: []"))
		got, jerr := json.Marshal(all(err))
		want := `[{"code":"unknown_key","file":"demo.prompt","line":4,"path":"toolz","message":"unknown key","expected":"tools","hint":"did you mean tools? A key of your own begins with x-"}]`
		if jerr != nil || string(got) != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}
