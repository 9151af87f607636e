// Package transfer moves runs between stations and archives: export, import and restore.
package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/verify"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Target holds the flags of a station that runs are brought to.
type Target struct {
	Store, Users, key string
	sameKey           bool
}

func (p *Target) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.Store, "store", "", "folder of a station of inspan up that does not run, instead of --server")
	f.StringVar(&p.Users, "users", "",
		"where the server has users: folder with ROLE.creds of each service and of setup, or a file of lines NATS_ROLE_PASSWORD=...; else these variables")
	f.StringVar(&p.key, "key", "", "believe only anchors of this public key: 64 hex digits, or a file with them")
	f.BoolVar(&p.sameKey, "same-key", false,
		"the station has the INSPAN_STATION_KEY that the runs had: idempotent calls that had started may be begun again")
}

// open lets do use the place, and closes it.
func (p *Target) open(ctx context.Context, a *app.App, do func(*archive.Restorer, archive.How) error) error {
	keys, err := verify.PublicKeys(p.key)
	if err != nil {
		return err
	}
	return p.Connected(ctx, a, func(ctx context.Context, as Connect) error {
		to, err := station.NewRestorer(ctx, a.Station, as)
		if err != nil {
			return err
		}
		return do(to, archive.How{By: cmp.Or(a.Me(), "unknown"), SameKey: p.sameKey, Keys: keys, Progress: progress(a)})
	})
}

// Connect connects as a user of the place.
type Connect = func(ctx context.Context, user events.Service) (*jet.Conn, error)

// Connected lets do connect as the users of the place, and closes what was opened.
func (p *Target) Connected(ctx context.Context, a *app.App, do func(context.Context, Connect) error) (err error) {
	if err := events.CheckID("station", a.Station); err != nil {
		return err
	}
	buckets := a.Buckets()
	if err := buckets.Check(); err != nil {
		return app.Usage("%w", err)
	}
	certificates, err := a.Context.TLS()
	if err != nil {
		return err
	}
	if p.Store == "" {
		if err := app.UseLogin(a); err != nil {
			return err
		}
	}
	var conns []*jet.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	as := func(ctx context.Context, role events.Service) (*jet.Conn, error) {
		cfg := jet.Config{URL: a.Server, Creds: a.Creds, NKey: a.Context.NKey, TLS: certificates, Name: "inspan mover",
			Buckets: buckets}
		if !p.ownUser(a, &cfg, role) && len(conns) > 0 {
			return conns[0], nil
		}
		try, cancel := context.WithTimeout(ctx, app.ConnectWait)
		defer cancel()
		c, err := jet.Connect(try, cfg)
		if err == nil {
			conns = append(conns, c)
		}
		return c, err
	}
	if p.Store != "" {
		log, err := a.Logger()
		if err != nil {
			return err
		}
		still, err := station.Up(ctx, station.Config{StoreDir: p.Store, Station: a.Station, Still: true, Log: log,
			Base: service.Config{Base: service.Base{Store: service.Store{StateBucket: buckets.State,
				FilesBucket: buckets.Files}}}})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, still.Close(context.WithoutCancel(ctx))) }()
		as = still.As
	} else if err := app.Listens(ctx, a.Server); err != nil {
		return fmt.Errorf("no NATS server at %s: name a station that runs with --server, or one that does not with --store: %w", a.Address(), err)
	}
	return do(ctx, as)
}

// ownUser fills in the user of a role, where there is one.
func (p *Target) ownUser(a *app.App, cfg *jet.Config, role events.Service) bool {
	prefix := ""
	if role != topology.SetupUser && role != topology.UpgradeUser {
		prefix = topology.InboxPrefix(a.Station, role)
	}
	variable := "NATS_" + strings.ToUpper(string(role)) + "_PASSWORD"
	password := os.Getenv(variable)
	if info, err := os.Stat(p.Users); err == nil && info.Mode().IsRegular() {
		password = line(p.Users, variable)
	} else if p.Users != "" {
		cfg.Creds, cfg.InboxPrefix = filepath.Join(p.Users, string(role)+".creds"), prefix
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
