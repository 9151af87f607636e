package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// place holds the flags of a station that runs are brought to.
type place struct {
	store, users, key string
	sameKey           bool
}

func (p *place) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.store, "store", "", "folder of a station of inspan up that does not run, instead of --server")
	f.StringVar(&p.users, "users", "", "where the server has users: folder with ROLE.creds of each service and of setup, or a file of lines NATS_ROLE_PASSWORD=...; else these variables")
	f.StringVar(&p.key, "key", "", "believe only anchors of this public key: 64 hex digits, or a file with them")
	f.BoolVar(&p.sameKey, "same-key", false, "the station has the INSPAN_STATION_KEY that the runs had: idempotent calls that had started may be begun again")
}

// with lets do use the place, and closes it.
func (p *place) with(ctx context.Context, a *app, do func(*archive.Place, archive.How) error) error {
	keys, err := publicKeys(p.key)
	if err != nil {
		return err
	}
	return p.connected(ctx, a, func(ctx context.Context, as connect) error {
		to, err := station.Place(ctx, a.station, as)
		if err != nil {
			return err
		}
		return do(to, archive.How{By: cmp.Or(a.me(), "unknown"), SameKey: p.sameKey, Keys: keys, Progress: a.progress()})
	})
}

// connect connects as a user of the place.
type connect = func(ctx context.Context, user events.Service) (*jet.Conn, error)

// connected lets do connect as the users of the place, and closes what was opened.
func (p *place) connected(ctx context.Context, a *app, do func(context.Context, connect) error) (err error) {
	if err := events.CheckID("station", a.station); err != nil {
		return err
	}
	buckets := a.buckets()
	if err := buckets.Check(); err != nil {
		return usage("%w", err)
	}
	var conns []*jet.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	as := func(ctx context.Context, role events.Service) (*jet.Conn, error) {
		cfg := jet.Config{URL: a.server, Creds: a.creds, Name: "inspan mover", Buckets: buckets}
		if !p.own(a, &cfg, role) && len(conns) > 0 {
			return conns[0], nil
		}
		try, cancel := context.WithTimeout(ctx, connectWait)
		defer cancel()
		c, err := jet.Connect(try, cfg)
		if err == nil {
			conns = append(conns, c)
		}
		return c, err
	}
	if p.store != "" {
		log, err := a.logger()
		if err != nil {
			return err
		}
		still, err := station.Up(ctx, station.Config{StoreDir: p.store, Station: a.station, Still: true, Log: log,
			Base: service.Config{Base: service.Base{Store: service.Store{StateBucket: buckets.State, FilesBucket: buckets.Files}}}})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, still.Close(context.WithoutCancel(ctx))) }()
		as = still.As
	} else if err := listens(ctx, a.server); err != nil {
		return fmt.Errorf("no NATS server at %s: name a station that runs with --server, or one that does not with --store: %w", a.address(), err)
	}
	return do(ctx, as)
}

// own fills in the user of a role, where there is one.
func (p *place) own(a *app, cfg *jet.Config, role events.Service) bool {
	prefix := ""
	if role != topology.SetupUser {
		prefix = topology.InboxPrefix(a.station, role)
	}
	variable := "NATS_" + strings.ToUpper(string(role)) + "_PASSWORD"
	password := os.Getenv(variable)
	if info, err := os.Stat(p.users); err == nil && info.Mode().IsRegular() {
		password = line(p.users, variable)
	} else if p.users != "" {
		cfg.Creds, cfg.InboxPrefix = filepath.Join(p.users, string(role)+".creds"), prefix
		return true
	}
	if password != "" {
		cfg.Creds, cfg.User, cfg.Password, cfg.InboxPrefix = "", string(role), secret.New(password), prefix
		return true
	}
	return false
}

// line returns the value of a variable in a file of lines NAME=value, or "".
func line(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for l := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(l), name+"="); ok {
			return value
		}
	}
	return ""
}

func (a *app) restoreCmd() *cobra.Command {
	var from []string
	var list bool
	var p place
	cmd := &cobra.Command{
		Use: "restore --from DIR [RUN...]", Short: "Bring runs back from the archive that INSPAN_ARCHIVE names",
		Long: `Writes the facts of archived runs back, byte for byte and through the same guarded appends as any fact, after every
one was checked; before them objects, artifacts, published branches and the files of workspaces that follow their runs,
and the agents. Open runs go on: a gate waits for its answer, a call that was deferred is tried again. A run that exists
with other facts is left alone and named. Interrupted, it can be done again. --list shows what is in an archive and what
is not, and changes nothing. Messages that no service had taken yet, dead letters, sessions, and files that are on the
machine of a toolrunner alone (INSPAN_WORKSPACE_MODE=local or shared) are in no archive.`,
		Example: "  inspan restore --from /var/backups/inspan --list\n  inspan restore --from /var/backups/inspan --store .inspan\n  inspan restore --from /mnt/a --from /mnt/b --users /etc/inspan/creds --same-key\n  inspan restore --from bucket run-k3v9x2m1qa",
		RunE: func(cmd *cobra.Command, runs []string) error {
			if len(from) == 0 {
				return usage("inspan restore wants --from DIR: the folder that INSPAN_ARCHIVE named")
			}
			if list {
				return a.listArchives(cmd.Context(), from, runs)
			}
			return p.with(cmd.Context(), a, func(to *archive.Place, how archive.How) error {
				return a.restore(cmd.Context(), to, from, runs, how)
			})
		},
	}
	cmd.Flags().StringArrayVar(&from, "from", nil, "folder of the archive; given again, what is longer counts; \"bucket\" is what the station's own object store has of ended runs")
	cmd.Flags().BoolVar(&list, "list", false, "show what is in the archive and what is not, and restore nothing")
	p.flags(cmd)
	return cmd
}

// failedRun is a run that was not brought.
type failedRun struct {
	Run string `json:"run"`
	Why string `json:"why"`
}

func (a *app) restore(ctx context.Context, to *archive.Place, from, only []string, how archive.How) error {
	var done []archive.Brought
	var failed []failedRun
	var all []archive.Source
	for _, dir := range from {
		src, err := source(to, dir)
		if err != nil {
			return err
		}
		all = append(all, src)
	}
	src := archive.Join(all...)
	if _, err := to.Agents(ctx, src, a.station); err != nil {
		return err
	}
	runs, err := src.Runs(ctx)
	if err != nil {
		return err
	}
	for _, m := range runs {
		if m.Station != a.station || len(only) > 0 && !slices.Contains(only, m.Run) {
			continue
		}
		b, err := to.Bring(ctx, src, m, how)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			failed = append(failed, failedRun{m.Run, err.Error()})
			continue
		}
		done = append(done, b)
	}
	return a.brought(done, failed)
}

func source(to *archive.Place, dir string) (archive.Source, error) {
	if dir == "bucket" {
		return to.Bucket(), nil
	}
	d, err := archive.Open(dir)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil, exitWith(exitUnknown, fmt.Errorf("--from %s: %w", dir, err))
	}
	return d, err
}

// brought prints what was done; one run that was not is exit code 1.
func (a *app) brought(done []archive.Brought, failed []failedRun) error {
	if a.json {
		if err := a.printJSON(map[string]any{"brought": orEmpty(done), "failed": orEmpty(failed)}); err != nil {
			return err
		}
	} else {
		p, rows := a.paint(), [][]string{}
		for _, b := range done {
			rows = append(rows, []string{b.Run, p.state(string(b.Status)), fmt.Sprint(b.Facts), fmt.Sprint(b.Copied), fmt.Sprint(b.Objects), filesOf(b), fmt.Sprint(b.Artifacts), b.From})
			if b.Missing > 0 {
				fmt.Fprintf(a.err, "run %s: %s were not in the archive either\n", b.Run, view.Plural(b.Missing, "object"))
			}
			a.tellFiles(b)
		}
		a.table([]string{"RUN", "STATUS", ">FACTS", ">NEW", ">OBJECTS", "FILES", ">ARTIFACTS", "FROM STATION"}, rows)
		for _, f := range failed {
			fmt.Fprintf(a.err, "%s: %s\n", p.red(f.Run), harmless(f.Why))
		}
	}
	if len(failed) > 0 {
		return exitWith(exitFailed, fmt.Errorf("%s not restored; the others are", view.Plural(len(failed), "run")))
	}
	return nil
}

// bundle writes a run to a file.
func (a *app) bundle(ctx context.Context, c *client.Client, runID, file string, leave operator.Leave) (err error) {
	temp, err := os.MkdirTemp("", "inspan-bundle-*")
	if err != nil {
		return fmt.Errorf("make a bundle: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // a temporary folder
	dir, err := archive.Create(temp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	dir.OnProgress(a.progress())
	m, err := operator.Save(ctx, c, dir, runID, leave, a.me())
	if errors.Is(err, client.ErrOpen) {
		return usage("%w: --move ends it here so that it goes on only elsewhere, --fork lets it go on here too", err)
	}
	if err != nil {
		return err
	}
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	err = errors.Join(archive.Pack(f, dir), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the bundle: %w", err), os.Remove(part))
	}
	if a.json {
		return a.printJSON(m)
	}
	fmt.Fprintf(a.out, "Run %s, %s, %s: %s\n", runID, m.Status, view.Plural(int(m.Sequence), "fact"), file) //nolint:gosec // far below the limit
	a.tellSaved(m)
	fmt.Fprintf(a.out, "Bring it to a station with: inspan import %s --station NAME --server URL\n", file)
	return nil
}

func (a *app) importCmd() *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Bring a run from a bundle to the station, where it goes on",
		Long: `Checks every fact and object of a bundle, then copies them to the station, byte for byte: the facts keep the name of
the station that they were said at. An open run goes on here with its plan, history, gates, deferred calls and
deadline; a paused one when it is resumed. Its answers are published on the subjects of this station. Its artifacts and
published branches come with it, and the files of its workspace where they followed the run: toolrunners with
INSPAN_WORKSPACE_MODE=follow restore them. What is not in a bundle is named. Where the station has a session or a
workspace of the same name, that one stands.`,
		Example: "  inspan import run-k3v9x2m1qa.bundle --station berlin --server nats://berlin:4222\n  inspan import run-k3v9x2m1qa.bundle --key persister.pub --json",
		Args:    args(1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			f, err := os.Open(argv[0])
			if err != nil {
				return exitWith(exitUnknown, fmt.Errorf("open the bundle: %w", err))
			}
			defer f.Close()
			temp, err := os.MkdirTemp("", "inspan-bundle-*")
			if err != nil {
				return fmt.Errorf("unpack the bundle: %w", err)
			}
			defer os.RemoveAll(temp) //nolint:errcheck // a temporary folder
			src, err := archive.Unpack(f, temp)
			if err != nil {
				return err
			}
			m, err := src.Only(cmd.Context())
			if err != nil {
				return err
			}
			return p.with(cmd.Context(), a, func(to *archive.Place, how archive.How) error {
				b, err := to.Bring(cmd.Context(), src, m, how)
				if err != nil {
					return err
				}
				if _, err := to.Agents(cmd.Context(), src, m.Station); err != nil {
					return err
				}
				return a.brought([]archive.Brought{b}, nil)
			})
		},
	}
	p.flags(cmd)
	return cmd
}
