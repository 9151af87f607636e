package mcp

import (
	"context"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/agents"
	"github.com/inspan/inspan/internal/cli/app"
	client "github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/pkg/events"
)

// addCommand is inspan mcp add.
type addCommand struct {
	target
	url                           string
	headers, env, effects, offers []string
	timeout                       time.Duration
	install, login                bool
	signIn
}

func addCmd(a *app.App) *cobra.Command {
	c := &addCommand{target: target{App: a}}
	cmd := &cobra.Command{
		Use: "add SERVER --agent NAME [flags] [-- COMMAND...]", Short: "Give an agent the tools of an MCP server",
		Long: `Writes a server into an agent file, starts it in the agent's sandbox, asks it for its tools and pins them. The command of a
server stands behind "--"; one over HTTP has --url. Nothing is written where the server does not answer.

With --install the package that npx or uvx would download is installed first (inspan mcp install): the agent's sandbox needs no
network then, and every run has the same version.`,
		Example: `  inspan mcp add files --agent coder --effects 'read_*=read' -- npx -y @modelcontextprotocol/server-filesystem .
  inspan mcp add time --agent coder --install -- uvx mcp-server-time
  inspan mcp add tracker --agent coder --url https://tracker.example.com/mcp --header 'Authorization: secret:tracker'
  inspan mcp add tracker --agent coder --url https://tracker.example.com/mcp --login
  inspan mcp add db --agent agents/coder.prompt --tools 'query,list_*' --env DATABASE_TOKEN=secret:db -- db-server --stdio`,
		Args: cobra.MinimumNArgs(1),
		RunE: c.run,
	}
	c.target.flags(cmd, true)
	c.signIn.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&c.url, "url", "", "address of a server over streamable HTTP")
	f.StringArrayVar(&c.headers, "header", nil, "header of each request, 'Name: secret:NAME'; may be given more than once")
	f.StringArrayVar(&c.env, "env", nil, "NAME=value or NAME=secret:NAME for the program; may be given more than once")
	f.StringSliceVar(&c.effects, "effects", nil,
		"what calls may do, TOOL=read, TOOL=idempotent or TOOL=once, with globs; once if not given")
	f.StringSliceVar(&c.offers, "tools", []string{"*"}, "which tools the agent gets, by name or glob")
	f.DurationVar(&c.timeout, "timeout", 0, "how long a call may take (default 30s)")
	f.BoolVar(&c.login, "login", false, "sign in at the server first, with OAuth in a browser (inspan mcp login)")
	f.BoolVar(&c.install, "install", false, "install the package of npx or uvx first, at one version")
	return cmd
}

func (c *addCommand) run(cmd *cobra.Command, args []string) error {
	s, err := c.definition(args)
	if err != nil {
		return err
	}
	if err := c.load(); err != nil {
		return err
	}
	if slices.ContainsFunc(c.found.MCP, func(other events.MCPServer) bool { return other.Name == s.Name }) {
		return app.Usage("%s has a server %s; remove it first: inspan mcp remove %s --agent %s", c.file, s.Name, s.Name,
			c.agent)
	}
	if c.login {
		if _, err := c.signIn.run(cmd.Context(), c.App, s, s.Name); err != nil {
			return err
		}
	}
	before := c.text
	text, err := agentfile.AddServer(c.file, before, s, slices.Clone(c.offers))
	if err != nil {
		return err
	}
	if err := c.parse(text); err != nil {
		return err
	}
	if c.install {
		if s.Command, err = installed(cmd.Context(), c.App, s); err != nil {
			return err
		}
		if text, err = agentfile.AddServer(c.file, before, s, slices.Clone(c.offers)); err != nil {
			return err
		}
	}
	return c.pin(cmd.Context(), s, text)
}

// definition is the server as the command line has it.
func (c *addCommand) definition(args []string) (s events.MCPServer, err error) {
	s = events.MCPServer{Name: args[0], Command: args[1:], URL: c.url, TimeoutMS: c.timeout.Milliseconds()}
	switch {
	case len(s.Command) == 0 && s.URL == "":
		return s, app.Usage("give the command of the server after --, or its address with --url; inspan mcp add --help has examples")
	case len(s.Command) > 0 && s.URL != "":
		return s, app.Usage("a server has a command or --url, not both")
	case s.URL != "" && len(c.env) > 0, s.URL == "" && len(c.headers) > 0:
		return s, app.Usage("--env is for a command and --header for --url")
	case c.install && s.URL != "":
		return s, app.Usage("--install is for a command")
	case c.login && (s.URL == "" || len(c.headers) > 0):
		return s, app.Usage("--login is for --url, in the place of --header")
	case c.login:
		s.Headers = map[string]string{authorization: secretOf + s.Name}
	}
	for _, h := range c.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return s, app.Usage("--header %q is not 'Name: secret:NAME'", h)
		}
		if s.Headers == nil {
			s.Headers = map[string]string{}
		}
		s.Headers[textproto.TrimString(name)] = textproto.TrimString(value)
	}
	for _, e := range c.env {
		name, value, ok := strings.Cut(e, "=")
		if !ok {
			return s, app.Usage("--env %q is not NAME=value", e)
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[name] = value
	}
	for _, e := range c.effects {
		name, effect, ok := strings.Cut(e, "=")
		if !ok {
			return s, app.Usage("--effects %q is not TOOL=read, TOOL=idempotent or TOOL=once", e)
		}
		s.Effects = append(s.Effects, events.MCPEffect{Tool: name, Effect: effect})
	}
	return s, nil
}

// pin asks a server for its tools, stores them with the text of the agent file that has it, and shows them.
func (t *target) pin(ctx context.Context, s events.MCPServer, text []byte) error {
	pins, err := t.ask(ctx, s)
	if err != nil {
		return err
	}
	if err := t.store(text, s.Name, &pins); err != nil {
		return err
	}
	return t.show(s)
}

// ask asks a server for its tools, in the sandbox of the agent.
func (t *target) ask(ctx context.Context, s events.MCPServer) (pins agentfile.ServerPins, err error) {
	cfg, err := t.App.Config()
	if err != nil {
		return pins, err
	}
	_, secrets, err := cfg.ServerSecrets()
	if err != nil {
		return pins, err
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	sb, remove, err := agents.OpenSandbox(ctx, t.App, t.sandbox, t.found.Sandbox)
	if err != nil {
		return pins, err
	}
	defer remove()
	if err := t.blocked(s, sb); err != nil {
		return pins, err
	}
	if pins, err = client.Ask(ctx, s, secrets, sb); err != nil {
		return pins, fmt.Errorf("server %s, in sandbox %s: %w", s.Name, sb.Mode(), err)
	}
	return pins, nil
}

// show prints what the agent has of a server that was pinned.
func (t *target) show(s events.MCPServer) error {
	rows := t.rows(s.Name)
	if t.App.JSON {
		return t.App.PrintJSON(map[string]any{"agent": t.found.Name, "file": t.file, "server": s, "tools": rows})
	}
	t.table(rows)
	fmt.Fprintf(t.App.Err, "Server %s is in %s, and its tools are pinned beside it. Read them: a model will, too. Register the agent again to use it: inspan agent push; inspan up does it by itself.\n", s.Name, t.file)
	if _, ok := client.Downloads(s.Command); ok {
		fmt.Fprintf(t.App.Err, "Each start downloads the package again, and its registry decides what runs: inspan mcp install %s --agent %s installs one version.\n", s.Name, t.agent)
	}
	return nil
}
