// Package tokens has inspan token: which programs may use the gateway of a station.
package tokens

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// Command makes inspan token and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Aliases: []string{"tokens"}, Short: "Say which programs may use the gateway of a station",
		Long: `The gateway (inspan up --http, or the program gateway) answers no request without a token, also none from this machine. A token has a
name, which runs and answers to gates record, and scopes: runs:read, runs:write and gates:answer. The list has the SHA-256 of each token and
no token; the gateway follows each change at once.

The list is in the store of the station (--store), or where --file says, for a program gateway (INSPAN_GATEWAY_TOKENS).`,
		Example: "  inspan token add ci --scope runs:read,runs:write\n  inspan token list\n  inspan token remove ci",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(addCmd(a), listCmd(a), removeCmd(a))
	return cmd
}

// place is where the list is.
type place struct{ store, file string }

func (p *place) flags(a *app.App, cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.store, "store", a.Folder, "folder of the station (INSPAN_STORE)")
	cmd.Flags().StringVar(&p.file, "file", "", "file of the list, in place of the one in the store")
}

// path is that of the list: where no file is named, in the store of the station that runs here or that was named.
func (p place) path(ctx context.Context) string {
	if p.file != "" {
		return p.file
	}
	if r, alive := station.Find(ctx, ".", p.store); alive {
		return filepath.Join(r.Store, tokens.File)
	}
	return filepath.Join(p.store, tokens.File)
}

// addCommand is inspan token add.
type addCommand struct {
	App *app.App
	place
	scopes  []string
	expires time.Duration
}

func addCmd(a *app.App) *cobra.Command {
	c := &addCommand{App: a}
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Make a token, and print it this once",
		Long: `Makes a token of 32 random bytes and prints it. It is kept nowhere: who loses it makes another. Without --scope it may read, start and
steer runs; to answer gates it needs gates:answer.`,
		Example: "  inspan token add ci\n  inspan token add dashboard --scope runs:read\n" +
			"  inspan token add chat --scope runs:read,gates:answer --expires 720h\n  TOKEN=$(inspan token add tmp --json | jq -r .token)",
		Args: app.Args(1), ValidArgsFunction: cobra.NoFileCompletions, RunE: c.run,
	}
	c.flags(a, cmd)
	cmd.Flags().StringSliceVar(&c.scopes, "scope", []string{string(tokens.Read), string(tokens.Write)},
		"what the token is for: runs:read, runs:write, gates:answer")
	cmd.Flags().DurationVar(&c.expires, "expires", 0, "how long it is good; 0 is for ever")
	return cmd
}

// added is what inspan token add prints as JSON.
type added struct {
	tokens.Token
	Secret string `json:"token"`
}

func (a *addCommand) run(cmd *cobra.Command, args []string) error {
	now := time.Now().UTC().Truncate(time.Second)
	out := added{Token: tokens.Token{Name: args[0], Added: now}}
	out.Secret, out.Digest = tokens.New()
	for _, s := range a.scopes {
		out.Scopes = append(out.Scopes, tokens.Scope(s))
	}
	if a.expires < 0 {
		return app.Usage("--expires is %s, want more than 0", a.expires)
	}
	if a.expires > 0 {
		out.Expires = now.Add(a.expires)
	}
	if err := out.Check(); err != nil {
		return app.Usage("%w", err)
	}
	path := a.path(cmd.Context())
	if err := a.App.Acceptance().MarkStore(filepath.Dir(path)); err != nil {
		return err
	}
	_, err := tokens.Change(path, func(l tokens.List) (tokens.List, error) { return l.With(out.Token) })
	if errors.Is(err, tokens.ErrThere) {
		return app.Exit(app.ExitFailed, fmt.Errorf("%w; inspan token remove %s makes room for another of that name", err,
			out.Name))
	}
	if err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(out)
	}
	fmt.Fprintln(a.App.Out, out.Secret)
	fmt.Fprintf(a.App.Err, "Token %s has the scopes %s%s. It is not shown again; send it as Authorization: Bearer TOKEN.\n",
		out.Name,
		listed(out.Scopes), until(out.Token))
	return nil
}

func listed(scopes []tokens.Scope) string {
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

func until(t tokens.Token) string {
	if t.Expires.IsZero() {
		return ""
	}
	return " until " + t.Expires.Format(time.RFC3339)
}

// listCommand is inspan token list.
type listCommand struct {
	App *app.App
	place
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the tokens, without what they are",
		Example: "  inspan token list\n  inspan token list --json",
		Args:    app.Args(0), RunE: c.run,
	}
	c.flags(a, cmd)
	return cmd
}

func (a *listCommand) run(cmd *cobra.Command, _ []string) error {
	list, err := tokens.Load(a.path(cmd.Context()))
	if err != nil {
		return err
	}
	l := app.Listing{Heads: []string{"NAME", "SCOPES", "AGE", "EXPIRES"},
		Empty: "There is no token: the gateway lets no one in. inspan token add NAME makes one."}
	for _, t := range list.Tokens {
		expires := "never"
		switch {
		case t.Expires.IsZero():
		case t.Expires.Before(time.Now()):
			expires = "expired"
		default:
			expires = t.Expires.Format(time.RFC3339)
		}
		l.Add(t.Name, t, t.Name, listed(t.Scopes), app.Age(t.Added), expires)
	}
	return a.App.Print(l)
}

// removeCommand is inspan token remove.
type removeCommand struct {
	App *app.App
	place
}

func removeCmd(a *app.App) *cobra.Command {
	c := &removeCommand{App: a}
	cmd := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Remove a token, which is refused from then on",
		Example: "  inspan token remove ci",
		Args:    app.Args(1), ValidArgsFunction: c.complete, RunE: c.run,
	}
	c.flags(a, cmd)
	return cmd
}

func (a *removeCommand) run(cmd *cobra.Command, args []string) error {
	_, err := tokens.Change(a.path(cmd.Context()), func(l tokens.List) (tokens.List, error) { return l.Without(args[0]) })
	if errors.Is(err, tokens.ErrUnknown) {
		return app.Exit(app.ExitUnknown, fmt.Errorf("%w; inspan token list lists them", err))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.App.Err, "Token %s is refused from now on; streams that it has open end within seconds.\n", args[0])
	return nil
}

func (a *removeCommand) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	list, err := tokens.Load(a.path(cmd.Context()))
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, t := range list.Tokens {
		names = append(names, t.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
