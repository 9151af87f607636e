package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Times of a connection.
const (
	dialWait    = time.Second
	ConnectWait = 5 * time.Second
)

// ErrNoServer means that no server listens at the address.
var ErrNoServer = errors.New("no server listens there")

// Connect connects to the station, and says what to do where there is none.
func (a *App) Connect(ctx context.Context) (*client.Client, error) {
	if err := events.CheckID("station", a.Station); err != nil {
		return nil, err
	}
	if a.Local {
		return a.openLocal(ctx, false)
	}
	if !a.Locate(ctx, a.Folder) {
		if err := UseLogin(a); err != nil {
			return nil, err
		}
	}
	where := a.Address()
	if err := Listens(ctx, a.Server); err != nil {
		return nil, fmt.Errorf("no NATS server at %s: start a station with \"inspan up\", or name another with --server or NATS_URL: %w", where, err)
	}
	try, cancel := context.WithTimeout(ctx, ConnectWait)
	defer cancel()
	buckets := a.Buckets()
	if err := buckets.Check(); err != nil {
		return nil, Usage("%w", err)
	}
	certificates, err := a.Context.TLS()
	if err != nil {
		return nil, err
	}
	c, err := client.Connect(try, client.Config{URL: a.Server, Creds: a.Creds, NKey: a.Context.NKey, TLS: certificates,
		Station: a.Station, StateBucket: buckets.State, FilesBucket: buckets.Files})
	if _, other := errors.AsType[*topology.OtherBucketsError](err); other {
		return nil, err
	}
	if errors.Is(err, client.ErrCredentials) && !errors.Is(err, client.ErrUnauthorized) { // no server was asked
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("the NATS server at %s does not let this program in: name a context with a key of one of its users (inspan context add, inspan user add), a credentials file with --creds, or a user with INSPAN_NATS_USER and INSPAN_NATS_PASSWORD_FILE: %w", where, err)
	}
	return c, nil
}

// Buckets are the names of the station's buckets, as the environment or a configuration file has them.
func (a *App) Buckets() topology.Buckets {
	return topology.Buckets{State: a.Lookup(topology.StateVariable, ""), Files: a.Lookup(topology.FilesVariable, "")}
}

// Listens returns nil where one of the servers of a list takes connections. A refusal is known at once, where the
// client itself would go on trying.
func Listens(ctx context.Context, list string) error {
	var all []error
	for one := range strings.SplitSeq(list, ",") {
		address, err := HostPort(strings.TrimSpace(one))
		if err != nil {
			return err
		}
		dial := net.Dialer{Timeout: dialWait}
		conn, err := dial.DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close() // it was only to see who is there
			return nil
		}
		all = append(all, err)
	}
	return fmt.Errorf("%w: %w", ErrNoServer, errors.Join(all...))
}

// HostPort finds the address in a NATS URL; the scheme and the port may be left out.
func HostPort(server string) (string, error) {
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return "", Usage("--server %q is not an address such as nats://127.0.0.1:4222", HideSecrets(server))
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "ws":
		port = "80"
	case u.Scheme == "wss":
		port = "443"
	default:
		port = "4222"
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// Address is the server's, without the password that it may hold.
func (a *App) Address() string { return HideSecrets(a.Server) }

// HideSecrets is a list of addresses without passwords.
func HideSecrets(list string) string {
	var out []string
	for one := range strings.SplitSeq(list, ",") {
		if scheme, rest, ok := strings.Cut(one, "://"); ok {
			if i := strings.LastIndexByte(rest, '@'); i >= 0 {
				one = scheme + "://***" + rest[i:]
			}
		} else if i := strings.LastIndexByte(one, '@'); i >= 0 {
			one = "***" + one[i:]
		}
		out = append(out, one)
	}
	return strings.Join(out, ",")
}

// Connected runs a command that needs a station.
func (a *App) Connected(run func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		if a.Shared != nil {
			args, err := runRef(cmd.Context(), a.Shared, cmd, args)
			if err != nil {
				return err
			}
			return run(cmd.Context(), a.Shared, args)
		}
		connect := a.Connect
		if a.Local && groupOf(cmd) == "decide" { // a service must receive the message
			connect = func(ctx context.Context) (*client.Client, error) { return a.openLocal(ctx, true) }
		}
		c, err := connect(cmd.Context())
		if errors.Is(err, ErrNoServer) && !a.Local {
			stopped, shut, why := a.openStopped(cmd.Context(), cmd, args)
			if why == nil {
				defer shut()
			}
			if c = stopped; !errors.Is(why, ErrNoServer) {
				err = why
			}
		}
		if err != nil {
			return err
		}
		defer c.Close()
		if args, err = runRef(cmd.Context(), c, cmd, args); err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
}
