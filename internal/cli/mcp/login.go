package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	client "github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
)

// authorization is the header that a grant is sent in, secretOf what stands before the name of a secret.
const (
	authorization = "Authorization"
	secretOf      = "secret:"
)

// signIn is how a person grants access; add and login have its flags.
type signIn struct {
	clientID, clientSecret string
	scopes                 []string
	port                   int
	wait                   time.Duration
}

func (l *signIn) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.clientID, "client-id", "", "client that was registered by hand; otherwise one is registered")
	f.StringVar(&l.clientSecret, "client-secret-file", "", "file with the secret of that client")
	f.StringSliceVar(&l.scopes, "scope", nil, "scopes to ask for besides those that the server names; may be given more than once")
	f.IntVar(&l.port, "port", 0, "port of 127.0.0.1 that the browser comes back to; a free one if not given")
	f.DurationVar(&l.wait, "wait", 5*time.Minute, "how long to wait for the browser")
}

// loginCommand is inspan mcp login.
type loginCommand struct {
	target
	signIn
}

func loginCmd(a *app.App) *cobra.Command {
	c := &loginCommand{target: target{App: a}}
	cmd := &cobra.Command{
		Use: "login SERVER --agent NAME", Short: "Sign in at an MCP server that wants OAuth",
		Long: `Shows an address to open in a browser, waits until you have granted access there, and stores the grant in the folder of secrets
(INSPAN_MCP_SECRETS), under the name that the header Authorization of the server has in the agent file. The toolrunner renews
it from then on; sign in again where the server has ended it. A station that runs has to be started again.`,
		Example: `  export INSPAN_MCP_SECRETS=~/.config/inspan/secrets
  inspan mcp add tracker --agent coder --url https://tracker.example.com/mcp --login
  inspan mcp login tracker --agent coder
  inspan mcp login tracker --agent coder --scope issues:write`,
		Args: app.Args(1),
		RunE: c.run,
	}
	c.target.flags(cmd, false)
	c.signIn.flags(cmd)
	return cmd
}

func (c *loginCommand) run(cmd *cobra.Command, args []string) error {
	if err := c.load(); err != nil {
		return err
	}
	s, err := c.server(args[0])
	if err != nil {
		return err
	}
	name, ok := strings.CutPrefix(s.Headers[authorization], secretOf)
	switch {
	case s.URL == "":
		return app.Usage("server %s is a program, and no one signs in at it; give it a secret with --env", s.Name)
	case !ok:
		return app.Usage("the file names no secret for server %s: remove it, and add it with --login", s.Name)
	}
	file, err := c.signIn.run(cmd.Context(), c.App, s, name)
	if err != nil {
		return err
	}
	if c.App.JSON {
		return c.App.PrintJSON(map[string]any{"agent": c.found.Name, "server": s.Name, "secret": name, "file": file})
	}
	return nil
}

// asked are the scopes of the flags: a server lists those that it lacks with spaces between.
func (l *signIn) asked() (all []string) {
	for _, s := range l.scopes {
		all = append(all, strings.Fields(s)...)
	}
	return all
}

// run signs in and stores the grant as a secret.
func (l *signIn) run(ctx context.Context, a *app.App, s events.MCPServer, name string) (file string, err error) {
	dir := a.Lookup("INSPAN_MCP_SECRETS", "")
	if dir == "" {
		return "", app.Usage("there is no folder for the grant: export INSPAN_MCP_SECRETS=DIR, for inspan up and toolrunners, too")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file = filepath.Join(dir, name)
	login := client.Login{Server: s.URL, ClientID: l.clientID, Scopes: l.asked(), Port: l.port}
	login.Show = func(address string) {
		fmt.Fprintf(a.Err, "Open this address in a browser, and grant access to %s there:\n\n  %s\n\nWaiting for you, at most %s ...\n",
			s.Name, address, l.wait)
	}
	if l.clientSecret != "" {
		text, err := os.ReadFile(l.clientSecret)
		if err != nil {
			return "", err
		}
		login.ClientSecret = secret.New(string(text))
	}
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	grant, err := login.Run(ctx)
	if errors.Is(err, client.ErrNoLogin) {
		return "", fmt.Errorf("server %s: %w; add it without --login", s.Name, err)
	}
	if err != nil {
		return "", fmt.Errorf("sign in at server %s: %w", s.Name, err)
	}
	if err := grant.Write(file); err != nil {
		return "", err
	}
	ends := "the server does not say when it ends"
	if !grant.Expiry.IsZero() {
		ends = "its token ends " + grant.Expiry.UTC().Format("2006-01-02 15:04 MST")
	}
	renewed := "and cannot be renewed: sign in again then"
	if grant.Refresh != "" {
		renewed = "and is renewed without you"
	}
	fmt.Fprintf(a.Err, "Signed in. The grant is in %s; %s %s.\n", file, ends, renewed)
	return file, nil
}
