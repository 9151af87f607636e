package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/agents"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	client "github.com/inspan/inspan/internal/mcp"
)

// listCommand is inspan mcp list.
type listCommand struct {
	target
	dir string
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{target: target{App: a}}
	cmd := &cobra.Command{
		Use: "list", Short: "List the MCP servers of the agents of a folder",
		Long: `Lists each server with its transport, how many of its tools are pinned and how many of these the agent gets. Nothing is
started; inspan tools --agent FILE --check asks the servers what has changed.`,
		Example: "  inspan mcp list\n  inspan mcp list --dir agents --json",
		Args:    app.Args(0),
		RunE:    c.run,
	}
	cmd.Flags().StringVar(&c.dir, "dir", a.Lookup("INSPAN_AGENTS", "agents"), "folder of agent files (INSPAN_AGENTS)")
	return cmd
}

// serverRow is one server of an agent.
type serverRow struct {
	Agent     string `json:"agent"`
	Server    string `json:"server"`
	Transport string `json:"transport"`
	// Reached is the command or the address.
	Reached string `json:"reached"`
	Pinned  int    `json:"pinned"`
	Offered int    `json:"offered"`
	// State is pinned, "not pinned", "no tool named" or "downloads".
	State string `json:"state"`
}

func (c *listCommand) run(*cobra.Command, []string) error {
	files, err := filepath.Glob(filepath.Join(c.dir, "*"+agentfile.Ext))
	if err != nil {
		return err
	}
	for _, deeper := range []string{"*", "*/*"} {
		more, err := filepath.Glob(filepath.Join(c.dir, deeper, "*"+agentfile.Ext))
		if err != nil {
			return err
		}
		files = append(files, more...)
	}
	rows := []serverRow{}
	var errs []error
	for _, file := range files {
		c.agent = file
		if err := c.load(); err != nil {
			errs = append(errs, err)
			continue
		}
		for _, s := range c.found.MCP {
			rows = append(rows, c.row(s.Name))
		}
	}
	if c.App.JSON {
		return errors.Join(c.App.PrintJSON(map[string]any{"servers": rows}), errors.Join(errs...))
	}
	var table [][]string
	for _, r := range rows {
		table = append(table, []string{r.Agent, r.Server, r.Transport, fmt.Sprintf("%d of %d", r.Offered, r.Pinned), r.State,
			terminal.Sanitize(view.Clip(r.Reached, 60))})
	}
	if len(table) > 0 {
		c.App.Table([]string{"AGENT", "SERVER", "OVER", "TOOLS", "STATE", "COMMAND OR ADDRESS"}, table)
	} else if len(errs) == 0 {
		fmt.Fprintf(c.App.Out, "No agent in %s has an MCP server. Add one with: inspan mcp add SERVER --agent NAME -- COMMAND\n",
			c.dir)
	}
	return errors.Join(errs...)
}

func (c *listCommand) row(name string) serverRow {
	s, _ := c.server(name)
	r := serverRow{Agent: c.found.Name, Server: name, Transport: "stdio", Reached: strings.Join(s.Command, " "),
		State:  "pinned",
		Pinned: len(c.pins.Servers[name].Tools)}
	if s.URL != "" {
		r.Transport, r.Reached = "http", s.URL
	}
	for _, t := range c.rows(name) {
		if t.Why == "" {
			r.Offered++
		}
	}
	_, pinned := c.pins.Servers[name]
	switch _, downloads := client.Downloads(s.Command); {
	case !pinned:
		r.State = "not pinned"
	case r.Offered == 0:
		r.State = "no tool named"
	case downloads:
		r.State = "downloads"
	}
	return r
}

// testCommand is inspan mcp test.
type testCommand struct {
	target
	call, input string
	timeout     time.Duration
}

func testCmd(a *app.App) *cobra.Command {
	c := &testCommand{target: target{App: a}}
	cmd := &cobra.Command{
		Use: "test SERVER --agent NAME", Short: "Start an MCP server in its agent's sandbox, and call one of its tools",
		Long: `Starts the server on an empty workspace, initializes it, asks for its tools and, with --call, calls one: with all the effects
that the call has. It prints how long each took. What is pinned stays as it is.`,
		Example: `  inspan mcp test files --agent coder
  inspan mcp test files --agent coder --call list_directory --input '{"path": "."}' --json`,
		Args: app.Args(1),
		RunE: c.run,
	}
	c.flags(cmd, true)
	cmd.Flags().StringVar(&c.call, "call", "", "tool to call, by the server's own name for it")
	cmd.Flags().StringVar(&c.input, "input", "{}", "arguments of the call, a JSON object")
	cmd.Flags().DurationVar(&c.timeout, "timeout", askWait, "how long all of it may take")
	return cmd
}

func (c *testCommand) run(cmd *cobra.Command, args []string) error {
	var object map[string]any
	if err := json.Unmarshal([]byte(c.input), &object); err != nil {
		return app.Usage("--input is not a JSON object: %w", err)
	}
	if err := c.load(); err != nil {
		return err
	}
	s, err := c.server(args[0])
	if err != nil {
		return err
	}
	cfg, err := c.App.Config()
	if err != nil {
		return err
	}
	_, secrets, err := cfg.ServerSecrets()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
	defer cancel()
	sb, remove, err := agents.OpenSandbox(ctx, c.App, c.sandbox, c.found.Sandbox)
	if err != nil {
		return err
	}
	defer remove()
	if err := c.blocked(s, sb); err != nil {
		return err
	}
	t, err := client.Try(ctx, s, secrets, sb, c.call, json.RawMessage(c.input))
	if err != nil {
		return fmt.Errorf("server %s, in sandbox %s: %w", s.Name, sb.Mode(), err)
	}
	return c.print(t, string(sb.Mode()))
}

func (c *testCommand) print(t client.Trial, mode string) error {
	failed := error(nil)
	if t.Result.Failed {
		failed = fmt.Errorf("the server reports that the call failed")
	}
	if c.App.JSON {
		doc := map[string]any{"server": t.Name, "version": t.Version, "protocol": t.Protocol, "sandbox": mode,
			"tools":    len(t.Pins.Tools),
			"left_out": app.OrEmpty(t.Pins.LeftOut), "start_ms": t.Start.Milliseconds(), "list_ms": t.List.Milliseconds()}
		if c.call != "" {
			doc["call_ms"], doc["output"], doc["failed"] = t.Call.Milliseconds(), t.Result.Output, t.Result.Failed
		}
		return errors.Join(c.App.PrintJSON(doc), failed)
	}
	ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
	rows := [][]string{{"start", ms(t.Start),
		strings.TrimSpace(fmt.Sprintf("%s %s, revision %s, sandbox %s", t.Name, t.Version, t.Protocol, mode))},
		{"list", ms(t.List), fmt.Sprintf("%d tools, %d left out", len(t.Pins.Tools), len(t.Pins.LeftOut))}}
	if c.call != "" {
		rows = append(rows, []string{"call", ms(t.Call), c.call})
	}
	for i := range rows {
		rows[i][2] = terminal.Sanitize(rows[i][2])
	}
	c.App.Table([]string{"STAGE", "TOOK", ""}, rows)
	if c.call != "" {
		fmt.Fprintln(c.App.Out, terminal.Sanitize(t.Result.Output))
	}
	return failed
}
