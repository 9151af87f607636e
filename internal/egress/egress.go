// Package egress is the only way from a sandbox to a network: a proxy that lets through what a call's agent is allowed.
//
// Promises: nothing is reached that the list of a Grant does not name, and nothing that is not public unless the list
// writes its address (package policy). A name is resolved once and the address that was judged is the one that is
// dialled. The name in a TLS greeting, and the Host of each plain request, are those that were asked for, or nothing is
// passed on. A Door is open while its call's fence is current: that is asked before each connection, and again before
// bytes go out when the last answer is older than a second, so that a process that slept while its call was given to
// another reaches nothing when it wakes. Close cuts all connections at once and returns when nothing is left running.
// Every attempt is reported. Credentials are added outside of the sandbox and are never in errors or reports.
//
// Not promised: what is inside of TLS to an allowed host is not seen, so a host that serves others behind its own name
// can be asked for them. The exception are hosts with a credential: their TLS ends here, with a certificate of an
// authority that lives as long as the Session. A secret that such a host sends back is masked where it stands as it is,
// not where the host writes it in another form or in parts.
package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/egress/policy"
)

// Config of a Proxy. The zero value dials with the machine's name servers and trusts its certificates.
type Config struct {
	// Resolve returns the addresses of a name; nil asks the name servers of this machine.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial opens a connection to an address that was judged; nil dials it by TCP.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Closed reports addresses that are never dialled, whatever a list names; nil closes none besides those of policy.
	Closed func(to netip.AddrPort) bool
	// Roots are whom servers of hosts with a credential must be certified by; nil means the machine's.
	Roots *x509.CertPool
	// Credentials are added to requests, at most one for a host and port.
	Credentials []Credential
	Limits      Limits
}

// Limits of a Proxy; a field that is 0 means its default.
type Limits struct {
	// Connections that one Session may have to hosts at once: 256.
	Connections int
	// All connections of the Proxy to hosts at once: 4096.
	All int
	// Bytes that one Session may carry, both directions together: 4 GiB.
	Bytes int64
	// Idle is how long a connection may be silent in both directions: 2 minutes.
	Idle time.Duration
	// Greet is how long a client may take to say what it wants: 10 seconds.
	Greet time.Duration
	// Dial is how long names and connections may take: 15 seconds.
	Dial time.Duration
}

func (l Limits) filled() Limits {
	fill := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	wait := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	fill(&l.Connections, 256)
	fill(&l.All, 4096)
	wait(&l.Idle, 2*time.Minute)
	wait(&l.Greet, 10*time.Second)
	wait(&l.Dial, 15*time.Second)
	if l.Bytes <= 0 {
		l.Bytes = 4 << 30
	}
	return l
}

// Proxy opens doors. It is safe for concurrent use and has no goroutine of its own: all belong to a Session.
type Proxy struct {
	cfg Config
	// places is taken one for each connection to a host, of all doors.
	places chan struct{}
	mu     sync.Mutex
	// tokens are the doors that clients of a shared listener may name, guarded by mu.
	tokens map[string]*Session
}

// New checks the configuration.
func New(cfg Config) (*Proxy, error) {
	cfg.Limits = cfg.Limits.filled()
	if cfg.Resolve == nil {
		cfg.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			// The last dot keeps the search list of this machine out of it.
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
		}
	}
	if cfg.Dial == nil {
		var d net.Dialer
		cfg.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", to.String())
		}
	}
	seen := map[policy.Target]bool{}
	for i := range cfg.Credentials {
		c := &cfg.Credentials[i]
		if err := c.Check(); err != nil {
			return nil, err
		}
		if seen[c.target] {
			return nil, fmt.Errorf("credential of %s: %w", c.target, errTwice)
		}
		seen[c.target] = true
	}
	return &Proxy{cfg: cfg, places: make(chan struct{}, cfg.Limits.All), tokens: map[string]*Session{}}, nil
}

var errTwice = errors.New("there are two for that host and port")

// Grant is what one call may do.
type Grant struct {
	// Allow is the list of what may be reached.
	Allow policy.List
	// Current returns nil while the fence of the call is the current one, ErrStale, wrapped or not, when it is not, and
	// any other error where that cannot be told; nil means that the call needs no fence. It is called from many
	// goroutines, one at a time.
	Current func(context.Context) error
	// Local, where set, serves the requests that are made to the proxy itself and not through it.
	Local http.Handler
	// Report, where set, is told each attempt once: a refused one at once, others when their connection has ended. It
	// is called from many goroutines and must not block.
	Report func(Attempt)
}

// ErrStale means that a call is over, or that another attempt of it has begun.
var ErrStale = errors.New("the call's fence is not the current one")

// Attempt is one try to reach something.
type Attempt struct {
	// Target as it was asked for; Via is http, connect, socks or fetch.
	Target policy.Target
	Via    string
	// Rule that let it through, empty where none did. Code is empty where it was let through.
	Rule string
	Code policy.Code
	// Reason of a refusal.
	Reason string
	// Addr that was dialled.
	Addr netip.Addr
	// Sent and Received count bytes after TLS, towards the host and back.
	Sent, Received int64
	Took           time.Duration
}
