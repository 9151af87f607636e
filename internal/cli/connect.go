package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Times of a connection.
const (
	dialWait    = time.Second
	connectWait = 5 * time.Second
)

// errNoServer means that nobody listens at the address.
var errNoServer = errors.New("nobody listens there")

// connect connects to the station, and says what to do where there is none.
func (a *app) connect(ctx context.Context) (*client.Client, error) {
	if err := events.CheckID("station", a.station); err != nil {
		return nil, err
	}
	if a.alone {
		return a.openLocal(ctx, false)
	}
	a.locate(ctx, a.folder)
	where := a.address()
	if err := listens(ctx, a.server); err != nil {
		return nil, fmt.Errorf("no NATS server at %s: start a station with \"inspan up\", or name another with --server or NATS_URL: %w", where, err)
	}
	try, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	buckets := a.buckets()
	if err := buckets.Check(); err != nil {
		return nil, usage("%w", err)
	}
	c, err := client.Connect(try, client.Config{URL: a.server, Creds: a.creds, Station: a.station, StateBucket: buckets.State, FilesBucket: buckets.Files})
	if _, other := errors.AsType[*topology.OtherBucketsError](err); other {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("the NATS server at %s does not let this program in; --creds or NATS_CREDS names a credentials file: %w", where, err)
	}
	return c, nil
}

// buckets are the names of the station's buckets, as the environment or a configuration file has them.
func (a *app) buckets() topology.Buckets {
	return topology.Buckets{State: a.set(topology.StateVariable, ""), Files: a.set(topology.FilesVariable, "")}
}

// listens returns nil where one of the servers of a list takes connections. A refusal is known at once, where the
// client itself would go on trying.
func listens(ctx context.Context, list string) error {
	var all []error
	for one := range strings.SplitSeq(list, ",") {
		address, err := hostPort(strings.TrimSpace(one))
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
	return fmt.Errorf("%w: %w", errNoServer, errors.Join(all...))
}

// hostPort finds the address in a NATS URL; the scheme and the port may be left out.
func hostPort(server string) (string, error) {
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return "", usage("--server %q is not an address such as nats://127.0.0.1:4222", shown(server))
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

// address is the server's, without the password that it may hold.
func (a *app) address() string { return shown(a.server) }

// shown is a list of addresses without passwords.
func shown(list string) string {
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

// with runs a command that needs a station.
func (a *app) with(run func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		connect := a.connect
		if a.alone && groupOf(cmd) == "decide" { // somebody must hear what is said
			connect = func(ctx context.Context) (*client.Client, error) { return a.openLocal(ctx, true) }
		}
		c, err := connect(cmd.Context())
		if errors.Is(err, errNoServer) && !a.alone {
			stopped, shut, why := a.openStopped(cmd.Context(), cmd)
			if why == nil {
				defer shut()
			}
			if c = stopped; !errors.Is(why, errNoServer) {
				err = why
			}
		}
		if err != nil {
			return err
		}
		defer c.Close()
		return run(cmd.Context(), c, args)
	}
}

// build is what this program is.
type build struct {
	Version  string `json:"version"`
	Facts    int    `json:"fact_version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionInfo() build {
	return build{Version: service.Version(), Facts: events.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}
