// Package users has inspan user: who may reach a station of inspan up over its port.
package users

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/jet/userkey"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/station/userlist"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
)

// takenEvery is how often a command looks whether the station has taken up a change.
const takenEvery = 50 * time.Millisecond

// Command makes inspan user and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "user", Aliases: []string{"users"}, Short: "Say who may reach a station of inspan up",
		Long: `A station of inspan up lets in whoever reaches its port, until it has a list of users. From the first user on it lets in no one else,
also from this machine. Each user has a key; the station keeps its public half alone. Who may approve answers gates in the own name and in no
other, so that a run records who it was.

The list is in the store of the station (--store). A station that runs takes up each change within seconds: a user who is removed is
disconnected. Users of a cluster are in the configuration of its servers: docs/deploy.md.`,
		Example: "  inspan user add ada --use\n  inspan user add ben --may watch,approve\n  inspan user list\n  inspan user remove ben",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(addCmd(a), listCmd(a), removeCmd(a))
	return cmd
}

// addCommand is inspan user add.
type addCommand struct {
	App                *app.App
	store, key, public string
	may                []string
	use                bool
}

func addCmd(a *app.App) *cobra.Command {
	c := &addCommand{App: a}
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Add a user, and make a key for them",
		Long: `Makes a key and writes it into a file that only you can read: give it to the user by a safe way, and remove it here. Who keeps the
key to themselves makes one (nk -gen user) and sends you the public half, for --public-key.`,
		Example: "  inspan user add ada --use\n  inspan user add ben --may watch,approve --key /media/ben.nk\n" +
			"  inspan user add eve --public-key UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
		Args: app.Args(1), ValidArgsFunction: cobra.NoFileCompletions, RunE: c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.store, "store", a.Folder, "folder of the station (INSPAN_STORE)")
	f.StringSliceVar(&c.may, "may", []string{"dispatch", "watch", "approve"},
		"what the user may do: dispatch, watch, approve, record (steps of programs), halt (the whole station), budget (set budgets)")
	f.StringVar(&c.key, "key", "", "file to write the key into; without it, one in your folder of settings")
	f.StringVar(&c.public, "public-key", "", "public key of the user, who has the other half")
	f.BoolVar(&c.use, "use", false, "make a context for this user and choose it: this person is the user")
	return cmd
}

// added is what inspan user add prints as JSON.
type added struct {
	userlist.User
	// KeyFile has the key; empty where the user has it.
	KeyFile string `json:"key_file,omitempty"`
	Station string `json:"station,omitempty"`
	URL     string `json:"url,omitempty"`
	// TakenUp says that a station runs and has let this user in.
	TakenUp bool   `json:"taken_up"`
	Context string `json:"context,omitempty"`
}

func (a *addCommand) run(cmd *cobra.Command, args []string) error {
	out := added{User: userlist.User{Name: args[0], Key: a.public, Added: time.Now().UTC().Truncate(time.Second)}}
	for _, r := range a.may {
		out.May = append(out.May, topology.Right(r))
	}
	if a.public != "" && (a.key != "" || a.use) {
		return app.Usage("--public-key is of a key that another person has: leave --key and --use out")
	}
	running, alive := station.Find(cmd.Context(), ".", a.store)
	if a.use && !alive {
		return app.Usage("--use makes a context with the address of the station, and none runs in %s: start it, or leave --use out", a.store)
	}
	if alive {
		out.Station, out.URL, a.store = running.Station, running.URL, running.Store
	}
	if a.use {
		out.Context = out.Station + "-" + out.Name
		if _, err := app.LoadContext(out.Context); err == nil {
			return app.Exit(app.ExitFailed,
				fmt.Errorf("context %s is there already: inspan context remove %s", out.Context, out.Context))
		}
	}
	var seed []byte
	if a.public == "" {
		var err error
		if seed, out.Key, err = userkey.New(); err != nil {
			return fmt.Errorf("make a key: %w", err)
		}
	}
	if err := out.User.Check(); err != nil {
		return app.Usage("%w", err)
	}
	if seed != nil {
		if err := a.save(&out, seed); err != nil {
			return err
		}
	}
	if err := a.App.Acceptance().MarkStore(a.store); err != nil {
		return err
	}
	first := false
	list, err := userlist.Change(a.store, func(l userlist.List) (userlist.List, error) {
		first = !l.Closed
		return l.With(out.User)
	})
	if err != nil {
		if out.KeyFile != "" {
			err = errors.Join(err, os.Remove(out.KeyFile))
		}
		return err
	}
	if alive {
		if err := Taken(cmd.Context(), a.App, running, list); err != nil {
			return err
		}
		if out.TakenUp = true; out.KeyFile != "" {
			if err := letIn(cmd.Context(), a.App.Wait, out); err != nil {
				return fmt.Errorf("the station has taken up user %s and does not let the key in: %w", out.Name, err)
			}
		}
	}
	if a.use {
		c := app.Context{Name: out.Context, Server: out.URL, Station: out.Station, NKey: out.KeyFile, Approver: out.Name}
		if err := errors.Join(app.SaveContext(c), app.SetCurrentContext(c.Name)); err != nil {
			return err
		}
	}
	if a.App.JSON {
		return a.App.PrintJSON(out)
	}
	a.report(out, first)
	return nil
}

// save writes the key into a file that is not there yet.
func (a *addCommand) save(out *added, seed []byte) error {
	path := a.key
	if path == "" {
		var err error
		if path, err = KeyFile(cmp.Or(out.Station, a.App.Station), out.Name); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("folder of keys: %w", err)
		}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return app.Usage("--key: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("file of the key: %w; --key names another", err)
	}
	out.KeyFile = path
	_, err = f.Write(append(seed, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// KeyFile is where the key of a user of a station is, where no other file is named.
func KeyFile(station, user string) (string, error) {
	at := service.SystemFile()
	if at == "" {
		return "", app.Usage("there is no home folder to keep keys in: --key names a file")
	}
	return filepath.Join(filepath.Dir(at), "keys", station+"-"+user+".nk"), nil
}

func (a *addCommand) report(out added, first bool) {
	p := a.App.Paint()
	fmt.Fprintf(a.App.Out, "%s User %s may %s.\n", p.Green("✓"), p.Bold(out.Name), listed(out.May))
	server := cmp.Or(out.URL, "nats://HOST:4222")
	if u, err := url.Parse(server); err == nil && net.ParseIP(u.Hostname()).IsUnspecified() {
		server = "nats://HOST:" + u.Port()
	}
	key := cmp.Or(out.KeyFile, "KEYFILE")
	a.App.Pairs([][2]string{{"public key", out.Key}, {"key", cmp.Or(out.KeyFile, "with the user")}})
	if out.Context != "" {
		fmt.Fprintf(a.App.Out, "\nAll commands of this person use context %s now.\n", out.Context)
	} else {
		fmt.Fprintln(a.App.Out, "\nTo connect, with the address that this station has for them:")
		fmt.Fprintln(a.App.Out, "  "+p.Cyan(fmt.Sprintf("inspan context add %s --server %s --nkey %s --approver %s",
			cmp.Or(out.Station, a.App.Station), server, key, out.Name)))
		fmt.Fprintln(a.App.Out, "  "+p.Cyan(fmt.Sprintf("nats --server %s --nkey %s sub 'station.*.run.*.stream'", server, key)))
	}
	if !out.TakenUp {
		fmt.Fprintf(a.App.Err, "No station runs in %s: it is so from its next start on.\n", a.store)
	}
	if first {
		fmt.Fprintln(a.App.Err, p.Yellow("From now on the station lets in its users and no one else, also from this machine."))
		if out.Context == "" {
			fmt.Fprintln(a.App.Err, "To go on here, add yourself: inspan user add NAME --use")
		}
	}
}

// listed is a list of rights in a sentence.
func listed(rights []topology.Right) string {
	words := make([]string, len(rights))
	for i, r := range rights {
		words[i] = string(r)
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// Taken waits until a station has taken up a list.
func Taken(ctx context.Context, a *app.App, running station.Record, list userlist.List) error {
	ctx, cancel := context.WithTimeout(ctx, a.Wait)
	defer cancel()
	for {
		r, alive := station.Find(ctx, ".", running.Store)
		if alive && r.Users == list.Digest() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the list is changed, and the station at %s has not taken it up within %s: its log says why; --wait waits longer",
				running.URL, a.Wait)
		case <-time.After(takenEvery):
		}
	}
}

// letIn connects as a user who was added.
func letIn(ctx context.Context, wait time.Duration, u added) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{URL: u.URL, NKey: u.KeyFile, Station: u.Station})
	if err != nil {
		return err
	}
	c.Close()
	return nil
}

// listCommand is inspan user list.
type listCommand struct {
	App   *app.App
	store string
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List who may reach the station",
		Example: "  inspan user list\n  inspan user list --json",
		Args:    app.Args(0), RunE: c.run,
	}
	cmd.Flags().StringVar(&c.store, "store", a.Folder, "folder of the station (INSPAN_STORE)")
	return cmd
}

func (a *listCommand) run(cmd *cobra.Command, _ []string) error {
	list, err := userlist.Read(storeOf(cmd.Context(), a.store))
	if err != nil {
		return err
	}
	l := app.Listing{Heads: []string{"NAME", "MAY", "AGE", "+PUBLIC KEY"},
		Empty: "The station has no list of users: it lets in whoever reaches its port. inspan user add NAME begins one."}
	if list.Closed {
		l.Empty = "The list is empty: the station lets in no one. inspan user add NAME adds a user."
	}
	for _, u := range list.Users {
		l.Add(u.Name, u, u.Name, listed(u.May), app.Age(u.Added), u.Key)
	}
	return a.App.Print(l)
}

// removeCommand is inspan user remove.
type removeCommand struct {
	App   *app.App
	store string
	all   bool
}

func removeCmd(a *app.App) *cobra.Command {
	c := &removeCommand{App: a}
	cmd := &cobra.Command{
		Use: "remove [NAME]", Aliases: []string{"rm"}, Short: "Remove a user, who is disconnected at once",
		Long: `Removes a user, who is disconnected at once. With --all it removes the list itself: from its next start on the station lets in
whoever reaches its port again.`,
		Example: "  inspan user remove ben\n  inspan user remove --all",
		Args:    app.ArgsBetween(0, 1), ValidArgsFunction: c.complete, RunE: c.run,
	}
	cmd.Flags().StringVar(&c.store, "store", a.Folder, "folder of the station (INSPAN_STORE)")
	cmd.Flags().BoolVar(&c.all, "all", false, "remove the list: whoever reaches the port is let in")
	return cmd
}

func (a *removeCommand) run(cmd *cobra.Command, args []string) error {
	if (len(args) == 0) != a.all {
		return app.Usage("name a user, or --all: inspan user list lists them")
	}
	running, alive := station.Find(cmd.Context(), ".", a.store)
	if alive {
		a.store = running.Store
	}
	list, err := userlist.Change(a.store, func(l userlist.List) (userlist.List, error) {
		if a.all {
			if !l.Closed {
				return l, fmt.Errorf("the station has no list: %w", userlist.ErrUnknown)
			}
			return userlist.List{}, nil
		}
		return l.Without(args[0])
	})
	if errors.Is(err, userlist.ErrUnknown) {
		return app.Exit(app.ExitUnknown, fmt.Errorf("%w; inspan user list lists them", err))
	}
	if err != nil {
		return err
	}
	if a.all {
		fmt.Fprintln(a.App.Err, "The list is removed. From its next start on the station lets in whoever reaches its port.")
		return nil
	}
	if alive {
		if err := Taken(cmd.Context(), a.App, running, list); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.App.Err, "User %s is not let in any more.\n", args[0])
	return nil
}

func (a *removeCommand) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	list, err := userlist.Read(storeOf(cmd.Context(), a.store))
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return list.Names(), cobra.ShellCompDirectiveNoFileComp
}

// storeOf is the store of the station that runs here, or the one that was named.
func storeOf(ctx context.Context, named string) string {
	if r, alive := station.Find(ctx, ".", named); alive {
		return r.Store
	}
	return named
}
