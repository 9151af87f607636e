package agentfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

var (
	modelRule = pattern.New(`^[a-z0-9][a-z0-9_-]{0,63}/[^\s/][^\s]{0,199}$`)
	toolRule  = pattern.New(`^[a-z0-9_]{1,64}$`)
)

// build fills the agent from a tree that the schema has seen. What the schema refused is left at zero.
func (p *parsing) build(root *node, name string) events.Agent {
	a := events.Agent{Name: p.name(root, name), Model: p.model(root), Tools: p.tools(root.child("tools"))}
	a.Delegates = p.delegates(root, a.Tools)
	a.Description = root.get("description").str()
	a.Plan = root.get("plan").str()
	if t := root.get("config", "temperature"); t != nil {
		if v, err := strconv.ParseFloat(t.text, 64); err == nil {
			a.Temperature = &v
		}
	}
	a.MaxOutputTokens = root.get("config", "maxOutputTokens").whole()
	a.Autonomy = root.get("harness", "autonomy").whole()
	a.MaxSteps = root.get("harness", "max_steps").whole()
	a.MaxToolCalls = root.get("harness", "budget", "tool_calls").whole()
	a.MaxTokens = int64(root.get("harness", "budget", "tokens").whole())
	a.MaxCost = root.get("harness", "budget", "usd").money()
	a.OutputSchema = p.output(root)
	a.TimeoutMS = root.get("harness", "timeout").milliseconds()
	doom := root.get("harness", "doom_loop")
	a.DoomLoop = events.DoomLoop{Threshold: doom.get("threshold").whole(), Cycle: doom.get("cycle").whole(),
		Action: doom.get("action").str()}
	if n := root.get("harness", "retry", "max_retries"); n != nil {
		v := n.whole()
		a.Retry.MaxRetries = &v
	}
	a.Retry.BaseBackoffMS = root.get("harness", "retry", "base_backoff").milliseconds()
	a.Gates = termsOf(root.get("harness", "gates"))
	a.Guards = p.guards(root)
	a.Hooks = p.hooks(root.child("hooks"))
	a.Sandbox = p.sandbox(root)
	a.Artifacts = p.artifacts(root.child("artifacts"))
	a.Accept = acceptOf(p, root.child("accept"))
	a.Git = gitOf(root.child("git"))
	a.MCP = p.servers(root)
	a.Subscribe = p.subscriptions(root.child("subscribe"))
	p.runtime(root, &a)
	p.compaction(root, &a)
	p.sources(root, &a)
	return a
}

// str returns the text of a value, "" where it is absent or no text.
func (n *node) str() string {
	if n == nil || n.kind != isText {
		return ""
	}
	return n.text
}

// whole returns the number of a value, 0 where it is absent or no whole number.
func (n *node) whole() int {
	if n == nil || n.kind != isInt {
		return 0
	}
	v, err := strconv.Atoi(n.text)
	if err != nil {
		return 0
	}
	return v
}

// milliseconds returns the duration of a value, 0 where it is absent or none. Less than one is rounded up.
func (n *node) milliseconds() int64 {
	d, err := time.ParseDuration(n.str())
	if err != nil {
		return 0
	}
	return (d + time.Millisecond - 1).Milliseconds()
}

// money returns an amount of dollars, 0 where it is absent or none.
func (n *node) money() events.MicroUSD {
	if n == nil || n.kind != isInt && n.kind != isFloat {
		return 0
	}
	m, err := events.ParseUSD(n.text)
	if err != nil {
		return 0
	}
	return m
}

func (n *node) yes() bool { return n != nil && n.kind == isBool && n.text == "true" }

func (n *node) words() []string {
	if n == nil {
		return nil
	}
	var out []string
	for _, item := range n.items {
		out = append(out, item.str())
	}
	return out
}

func (p *parsing) name(root *node, name string) string {
	n := root.child("name")
	if n != nil && n.kind == isText && n.text != name {
		p.failAt(n, Error{Code: CodeValue, Message: "the name is not that of the file", Expected: shown(name),
			Actual: shown(n.text), Hint: "rename the file or the agent"})
	}
	return name
}

// model checks the reference of the model (LOOP-16).
func (p *parsing) model(root *node) string {
	n := root.child("model")
	if root.child("runtime") != nil || n != nil && strings.HasPrefix(n.text, runtimePrefix) {
		return ""
	}
	if n == nil {
		p.fail(&Error{Code: CodeMissing, Path: "model", Message: "the key is missing", Expected: "provider/name",
			Hint: "for example model: anthropic/claude-sonnet-5-5"})
		return ""
	}
	if n.kind != isText || modelRule.MatchString(n.text) {
		return n.str()
	}
	e := &Error{Code: CodeValue, Line: n.line, Path: n.path, Message: "the value is not a model name",
		Expected: "provider/name", Actual: shown(n.text), Hint: "for example anthropic/claude-sonnet-5-5"}
	if strings.HasPrefix(n.text, "tier:") {
		e.Hint = "tiers are not supported; name a model"
	}
	p.fail(e)
	return ""
}

// CheckModel returns what is wrong with the reference of a model, "provider/name", or with a list of them separated by
// commas.
func CheckModel(ref string) error {
	for one := range strings.SplitSeq(ref, ",") {
		if !modelRule.MatchString(one) {
			return fmt.Errorf("%s is not the name of a model: write provider/name, for example anthropic/claude-sonnet-5-5",
				shown(one))
		}
	}
	return nil
}

// tools keeps the order of the file; the names are those that the agent may see and call (TOOL-14).
func (p *parsing) tools(n *node) []string {
	if n == nil {
		return nil
	}
	var out []string
	for _, t := range n.items {
		if t.kind != isText {
			continue
		}
		mcp := mcpRule.MatchString(t.text)
		switch {
		case !mcp && !toolRule.MatchString(t.text):
			p.failAt(t, Error{Code: CodeValue, Message: "the value is not a tool name",
				Expected: "1 to 64 characters of a-z 0-9 _, or mcp:server/tool", Actual: shown(t.text),
				Hint: "name each tool; patterns are allowed only for mcp"})
			continue
		case slices.Contains(out, t.text):
			p.failAt(t, Error{Code: CodeDuplicate, Message: "the tool is named twice", Actual: shown(t.text),
				Hint: "remove one; read_file is read, write_file is write, edit_file is edit"})
			continue
		case strings.HasPrefix(t.text, "mcp__"):
			p.failAt(t, Error{Code: CodeValue, Message: "the value is not a tool name", Expected: "mcp:server/tool",
				Actual: shown(t.text), Hint: "names that begin with mcp__ are derived from it"})
			continue
		}
		out = append(out, t.text)
	}
	return out
}

// delegates are the agents that this one may give work to. The tool that does it and their names go together.
func (p *parsing) delegates(root *node, tools []string) []string {
	n, gives := root.child("delegates"), slices.Contains(tools, events.ToolDelegate)
	names := n.words()
	switch {
	case gives && len(names) == 0:
		p.failAt(root.child("tools"), Error{Code: CodeConflict, Message: "the tool delegate has no one to give work to",
			Hint: "add delegates with the names of the agents, or remove the tool"})
	case !gives && len(names) > 0:
		p.failAt(n, Error{Code: CodeConflict, Message: "delegates names agents, and the agent cannot give work away",
			Hint: "add the tool delegate to tools, or remove delegates"})
	}
	for i, name := range names {
		if !events.ValidID(name) || slices.Contains(names[:i], name) {
			p.failAt(n.items[i], Error{Code: CodeValue, Message: "the value is no name of another agent", Actual: shown(name),
				Hint: "name each agent once, as its file is named"})
		}
	}
	return names
}

// sandbox joins sandbox.mode and workspace.mode into one setting (C26). workspace.mode: sandbox is auto without
// host, so it never becomes host in silence: it is the local isolating backend.
func (p *parsing) sandbox(root *node) events.Sandbox {
	mode, ws := root.get("sandbox", "mode"), root.get("workspace", "mode")
	out := events.Sandbox{Mode: mode.str(), Network: root.get("sandbox", "network", "enabled").yes()}
	p.hosts(root, &out)
	p.isolation(root.child("sandbox"), &out)
	out.Requires = root.get("requires").words()
	conflict := func() {
		p.failAt(ws, Error{Code: CodeConflict, Message: "workspace.mode and sandbox.mode differ",
			Expected: "one that goes with sandbox.mode " + out.Mode, Actual: shown(ws.text), Hint: "leave workspace.mode out"})
	}
	switch ws.str() {
	case "host":
		if out.Mode != "" && out.Mode != "host" && out.Mode != "auto" {
			conflict()
		}
		out.Mode = "host"
	case "sandbox":
		if out.Mode == "host" {
			conflict()
		}
		if out.Mode == "" || out.Mode == "auto" {
			out.Mode = "bwrap"
			p.warn(Warning{Code: CodeAlias, Line: ws.line, Path: ws.path, Message: "is another spelling of sandbox.mode: bwrap",
				Hint: "write sandbox.mode"})
		}
	}
	return out
}

// termsOf reads how a gate is answered.
func termsOf(n *node) events.GateTerms {
	return events.GateTerms{Approvers: n.get("approvers").whole(), ExpiresMS: n.get("expires").milliseconds(),
		OnExpiry: n.get("on_expiry").str(), GateReminders: events.GateReminders{RemindMS: n.get("remind").milliseconds(),
			EscalateMS: n.get("escalate_after").milliseconds(), EscalateTo: n.get("escalate_to").str()}}
}

// guards are the rules of the file in its order, then those of permissions (formats: rules that agree are
// decided by deny > ask > allow, so their order carries no meaning).
func (p *parsing) guards(root *node) []events.Rule {
	seen := map[string]bool{}
	out := p.rules(root.child("guards"), seen)
	return append(out, p.permissions(root, seen)...)
}

// rules are those of a list, in its order; seen collects their ids.
func (p *parsing) rules(list *node, seen map[string]bool) []events.Rule {
	if list == nil {
		return nil
	}
	var out []events.Rule
	for _, n := range list.items {
		r, ok := p.rule(n)
		if !ok {
			continue
		}
		if seen[r.ID] {
			p.failAt(n, Error{Code: CodeDuplicate, Message: "two rules have the id " + shown(r.ID),
				Hint: "give each rule its own id"})
		}
		seen[r.ID] = true
		out = append(out, r)
	}
	return out
}
