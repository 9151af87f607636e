// Package mcp has inspan mcp: the MCP servers of agents, added, listed, tried, installed and removed.
//
// Promises: an agent file changes only where a server is concerned, and only after all that the command had to find out
// was found out. What is pinned is shown. A server runs in the sandbox of its agent, on an empty workspace; packages
// are installed outside of it, by whoever starts the command, at one version.
package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/disk"
	client "github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
)

// Command makes inspan mcp.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "mcp", Short: "Add, list, try, install and remove the MCP servers of agents",
		Long: `The MCP servers of an agent stand in its file, with the tools that the agent gets of them; what the servers say of their
tools is pinned in NAME.mcp.json beside it. These commands change both, and nothing else in the agent file.`,
		Example: `  inspan mcp add files --agent coder -- npx -y @modelcontextprotocol/server-filesystem .
  inspan mcp add tracker --agent coder --url https://tracker.example.com/mcp --header 'Authorization: secret:tracker'
  inspan mcp login tracker --agent coder
  inspan mcp list
  inspan mcp test files --agent coder --call list_directory --input '{"path": "."}'
  inspan mcp install files --agent coder
  inspan mcp remove files --agent coder`,
		Args: app.Args(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(addCmd(a), loginCmd(a), listCmd(a), testCmd(a), installCmd(a), removeCmd(a))
	return cmd
}

// target is the agent that a command is about.
type target struct {
	App            *app.App
	agent, sandbox string
	// file and text of the agent, and what it says.
	file  string
	text  []byte
	found events.Agent
	pins  agentfile.Pins
}

// flags adds those that say which agent is meant.
func (t *target) flags(cmd *cobra.Command, runs bool) {
	cmd.Flags().StringVar(&t.agent, "agent", "", "name of the agent, or its file")
	if runs {
		cmd.Flags().StringVar(&t.sandbox, "sandbox", t.App.Lookup("INSPAN_SANDBOX", "auto"),
			"sandbox where the agent file names none (INSPAN_SANDBOX)")
	}
}

// load reads the agent.
func (t *target) load() error {
	if t.agent == "" {
		return app.Usage("name the agent whose server is meant: --agent NAME, or --agent FILE%s", agentfile.Ext)
	}
	t.file = t.agent
	if !strings.HasSuffix(t.agent, agentfile.Ext) {
		t.file = filepath.Join(t.App.Lookup("INSPAN_AGENTS", "agents"), filepath.FromSlash(t.agent)+agentfile.Ext)
	}
	text, err := os.ReadFile(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return app.Exit(app.ExitUnknown,
			fmt.Errorf("there is no agent file %s; inspan agents lists those that there are, inspan agent init NAME makes one",
				t.file))
	}
	if err != nil {
		return err
	}
	if t.pins, err = agentfile.ReadPins(t.file); err != nil {
		return err
	}
	return t.parse(text)
}

func (t *target) parse(text []byte) error {
	found, _, err := agentfile.Parse(filepath.Base(t.file), text)
	if err != nil {
		return err
	}
	t.text, t.found = text, found
	return nil
}

// server is one of the agent's.
func (t *target) server(name string) (events.MCPServer, error) {
	i := slices.IndexFunc(t.found.MCP, func(s events.MCPServer) bool { return s.Name == name })
	if i < 0 {
		return events.MCPServer{}, app.Exit(app.ExitUnknown,
			fmt.Errorf("%s has no server %q; inspan mcp list shows those that it has", t.file, name))
	}
	s := t.found.MCP[i]
	s.Protocol = t.pins.Servers[name].Protocol
	return s, nil
}

// store writes the agent file and its pins, and forgets pins of servers that there are no more.
func (t *target) store(text []byte, name string, pins *agentfile.ServerPins) error {
	if err := t.parse(text); err != nil {
		return fmt.Errorf("the file would be wrong, and stays as it is: %w", err)
	}
	info, err := os.Stat(t.file)
	if err != nil {
		return err
	}
	if pins != nil {
		if t.pins.Servers == nil {
			t.pins = agentfile.Pins{Version: agentfile.PinsVersion, Servers: map[string]agentfile.ServerPins{}}
		}
		t.pins.Servers[name] = *pins
		if _, err := t.pins.Write(t.file); err != nil {
			return err
		}
	}
	if err := disk.Replace(t.file, text, info.Mode().Perm()); err != nil {
		return fmt.Errorf("write the agent file: %w", err)
	}
	return nil
}

// blocked says why a command cannot download what it needs, before it is run; nil where it can, or needs nothing.
func (t *target) blocked(s events.MCPServer, sb sandbox.Sandbox) error {
	d, ok := client.Downloads(s.Command)
	if !ok || sb.Mode() == sandbox.Host || t.found.Sandbox.Network {
		return nil
	}
	why := "has no network"
	if len(t.found.Sandbox.AllowedHosts) > 0 {
		why = "reaches the hosts of sandbox.network.allowed_hosts in runs only, and not while its tools are pinned"
	}
	install := "add it with --install"
	if _, has := t.pins.Servers[s.Name]; has {
		install = fmt.Sprintf("inspan mcp install %s --agent %s", s.Name, t.agent)
	}
	return fmt.Errorf("the sandbox of agent %s %s: %s cannot download %s from %s. Install it once, at one version: %s. "+
		"Or open the network in %s (sandbox.network.enabled: true)", t.found.Name, why, d.Runner, d.Package, d.Registry, install, t.file)
}

// toolRow is a pinned tool.
type toolRow struct {
	Name   string `json:"name"`
	Call   string `json:"call"`
	Effect string `json:"effect"`
	Digest string `json:"digest"`
	Hint   string `json:"server_hint,omitempty"`
	// Why the agent does not get it; empty where it does.
	Why string `json:"disabled,omitempty"`
}

// rows are the tools of a server as the agent gets them.
func (t *target) rows(server string) []toolRow {
	pinned, offers := agentfile.Pin(t.found, t.pins)
	hints := map[string]agentfile.ToolPin{}
	for _, p := range t.pins.Servers[server].Tools {
		hints[p.Name] = p
	}
	rows := []toolRow{}
	for _, o := range offers {
		if o.Server != server || o.Tool == "" {
			continue
		}
		row := toolRow{Name: o.Tool, Why: o.Why, Digest: hints[o.Tool].Digest, Hint: hints[o.Tool].Hint}
		if o.Why == "" {
			row.Call = agentfile.CallName(server, o.Tool)
			_, pin := pinned.MCPTool(row.Call)
			row.Effect = pin.Effect
		}
		rows = append(rows, row)
	}
	return rows
}

// table shows the tools of a server.
func (t *target) table(rows []toolRow) {
	p := t.App.Paint()
	var table [][]string
	var unnamed []string
	for _, r := range rows {
		switch {
		case r.Why == agentfile.NotNamed:
			unnamed = append(unnamed, view.Clip(r.Name, 64))
		case r.Why == "":
			table = append(table, []string{r.Call, r.Effect, p.Dim(fmt.Sprintf("%.8s", r.Digest)), p.Dim(view.Clip(r.Hint, 12))})
		}
	}
	if len(table) > 0 {
		t.App.Table([]string{"TOOL", "EFFECT", "PINNED", "IT SAYS"}, table)
	}
	for _, r := range rows {
		if r.Why != "" && r.Why != agentfile.NotNamed {
			fmt.Fprintf(t.App.Out, "%s  %s: %s\n", p.Yellow("left out"), view.Clip(r.Name, 64), view.Clip(r.Why, 300))
		}
	}
	if len(unnamed) > 0 {
		fmt.Fprintln(t.App.Out, terminal.Sanitize(p.Dim(fmt.Sprintf("%d more, not named under tools: %s", len(unnamed),
			strings.Join(unnamed, ", ")))))
	}
}

// askWait is how long a server may take to start, and to answer.
const askWait = 3 * time.Minute
