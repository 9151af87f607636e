package rotate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/users"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/jet/userkey"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/station/userlist"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// credentialsCommand is inspan rotate credentials.
type credentialsCommand struct {
	App                *app.App
	store, key, public string
	file               string
	token, dryRun      bool
}

func credentialsCmd(a *app.App) *cobra.Command {
	c := &credentialsCommand{App: a}
	cmd := &cobra.Command{
		Use: "credentials NAME", Aliases: []string{"credential"},
		Short: "Replace the key of a user, or with --token a token of the gateway",
		Long: `Replaces the key of a user of a station of inspan up (inspan user add), or a token of its gateway (inspan token add). Rights, scopes and name
stay. The old one is refused as soon as the station has taken up the list, within a second, and who is connected with it is disconnected.

The new key of a user takes the place of the old one in its file, so contexts that name that file go on. It is written next to it first
(NAME.nk.next): where the command is interrupted, the same command goes on where it was. A token is printed this once.

The passwords of the services of a cluster are in its secret store: docs/rotation.md has the order.`,
		Example: "  inspan rotate credentials ada\n  inspan rotate credentials ben --key /media/ben.nk\n" +
			"  inspan rotate credentials eve --public-key UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4\n" +
			"  inspan rotate credentials ci --token",
		Args: app.Args(1), RunE: c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.store, "store", a.Folder, "folder of the station (INSPAN_STORE)")
	f.StringVar(&c.key, "key", "", "file of the user's key; without it, the one in your folder of settings")
	f.StringVar(&c.public, "public-key", "", "new public key of the user, who has the other half")
	f.BoolVar(&c.token, "token", false, "NAME is a token of the gateway")
	f.StringVar(&c.file, "file", "", "with --token: file of the list of tokens, in place of the one in the store")
	f.BoolVar(&c.dryRun, "dry-run", false, "only say what would be done")
	return cmd
}

// rotatedCredential is what inspan rotate credentials prints as JSON.
type rotatedCredential struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Key is the public key of a user, KeyFile the file of the other half; Token is a token.
	Key     string `json:"key,omitempty"`
	KeyFile string `json:"key_file,omitempty"`
	Token   string `json:"token,omitempty"`
	// Completed says that an earlier rotation, which was interrupted, was completed, and no other was made.
	Completed bool `json:"completed,omitempty"`
	// TakenUp says that a station runs and refuses the old one.
	TakenUp bool `json:"taken_up"`
	DryRun  bool `json:"dry_run,omitempty"`
}

func (a *credentialsCommand) run(cmd *cobra.Command, args []string) error {
	if a.token && (a.key != "" || a.public != "") || !a.token && a.file != "" || a.key != "" && a.public != "" {
		return app.Usage("--file goes with --token; --key and --public-key are of a user, and only one of them is given")
	}
	running, alive := station.Find(cmd.Context(), ".", a.store)
	if alive {
		a.store = running.Store
	}
	out := rotatedCredential{Name: args[0], Kind: "user", DryRun: a.dryRun}
	var err error
	if a.token {
		out.Kind = "token"
		err = a.rotateToken(&out)
	} else {
		err = a.rotateUser(cmd.Context(), &out, running, alive)
	}
	switch {
	case errors.Is(err, userlist.ErrUnknown), errors.Is(err, tokens.ErrUnknown):
		return app.Exit(app.ExitUnknown, fmt.Errorf("%w; inspan %s list lists them", err, out.Kind))
	case err != nil:
		return err
	case a.App.JSON:
		return a.App.PrintJSON(out)
	}
	a.report(out)
	return nil
}

func (a *credentialsCommand) report(out rotatedCredential) {
	p := a.App.Paint()
	switch {
	case a.dryRun:
		fmt.Fprintf(a.App.Out, "Would replace the %s of %s.\n", map[string]string{"user": "key", "token": "token"}[out.Kind], out.Name)
	case out.Token != "":
		fmt.Fprintln(a.App.Out, out.Token)
		fmt.Fprintf(a.App.Err, "Token %s is replaced: the old one is refused from now on. It is not shown again.\n", out.Name)
	default:
		what := "is replaced"
		if out.Completed {
			what = "was replaced by a command that was interrupted; that is completed now"
		}
		fmt.Fprintf(a.App.Out, "%s The key of user %s %s.\n", p.Green("✓"), p.Bold(out.Name), what)
		a.App.Pairs([][2]string{{"public key", out.Key}, {"key", cmp.Or(out.KeyFile, "with the user")}})
		if !out.TakenUp {
			fmt.Fprintf(a.App.Err, "No station runs in %s: it is so from its next start on.\n", a.store)
		}
	}
}

// rotateToken gives a token a new secret.
func (a *credentialsCommand) rotateToken(out *rotatedCredential) error {
	path := cmp.Or(a.file, filepath.Join(a.store, tokens.File))
	secret, digest := tokens.New()
	change := func(l tokens.List) (tokens.List, error) {
		i := slices.IndexFunc(l.Tokens, func(t tokens.Token) bool { return t.Name == out.Name })
		if i < 0 {
			return l, fmt.Errorf("token %s: %w", out.Name, tokens.ErrUnknown)
		}
		all := slices.Clone(l.Tokens)
		all[i].Digest, all[i].Added = digest, time.Now().UTC().Truncate(time.Second)
		return tokens.List{Tokens: all}, nil
	}
	if a.dryRun {
		l, err := tokens.Load(path)
		if err == nil {
			_, err = change(l)
		}
		return err
	}
	_, err := tokens.Change(path, change)
	out.Token, out.TakenUp = secret, true
	return err
}

// rotateUser gives a user a new key. What is done and what is left can be seen from the files: a key next to the old
// one that the list does not have yet, one that it has, or none.
func (a *credentialsCommand) rotateUser(ctx context.Context, out *rotatedCredential, running station.Record,
	alive bool) error {
	list, err := userlist.Read(a.store)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list.Users, func(u userlist.User) bool { return u.Name == out.Name })
	if i < 0 {
		return fmt.Errorf("user %s: %w", out.Name, userlist.ErrUnknown)
	}
	before := list.Users[i].Key
	out.Key = a.public
	if a.public == "" {
		path := a.key
		if path == "" {
			if path, err = users.KeyFile(cmp.Or(running.Station, a.App.Station), out.Name); err != nil {
				return err
			}
		}
		if out.KeyFile, err = filepath.Abs(path); err != nil {
			return app.Usage("--key: %w", err)
		}
		if _, err := os.Stat(out.KeyFile); errors.Is(err, fs.ErrNotExist) {
			return app.Usage("user %s has no key in %s: --key names its file, and --public-key is for a user who has the key elsewhere",
				out.Name, out.KeyFile)
		}
	}
	if a.dryRun {
		return nil
	}
	next := out.KeyFile + ".next"
	if out.KeyFile != "" {
		lock, err := disk.TakeLock(out.KeyFile + ".lock")
		if err != nil {
			return fmt.Errorf("key of user %s: another rotation goes on, or its folder cannot be written: %w", out.Name, err)
		}
		defer func() { _ = lock.Close() }() // it ends with this process at the latest
		if out.Key, err = nextKey(next); err != nil {
			return err
		}
	}
	out.Completed = out.KeyFile != "" && out.Key == before
	list, err = userlist.Change(a.store, func(l userlist.List) (userlist.List, error) {
		return l.WithKey(out.Name, out.Key)
	})
	if err != nil {
		return err
	}
	if alive {
		if err := users.Taken(ctx, a.App, running, list); err != nil {
			return err
		}
		out.TakenUp = true
	}
	if out.KeyFile == "" {
		return nil
	}
	b, err := os.ReadFile(next)
	if err == nil {
		err = disk.Replace(out.KeyFile, b, 0o600)
	}
	if err == nil {
		err = os.Remove(next)
	}
	if err != nil {
		return fmt.Errorf("the new key of user %s is in force and stays in %s: %w", out.Name, next, err)
	}
	return nil
}

// nextKey returns the public half of the key that is to take the place of another, and makes it the first time.
func nextKey(path string) (public string, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		if public, err = userkey.Public(bytes.TrimSpace(b)); err != nil {
			return "", fmt.Errorf("%s is no key of a user: remove it, and rotate again: %w", path, err)
		}
		return public, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the new key: %w", err)
	}
	seed, public, err := userkey.New()
	if err == nil {
		err = disk.Replace(path, append(seed, '\n'), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return public, nil
}
