package trust

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/formula"
	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/pkg/events"
)

// reading are the tools that only look, which no line names.
var reading = []string{"read", "grep", "glob", "skill"}

// DescribeAgents says what agents would run and reach, a line for each thing, so that a person can decide. It says
// nothing about texts for a model: they decide nothing themselves.
func DescribeAgents(agents map[string]events.Agent) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		a := agents[name]
		say := func(format string, args ...any) {
			out = append(out, "agent "+name+": "+fmt.Sprintf(format, args...))
		}
		say("model %s", a.Model)
		if a.Runtime != nil {
			say("runtime %s: %s", a.Runtime.Name, runtimeRuns(*a.Runtime))
		}
		if tools := slices.DeleteFunc(slices.Clone(a.Tools), func(t string) bool {
			return slices.Contains(reading, t)
		}); len(tools) > 0 {
			say("tools %s", strings.Join(tools, ", "))
		}
		for _, h := range a.Hooks {
			say("hook %s on %s%s: %s", h.ID, h.On, onTool(h.Tool), hookRuns(h))
		}
		for _, s := range a.MCP {
			say("MCP server %s: %s", s.Name, serverRuns(s, a.Sandbox))
		}
		for _, t := range a.Served {
			say("tool %s, served over NATS, digest %.12s", t.Name, t.Digest)
		}
		describeSandbox(a.Sandbox, say)
		if a.Autonomy > events.DefaultOptions().Autonomy {
			say("autonomy %d", a.Autonomy)
		}
		for _, r := range a.Guards {
			switch {
			case r.Remove:
				say("removes guard rule %s", r.ID)
			case r.Action == "allow":
				say("guard rule %s allows %s", r.ID, ruleMatches(r))
			}
		}
		if g := a.Git; g != nil && g.RequireApproval != nil && !*g.RequireApproval {
			say("pushes and merges without approval")
		}
	}
	return out
}

// DescribeRuntimes says which programs of others the runtimes of a folder of agents would start.
func DescribeRuntimes(p Part) (out []string) {
	for _, file := range slices.Sorted(maps.Keys(p.Files)) {
		if !isRuntime(file) {
			continue
		}
		e, err := runtime.Parse(file, p.Files[file])
		if err != nil {
			out = append(out, "runtime file "+file+": cannot be used (inspan runtimes list)")
			continue
		}
		out = append(out, "runtime "+e.Name+": "+runtimeRuns(e.Runtime()))
	}
	return out
}

// runtimeRuns is what a runtime starts, and what it gets.
func runtimeRuns(r events.Runtime) string {
	runs := "starts " + words(r.Command)
	if len(r.Autonomous) > 0 {
		runs += ", where a sandbox isolates with " + words(r.Autonomous)
	}
	if r.Gate == events.RuntimeAsksNot {
		runs += ", which asks no one before it acts"
	}
	var secrets []string
	for _, v := range r.Env {
		if name, ok := strings.CutPrefix(v, "secret:"); ok {
			secrets = append(secrets, name)
		}
	}
	if secrets = append(secrets, r.Pass...); len(secrets) > 0 {
		slices.Sort(secrets)
		runs += ", with secret " + strings.Join(slices.Compact(secrets), ", ")
	}
	if len(r.Env) > 0 {
		runs += ", environment " + strings.Join(slices.Sorted(maps.Keys(r.Env)), ", ")
	}
	return runs
}

func onTool(glob string) string {
	if glob == "" {
		return ""
	}
	return " of " + glob
}

// hookRuns is what a hook of an agent file calls.
func hookRuns(h events.Hook) string {
	switch {
	case len(h.Command) > 0:
		return words(h.Command) + ", outside of the sandbox"
	case h.Subject != "":
		return "whoever answers on NATS subject " + h.Subject
	}
	return "built-in " + h.Builtin
}

// noIsolation reports whether an agent asks for a sandbox that isolates nothing.
func noIsolation(sb events.Sandbox) bool { return sb.Mode == "host" || sb.Backend == "host" }

func serverRuns(s events.MCPServer, sb events.Sandbox) string {
	runs := words(s.Command) + ", in the sandbox"
	if noIsolation(sb) {
		runs = words(s.Command) + ", without isolation"
	}
	if s.URL != "" {
		runs = "requests to " + s.URL + ", outside of the sandbox"
	}
	var secrets []string
	for _, set := range []map[string]string{s.Env, s.Headers} {
		for _, v := range set {
			if strings.HasPrefix(v, "secret:") {
				secrets = append(secrets, strings.TrimPrefix(v, "secret:"))
			}
		}
	}
	if len(secrets) > 0 {
		slices.Sort(secrets)
		runs += ", with secret " + strings.Join(slices.Compact(secrets), ", ")
	}
	if len(s.Env) > 0 {
		runs += ", environment " + strings.Join(slices.Sorted(maps.Keys(s.Env)), ", ")
	}
	return runs
}

func describeSandbox(s events.Sandbox, say func(string, ...any)) {
	switch {
	case noIsolation(s):
		say("commands run without isolation (sandbox host)")
	case s.Mode != "" && s.Mode != "auto":
		say("sandbox %s%s", s.Mode, strings.TrimRight(" "+s.Image, " "))
	}
	switch {
	case s.Network:
		say("open network")
	case len(s.AllowedHosts) > 0:
		say("network to %s", strings.Join(s.AllowedHosts, ", "))
	}
	if len(s.ReadOnly) > 0 {
		say("reads %s", strings.Join(s.ReadOnly, ", "))
	}
	if len(s.ReadWrite) > 0 {
		say("writes %s", strings.Join(s.ReadWrite, ", "))
	}
}

// ruleMatches is what a rule is about.
func ruleMatches(r events.Rule) string {
	tool := r.Tool
	if tool == "" {
		tool = "every tool"
	}
	m := r.Match
	var out []string
	for _, part := range [][2]string{{"", words(m.Argv)}, {"", m.Glob}, {"path ", m.Path}, {"outside of ",
		m.PathOutside},
		{"with one of ", strings.Join(m.FlagsAny, " ")}, {"with ", strings.Join(m.FlagsAll, " ")}} {
		if part[1] != "" {
			out = append(out, part[0]+part[1])
		}
	}
	if len(out) == 0 {
		return tool
	}
	return tool + ": " + strings.Join(out, ", ")
}

// words joins the words of a command so that their borders can be seen.
func words(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if out[i] = a; a == "" || strings.ContainsAny(a, " \t\r\n\"'\\") {
			out[i] = strconv.Quote(a)
		}
	}
	return strings.Join(out, " ")
}

// DescribeFormulas says which agents formulas give work to, and which commands decide that it is done.
func DescribeFormulas(dir fs.FS) ([]string, error) {
	names, err := formula.Names(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		m, err := formula.Load(dir, name)
		if err != nil {
			out = append(out, "formula "+name+": cannot be used (inspan formula check)")
			continue
		}
		agents := map[string]bool{}
		var lines []string
		for _, s := range m.Steps() {
			agents[cmp.Or(s.Agent, "of whoever runs it")] = true
			for _, command := range s.Commands {
				lines = append(lines, fmt.Sprintf("formula %s: step %s is done once this succeeds: %s", name, s.ID,
					command))
			}
		}
		if m.Session != "" {
			lines = append(lines, fmt.Sprintf("formula %s: works in session %s", name, m.Session))
		}
		if m.Git != nil {
			lines = append(lines, fmt.Sprintf("formula %s: works in repository %s", name, m.Git.Repo))
		}
		out = append(append(out, fmt.Sprintf("formula %s: steps for agents %s", name,
			strings.Join(slices.Sorted(maps.Keys(agents)), ", "))), lines...)
	}
	return out, nil
}
