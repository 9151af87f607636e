package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// toolsCommand is inspan tools.
type toolsCommand struct {
	App               *app.App
	file, sandboxMode string
	check, pin        bool
}

// Tools makes inspan tools.
func Tools(a *app.App) *cobra.Command {
	c := &toolsCommand{App: a}
	cmd := &cobra.Command{
		Use: "tools", Short: "List the tools of an agent: what they do, where they come from, and which are disabled",
		Long: `Lists the built-in tools or, with --agent, those that an agent file gives: the effect class (what may happen if a call is
carried out twice), the source, and for tools of MCP servers the digest of what was pinned.

An agent gets a tool of an MCP server only as it was pinned: --pin asks the servers that the file names, and writes
what they say of their tools to NAME.mcp.json beside it. Look at that file before you register the agent; keep it with
the agent. A tool that its server describes in another way later is not called until it is pinned again; --check asks
the servers what has changed and fails if anything has. A program of a server runs in the agent's sandbox, on an empty workspace.`,
		Example: `  inspan tools
  inspan tools --agent agents/coder.prompt
  inspan tools --agent agents/coder.prompt --pin
  INSPAN_MCP_SECRETS=secrets inspan tools --agent agents/coder.prompt --check --json`,
		Args: app.Args(0),
		RunE: c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.file, "agent", "", "agent file to list the tools of, such as agents/coder.prompt")
	f.BoolVar(&c.check, "check", false, "ask the MCP servers what has changed since their tools were pinned")
	f.BoolVar(&c.pin, "pin", false, "ask the MCP servers for their tools and allow them as they are now")
	f.StringVar(&c.sandboxMode, "sandbox", a.Lookup("INSPAN_SANDBOX", "auto"),
		"sandbox where the agent file names none: auto, bwrap, landlock, host, docker, gvisor, wasm, e2b or kubernetes (INSPAN_SANDBOX)")
	return cmd
}

func (a *toolsCommand) run(cmd *cobra.Command, _ []string) error {
	switch {
	case a.file == "" && (a.check || a.pin):
		return app.Usage("--check and --pin need --agent FILE")
	case a.check && a.pin:
		return app.Usage("--check looks and --pin allows: give one of them")
	case a.file == "":
		return printTools(a.App, builtinRows(nil), nil)
	}
	return agentTools(cmd.Context(), a.App, a.file, a.sandboxMode, a.check, a.pin)
}

// toolRow is one tool of an agent.
type toolRow struct {
	// Name that the model calls; empty for a tool that is not offered.
	Name   string `json:"name,omitempty"`
	Effect string `json:"effect,omitempty"`
	// Source is "built-in" or the name of an MCP server; Tool the server's own name for it.
	Source string `json:"source"`
	Tool   string `json:"tool,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Hint is what the server says of the effect; it decides nothing.
	Hint string `json:"server_hint,omitempty"`
	// Disabled says why the agent does not have it; empty where it has.
	Disabled string `json:"disabled,omitempty"`
}

// change is what became of a server's tool since it was pinned.
type change struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// What is new, changed or gone.
	What string `json:"what"`
}

// askServersWait is how long all servers of an agent may take to say what they have.
const askServersWait = 3 * time.Minute

func agentTools(ctx context.Context, a *app.App, file, sandboxMode string, check, pin bool) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return app.Usage("--agent: %w", err)
	}
	agent, warnings, err := agentfile.Parse(filepath.Base(file), data)
	for _, w := range warnings {
		fmt.Fprintf(a.Err, "inspan: %s\n", terminal.Sanitize(w.String()))
	}
	if err != nil {
		return err
	}
	pins, err := agentfile.ReadPins(file)
	if err != nil && !pin {
		return err
	}
	served, err := agentfile.ReadServed(filepath.Dir(file))
	if err != nil {
		return err
	}
	rows := func(pins agentfile.Pins, changes []change) []toolRow {
		return withServed(toolRows(agent, pins, changes), served)
	}
	if !check && !pin {
		return printTools(a, rows(pins, nil), nil)
	}
	now, err := askServers(ctx, a, agent, sandboxMode)
	if err != nil {
		return err
	}
	changes := compare(pins, now)
	if check {
		if err := printTools(a, rows(pins, changes), changes); err != nil || len(changes) == 0 {
			return err
		}
		return fmt.Errorf("%d tools are not as they were pinned; allow them as they are now with: inspan tools --agent %s --pin", len(changes), file)
	}
	at, err := now.Write(file)
	if err != nil {
		return err
	}
	if err := printTools(a, rows(now, nil), changes); err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "Pinned in %s. Register the agent again to use it: inspan agent push; inspan up does it by itself.\n", at)
	return nil
}

// askServers asks the servers of an agent for their tools.
func askServers(ctx context.Context, a *app.App, agent events.Agent, sandboxMode string) (agentfile.Pins, error) {
	pins := agentfile.Pins{Version: agentfile.PinsVersion, Servers: map[string]agentfile.ServerPins{}}
	cfg, err := a.Config()
	if err != nil {
		return pins, err
	}
	_, secrets, err := cfg.ServerSecrets()
	if err != nil {
		return pins, err
	}
	ctx, cancel := context.WithTimeout(ctx, askServersWait)
	defer cancel()
	sb, err := openSandbox(ctx, a, sandboxMode, agent.Sandbox)
	if err != nil {
		return pins, err
	}
	defer sb.remove()
	var errs []error
	for _, s := range agent.MCP {
		found, err := mcp.Ask(ctx, s, secrets, sb)
		if err != nil {
			errs = append(errs, fmt.Errorf("server %s: %w", s.Name, err))
			continue
		}
		pins.Servers[s.Name] = found
	}
	return pins, errors.Join(errs...)
}

// compare lists what is not as it was pinned, by server and tool.
func compare(then, now agentfile.Pins) []change {
	var out []change
	digests := func(p agentfile.Pins) map[[2]string]string {
		m := map[[2]string]string{}
		for server, s := range p.Servers {
			for _, t := range s.Tools {
				m[[2]string{server, t.Name}] = t.Digest
			}
		}
		return m
	}
	was, is := digests(then), digests(now)
	for key, digest := range is {
		if _, ok := then.Servers[key[0]]; !ok {
			continue // all of a server that was never pinned is new
		}
		switch old, ok := was[key]; {
		case !ok:
			out = append(out, change{key[0], key[1], "new"})
		case old != digest:
			out = append(out, change{key[0], key[1], "changed"})
		}
	}
	for key := range was {
		if _, ok := is[key]; !ok {
			out = append(out, change{key[0], key[1], "gone"})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Server+"/"+out[i].Tool < out[j].Server+"/"+out[j].Tool })
	return out
}

// builtinRows lists the built-in tools that are named; nil names all.
func builtinRows(named []string) []toolRow {
	all := map[string]tool.Spec{}
	names := named
	for _, t := range append(tools.Builtin(), tools.Prometheus(tools.PrometheusConfig{})) {
		spec := t.Spec()
		all[spec.Name] = spec
		if named == nil {
			names = append(names, spec.Name)
		}
	}
	var rows []toolRow
	for _, name := range names {
		spec, ok := all[name]
		row := toolRow{Name: name, Source: "built-in", Effect: string(spec.EffectOf())}
		if !ok {
			row.Source, row.Effect, row.Disabled = "", "", "no built-in tool has this name; a station may have one of its own"
		}
		rows = append(rows, row)
	}
	return rows
}

// Builtin names the built-in tools.
func Builtin() (names []string) {
	for _, r := range builtinRows(nil) {
		names = append(names, r.Name)
	}
	return names
}

// withServed names the source of the tools among those that no built-in one is.
func withServed(rows []toolRow, pins agentfile.Served) []toolRow {
	for i, r := range rows {
		if p, ok := pins.Find(r.Name); ok && r.Source == "" {
			rows[i] = toolRow{Name: p.Name, Effect: p.Effect, Source: "served by " + p.Server, Digest: p.Digest}
		}
	}
	return rows
}

// toolRows lists all that an agent names, and what its servers have besides.
func toolRows(agent events.Agent, pins agentfile.Pins, changes []change) []toolRow {
	pinned, offers := agentfile.Pin(agent, pins)
	named := []string{}
	for _, name := range agent.Tools {
		if !strings.HasPrefix(name, "mcp:") {
			named = append(named, name)
		}
	}
	rows := builtinRows(named)
	hints := map[[2]string]string{}
	for server, s := range pins.Servers {
		for _, t := range s.Tools {
			hints[[2]string{server, t.Name}] = t.Hint
		}
	}
	sb := mcp.New(&tool.Registry{}, nil).For(pinned)
	for _, o := range offers {
		row := toolRow{Source: o.Server, Tool: o.Tool, Disabled: o.Why, Hint: hints[[2]string{o.Server, o.Tool}]}
		if o.Why == "" {
			row.Name = agentfile.CallName(o.Server, o.Tool)
			_, pin := pinned.MCPTool(row.Name)
			row.Effect, row.Digest = pin.Effect, pin.Digest
			if _, ok := sb.Get(row.Name); !ok {
				row.Disabled = "its pin does not hold: pin it again"
			}
		}
		for _, c := range changes {
			if c.Server == o.Server && c.Tool == o.Tool && c.What != "new" && o.Why == "" {
				row.Disabled = c.What + " since it was pinned"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func printTools(a *app.App, rows []toolRow, changes []change) error {
	if a.JSON {
		return a.PrintJSON(map[string]any{"tools": app.OrEmpty(rows), "changes": app.OrEmpty(changes)})
	}
	p := a.Paint()
	var table [][]string
	var off []string
	unnamed := map[string][]string{}
	var order []string
	for _, r := range rows {
		name := view.Clip(cmp.Or(r.Name, r.Tool), 64)
		switch {
		case r.Disabled == agentfile.NotNamed:
			if unnamed[r.Source] == nil {
				order = append(order, r.Source)
			}
			unnamed[r.Source] = append(unnamed[r.Source], name)
		case r.Disabled != "":
			off = append(off, p.Yellow("disabled")+"  "+strings.Trim(r.Source+"/"+name, "/")+": "+view.Clip(r.Disabled, 300))
		default:
			table = append(table, []string{name, r.Effect, r.Source, p.Dim(fmt.Sprintf("%.8s", r.Digest)),
				p.Dim(view.Clip(r.Hint, 12))})
		}
	}
	if len(table) > 0 {
		a.Table([]string{"TOOL", "EFFECT", "FROM", "PINNED", "IT SAYS"}, table)
	}
	for _, line := range off {
		fmt.Fprintln(a.Out, line)
	}
	for _, server := range order {
		fmt.Fprintln(a.Out, p.Dim(fmt.Sprintf("%s has %d more, not named under tools: %s", server, len(unnamed[server]),
			strings.Join(unnamed[server], ", "))))
	}
	for _, c := range changes {
		mark := map[string]string{"new": p.Green("+ new    "), "changed": p.Yellow("~ changed"),
			"gone": p.Red("- gone   ")}[c.What]
		fmt.Fprintf(a.Out, "%s  %s/%s\n", mark, c.Server, view.Clip(c.Tool, 64))
	}
	return nil
}
