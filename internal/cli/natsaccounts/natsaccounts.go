// Package natsaccounts has inspan nats-accounts: it makes the accounts and users of a station for NATS servers in
// operator mode, as a folder of keys, signed claims and credentials.
//
// Promises: what is there stays: a second call signs the accounts anew, with the rights of this version, and leaves
// keys and good credentials as they are. Interrupted at any point, the same call completes it. It connects to a server
// with --push alone, and then sends nothing but claims, which are no secret.
package natsaccounts

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/claims"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// command is inspan nats-accounts.
type command struct {
	App                  *app.App
	out, operator, push  string
	users, remove, renew []string
	upgrade              bool
	life                 time.Duration
	bytes                int64
	// sent says that the servers have the accounts.
	sent bool
}

// Command makes inspan nats-accounts.
func Command(a *app.App) *cobra.Command {
	c := &command{App: a}
	cmd := &cobra.Command{
		Use: "nats-accounts", Short: "Make the accounts and users of a station for NATS servers in operator mode (JWT)",
		Long: `Makes the two accounts of a station as signed claims, and a credentials file for setup, each service, and people, with the same rights as
deploy/nats/users.conf. With --operator-seed an operator that you have signs the accounts: push them with nsc or to the resolver. Without
it the folder gets an operator of its own and resolver.conf, which a server includes.

Run it again after an upgrade: keys and credentials stay, the accounts get the rights of the new version. Keep the folder: it has the keys.
The rights are in the accounts (scoped signing keys), so pushing the accounts is enough, and credentials are short.
docs/own-nats.md has the whole way, and what to do with one account and no right to make others.`,
		Example: "  inspan nats-accounts --out nats\n" +
			"  inspan nats-accounts --out nats --operator-seed ~/.local/share/nats/nsc/keys/keys/O/AB/OAB....nk --user anna=watch,approve\n" +
			"  inspan nats-accounts --out nats --operator-seed operator.nk --push system.creds --server tls://nats.example:4222\n" +
			"  inspan nats-accounts --out nats --renew planner\n  inspan nats-accounts --out nats --remove anna --json",
		Args: app.Args(0), ValidArgsFunction: cobra.NoFileCompletions, RunE: c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.out, "out", "", "folder of the keys, accounts and credentials; it is made, or added to")
	f.StringVar(&c.operator, "operator-seed", "", "file with the seed of the operator's key, or of one of its signing keys; without it, the folder has an operator of its own")
	f.StringVar(&c.push, "push", "", "credentials of a user of the system account: also send the accounts to the servers of --server, whose resolver is of type full")
	f.StringArrayVar(&c.users, "user", nil, "NAME=RIGHTS of a person, who answers gates in the own name: dispatch, watch, approve, record, halt, budget, backup; may be repeated")
	f.StringArrayVar(&c.remove, "remove", nil, "NAME of a person whose credentials are revoked; may be repeated")
	f.StringArrayVar(&c.renew, "renew", nil, "NAME of a user whose credentials are revoked and made anew; may be repeated")
	f.BoolVar(&c.upgrade, "upgrade", false, "also the user upgrade, who may change streams: only while you do that; the next call without it takes it away")
	f.DurationVar(&c.life, "expires", 0, "how long new credentials are good, at least 1h; 0 is for ever. Called again, it renews those with less than half of it left")
	f.Int64Var(&c.bytes, "store-bytes", 0, "most bytes that the streams may take, 0 leaves it to the server")
	return cmd
}

// result is what inspan nats-accounts prints as JSON.
type result struct {
	Station  string   `json:"station"`
	Dir      string   `json:"dir"`
	Operator string   `json:"operator"`
	Config   string   `json:"config,omitempty"`
	Accounts []madeOf `json:"accounts"`
	Users    []madeOf `json:"users"`
	Next     []string `json:"next"`
}

// madeOf is an account or a user of a result.
type madeOf struct {
	Name    string     `json:"name"`
	Account string     `json:"account,omitempty"`
	Key     string     `json:"key"`
	File    string     `json:"file"`
	New     bool       `json:"new,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
}

func (c *command) run(cmd *cobra.Command, _ []string) error {
	if err := c.check(); err != nil {
		return err
	}
	buckets := c.App.Buckets()
	if err := buckets.Check(); err != nil {
		return app.Usage("%w", err)
	}
	named := buckets.Named()
	want := record{Station: c.App.Station, State: named.State, Files: named.Files, Operator: ownOperator}
	var seed secret.Value
	if c.operator != "" {
		b, err := disk.ReadAtMost(c.operator, maxFile)
		if err != nil {
			return app.Usage("--operator-seed: %w", err)
		}
		seed = claims.TrimSeed(b)
		if want.Operator, err = claims.CheckOperator(seed); err != nil {
			return app.Usage("--operator-seed %s: %w", c.operator, err)
		}
	}
	dir, err := filepath.Abs(c.out)
	if err != nil {
		return app.Usage("--out: %w", err)
	}
	f, err := open(dir, want)
	if err != nil {
		return err
	}
	lock, err := disk.WaitLock(f.path(lockFile), lockWait)
	if err != nil {
		return fmt.Errorf("%s is in use by another program: %w", dir, err)
	}
	defer func() { _ = lock.Close() }()       // it ends with this process at the latest
	if f, err = open(dir, want); err != nil { // another may have changed it
		return err
	}
	now := time.Now()
	if err := c.change(f, now); err != nil {
		return err
	}
	if err := f.save(); err != nil {
		return err
	}
	administrators := []topology.User{buckets.Setup(want.Station)}
	if c.upgrade {
		administrators = append(administrators, buckets.Upgrade(want.Station))
	}
	made, err := claims.Make(claims.Config{Station: want.Station, Buckets: buckets, Outsiders: f.outsiders(buckets),
		Administrators: administrators, Seed: f.seed, OperatorSeed: seed,
		OperatorToken: f.operatorToken(), Credentials: f.credentials,
		Revoked: f.revokedKeys(), Life: c.life, StoreBytes: c.bytes, Now: now})
	if err != nil {
		return err
	}
	if err := f.write(made); err != nil {
		return err
	}
	if c.push != "" {
		if err := c.send(cmd.Context(), made); err != nil {
			return err
		}
	}
	return c.print(f, made)
}

// send brings the accounts to the servers, that of the streams first: the other one imports from it. Sent again, the
// same claims change nothing.
func (c *command) send(ctx context.Context, made claims.Made) error {
	ctx, cancel := context.WithTimeout(ctx, pushWait)
	defer cancel()
	if err := app.Listens(ctx, c.App.Server); err != nil {
		return fmt.Errorf("no NATS server at %s: --server names it: %w", c.App.Address(), err)
	}
	certificates, err := c.App.Context.TLS()
	if err != nil {
		return err
	}
	conn, err := jet.Connect(ctx, jet.Config{URL: c.App.Server, Creds: c.push, TLS: certificates, Name: "inspan nats-accounts"})
	if err != nil {
		return fmt.Errorf("--push %s: %w", c.push, err)
	}
	defer conn.Close()
	for _, a := range made.Accounts {
		if a.Name == claims.SystemName {
			continue // the servers have it already, or this connection would not be there
		}
		if err := jet.ResolverOf(conn).Update(ctx, a.Token); err != nil {
			return fmt.Errorf("send account %s to %s: %w", a.Name, c.App.Address(), err)
		}
	}
	c.sent = true
	return nil
}

// pushWait bounds what --push does.
const pushWait = 30 * time.Second

// check looks at the flags.
func (c *command) check() error {
	switch {
	case c.out == "":
		return app.Usage("--out is missing: the folder of the keys, accounts and credentials")
	case c.life != 0 && c.life < time.Hour:
		return app.Usage("--expires is %s, want 1h at least, or 0 for ever", c.life)
	case c.bytes < 0:
		return app.Usage("--store-bytes is %d, want 0 or more", c.bytes)
	}
	if err := events.CheckID("station", c.App.Station); err != nil {
		return app.Usage("%w", err)
	}
	return nil
}

// change does what the flags say to the people and to revoked keys.
func (c *command) change(f *folder, now time.Time) error {
	for _, text := range c.users {
		p, err := parsePerson(text)
		if err != nil {
			return err
		}
		f.add(p)
	}
	for _, name := range c.remove {
		if err := f.remove(name, now); err != nil {
			return err
		}
	}
	for _, name := range c.renew {
		if claims.KeyOf(f.credentials(name)) == "" {
			return app.Exit(app.ExitUnknown, fmt.Errorf("--renew %s: there are no credentials %s; without --renew what is missing is made",
				name, f.credsFile(name)))
		}
		f.revoke(name, now)
	}
	return nil
}

func (c *command) print(f *folder, made claims.Made) error {
	out := result{Station: f.record.Station, Dir: f.dir, Operator: f.record.Operator, Next: c.next(f, made)}
	if made.Operator != "" {
		out.Config = f.path(configFile)
	}
	for _, a := range made.Accounts {
		out.Accounts = append(out.Accounts, madeOf{Name: a.Name, Key: a.Key, File: f.path(accountsDir, a.Name+".jwt")})
	}
	for _, u := range made.Users {
		m := madeOf{Name: u.Name, Account: u.Account, Key: u.Key, File: f.credsFile(u.Name), New: u.Fresh}
		if !u.Expires.IsZero() {
			m.Expires = &u.Expires
		}
		out.Users = append(out.Users, m)
	}
	if c.App.JSON {
		return c.App.PrintJSON(out)
	}
	l := app.Listing{Heads: []string{"NAME", "ACCOUNT", "CREDENTIALS", "", "EXPIRES"}}
	for _, u := range out.Users {
		state, expires := "unchanged", "never"
		if u.New {
			state = "new"
		}
		if u.Expires != nil {
			expires = u.Expires.Format(time.RFC3339)
		}
		l.Add(u.Name, u, u.Name, u.Account, u.File, state, expires)
	}
	if err := c.App.Print(l); err != nil {
		return err
	}
	fmt.Fprintln(c.App.Out)
	for _, line := range out.Next {
		fmt.Fprintln(c.App.Out, line)
	}
	return nil
}

// next says what to do with what was made.
func (c *command) next(f *folder, made claims.Made) []string {
	var lines []string
	switch {
	case c.sent:
		lines = append(lines, "Sent: the servers of "+c.App.Address()+" have the accounts.")
	case made.Operator != "":
		lines = append(lines, "Servers: include "+f.path(configFile)+" in the configuration of each, which has jetstream {} too, and reload or restart them.")
	default:
		lines = append(lines, "Send: the same call with --push SYSTEM.creds and --server, or nsc import account --file of each in "+f.path(accountsDir)+" and nsc push.")
	}
	return append(lines, fmt.Sprintf("Then: inspan setup --station %s --creds %s", f.record.Station, f.credsFile(topology.SetupUser)),
		fmt.Sprintf("Look: inspan doctor --station %s --creds %s --role operator", f.record.Station, f.credsFile("operator")))
}
