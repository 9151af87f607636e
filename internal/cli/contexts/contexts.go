// Package contexts has inspan context: names for the ways to reach stations.
package contexts

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/events"
)

// Command makes inspan context and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "context", Aliases: []string{"ctx"}, Short: "Name the ways to reach stations, and choose one",
		Long: `A context has the address of a server, the name of a station and paths of credentials. The one that is chosen holds for all commands
of this person. An address is taken from the first of these that says it: --server, --context, the variables INSPAN_NATS_URL and
NATS_URL, the context that INSPAN_NATS_CONTEXT names, the route of the project (inspan stations route), the context that was chosen, a configuration file, the station that runs in this
project, nats://127.0.0.1:4222. inspan config explain nats.url shows which one it was.

Contexts of the nats program are read as well, by the name nats:NAME. A file of a context holds no secret, only paths.`,
		Example: "  inspan context add prod --server tls://nats.example.com --creds ~/prod.creds --station prod\n  inspan context use prod\n  inspan --context nats:lab runs\n  inspan context use --none",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(addCmd(a), useCmd(a), listCmd(a), showCmd(a), removeCmd(a))
	return cmd
}

// addCommand is inspan context add.
type addCommand struct {
	App     *app.App
	context app.Context
	force   bool
}

func addCmd(a *app.App) *cobra.Command {
	c := &addCommand{App: a}
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Add a context, from --server, --creds, --station and the flags here",
		Example: "  inspan context add prod --server tls://nats.example.com --creds ~/prod.creds --station prod\n  inspan context add lab --server nats://10.0.0.7:4222 --nkey ~/lab.nk",
		Args:    app.Args(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.context.NKey, "nkey", "", "file of an NKey seed")
	f.StringVar(&c.context.Approver, "approver", "", "in whose name gates are answered and runs are steered")
	f.StringVar(&c.context.CA, "ca", "", "file of certificates to verify the server's with")
	f.StringVar(&c.context.Cert, "cert", "", "file of this program's certificate")
	f.StringVar(&c.context.Key, "key", "", "file of its key")
	f.BoolVar(&c.force, "force", false, "write over a context of that name")
	return cmd
}

func (a *addCommand) run(_ *cobra.Command, args []string) error {
	c := a.context
	if c.Name = args[0]; !events.ValidID(c.Name) {
		return app.Usage("%q is no name of a context: use A-Z a-z 0-9 _ and -", c.Name)
	}
	if !a.App.Given("server") {
		return app.Usage("--server is missing: the address of the station's NATS server")
	}
	if strings.Contains(a.App.Server, "@") {
		return app.Usage("--server %s holds a name or a password, and a context holds no secrets: use --creds or --nkey with a file",
			a.App.Address())
	}
	for one := range strings.SplitSeq(a.App.Server, ",") {
		if _, err := app.HostPort(strings.TrimSpace(one)); err != nil {
			return err
		}
	}
	if (c.Cert == "") != (c.Key == "") {
		return app.Usage("--cert and --key go together")
	}
	if c.Approver != "" {
		if err := events.CheckID("approver", c.Approver); err != nil {
			return app.Usage("--approver: %w", err)
		}
	}
	c.Server = a.App.Server
	if a.App.Given("station") {
		if err := events.CheckID("station", a.App.Station); err != nil {
			return err
		}
		c.Station = a.App.Station
	}
	if a.App.Given("creds") {
		c.Creds = a.App.Creds
	}
	for flag, path := range map[string]*string{"--creds": &c.Creds, "--nkey": &c.NKey, "--ca": &c.CA, "--cert": &c.Cert,
		"--key": &c.Key} {
		if err := absolute(flag, path); err != nil {
			return err
		}
	}
	if _, err := app.LoadContext(c.Name); err == nil && !a.force {
		return app.Exit(app.ExitFailed, fmt.Errorf("context %s is there already: --force writes over it", c.Name))
	}
	if err := app.SaveContext(c); err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(shownOf(c))
	}
	fmt.Fprintf(a.App.Out, "Added context %s. Choose it with: inspan context use %s\n", c.Name, c.Name)
	return nil
}

// useCommand is inspan context use.
type useCommand struct {
	App  *app.App
	none bool
}

func useCmd(a *app.App) *cobra.Command {
	c := &useCommand{App: a}
	cmd := &cobra.Command{
		Use: "use [NAME]", Short: "Choose the context that holds for all commands, or none",
		Example: "  inspan context use prod\n  inspan context use nats:lab\n  inspan context use --none",
		Args:    app.ArgsBetween(0, 1), ValidArgsFunction: complete,
		RunE: c.run,
	}
	cmd.Flags().BoolVar(&c.none, "none", false, "choose none")
	return cmd
}

func (a *useCommand) run(_ *cobra.Command, args []string) error {
	if (len(args) == 0) != a.none {
		return app.Usage("name a context, or --none: inspan context list lists them")
	}
	if a.none {
		fmt.Fprintln(a.App.Err, "No context is chosen.")
		return app.SetCurrentContext("")
	}
	if _, err := app.LoadContext(args[0]); err != nil {
		return err
	}
	if err := app.SetCurrentContext(args[0]); err != nil {
		return err
	}
	fmt.Fprintf(a.App.Err, "All commands use context %s now.\n", args[0])
	return nil
}

// complete completes the name of a context.
func complete(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return app.Contexts(), cobra.ShellCompDirectiveNoFileComp
}

// shown is a context as it is listed.
type shown struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	app.Context
	Error string `json:"error,omitempty"`
}

func shownOf(c app.Context) shown {
	c.Server = app.HideSecrets(c.Server)
	return shown{Name: c.Name, Current: c.Name == app.CurrentContext(), Context: c}
}

// listCommand is inspan context list.
type listCommand struct {
	App *app.App
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the contexts; * is the one that is chosen",
		Example: "  inspan context list\n  inspan context list -o name", Args: app.Args(0),
		RunE: c.run,
	}
}

func (a *listCommand) run(*cobra.Command, []string) error {
	l := app.Listing{Heads: []string{"", "NAME", "STATION", "+CREDS", "SERVER"},
		Empty: "There are no contexts. Add one with: inspan context add NAME --server ADDRESS"}
	for _, name := range app.Contexts() {
		c, err := app.LoadContext(name)
		s := shownOf(c)
		if s.Name = name; err != nil {
			s.Error = err.Error()
		}
		mark := ""
		if s.Current = name == app.CurrentContext(); s.Current {
			mark = "*"
		}
		l.Add(name, s, mark, name, cmp.Or(c.Station, "-"), cmp.Or(c.Creds, c.NKey, "-"), cmp.Or(s.Error, s.Server))
	}
	return a.App.Print(l)
}

// showCommand is inspan context show.
type showCommand struct {
	App *app.App
}

func showCmd(a *app.App) *cobra.Command {
	c := &showCommand{App: a}
	return &cobra.Command{
		Use: "show [NAME]", Short: "Show a context, or the one that is in force here",
		Example: "  inspan context show\n  inspan context show prod --json", Args: app.ArgsBetween(0, 1),
		ValidArgsFunction: complete, RunE: c.run,
	}
}

func (a *showCommand) run(_ *cobra.Command, args []string) error {
	name, from := strings.Join(args, ""), ""
	if name == "" {
		if err := app.FindRoute(a.App); err != nil {
			return err
		}
		if name, from = a.App.ContextName(); name == "" {
			return app.Exit(app.ExitUnknown, fmt.Errorf("no context is in force; inspan context use NAME chooses one"))
		}
	}
	c, err := app.LoadContext(name)
	if err != nil {
		return err
	}
	s := shownOf(c)
	if a.App.JSON {
		return a.App.PrintJSON(s)
	}
	a.App.Pairs([][2]string{{"name", s.Name}, {"server", s.Server}, {"station", s.Station}, {"creds", s.Creds},
		{"nkey", s.NKey},
		{"ca", s.CA}, {"cert", s.Cert}, {"key", s.Key}, {"named by", from}})
	return nil
}

// removeCommand is inspan context remove.
type removeCommand struct {
	App *app.App
}

func removeCmd(a *app.App) *cobra.Command {
	c := &removeCommand{App: a}
	return &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Remove a context; the files that it names stay",
		Example: "  inspan context remove lab", Args: app.Args(1), ValidArgsFunction: complete,
		RunE: c.run,
	}
}

func (a *removeCommand) run(_ *cobra.Command, args []string) error {
	if err := app.RemoveContext(args[0]); err != nil {
		return err
	}
	fmt.Fprintf(a.App.Err, "Removed context %s.\n", args[0])
	return nil
}

// absolute makes a path good in any directory, and finds a typing error.
func absolute(flag string, path *string) error {
	if *path == "" {
		return nil
	}
	at, err := filepath.Abs(*path)
	if err != nil {
		return app.Usage("%s: %w", flag, err)
	}
	if !app.IsFile(at) {
		return app.Usage("%s %s: there is no such file", flag, *path)
	}
	*path = at
	return nil
}
