// Package e2b runs commands in virtual machines of the E2B cloud, or of another service that speaks its API (SBX-5).
//
// Promises: each sandbox is a machine of its own, made from a template when it is opened and ended by Destroy; the
// workspace is mirrored (package mirror), so that everything which is not a command works as for local backends. A
// machine lives only as long as its toolrunner says so: one that no one extends ends by itself after Lease, and Reap
// ends what lost toolrunners of this computer left sooner. The API key goes to the API's own address and nowhere else:
// redirects are not followed. An answer of the service is hostile data: what is kept of it is bounded and shown quoted.
// A command of which no one knows how it ended is told as such (mirror.ErrCut) and never run twice.
//
// The processors, memory and disk of a machine are those of its template: a sandbox whose limits are smaller than its
// template is refused. It does not promise to find a process that clears its environment, leaves its session and loses
// its parent before the machine ends, and it does not measure memory.
package e2b

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/mirror"
	"github.com/inspan/inspan/internal/secret"
)

const (
	// DefaultURL is the API of the E2B cloud, DefaultDomain where its sandboxes are, DefaultTemplate what they are made
	// from.
	DefaultURL      = "https://api.e2b.app"
	DefaultDomain   = "e2b.app"
	DefaultTemplate = "base"
	// Lease is how long a machine lives after its toolrunner last renewed it.
	Lease = 5 * time.Minute
)

// Errors of the service; all but ErrMissing wrap sandbox.ErrUnavailable.
var (
	// ErrKey means that there is no API key, or that it is refused.
	ErrKey = fmt.Errorf("%w: the E2B API key", sandbox.ErrUnavailable)
	// ErrTemplate means that the service does not have the template.
	ErrTemplate = fmt.Errorf("%w: the E2B template", sandbox.ErrUnavailable)
	// ErrBusy means that the service took no more requests or sandboxes, also after waiting.
	ErrBusy = fmt.Errorf("%w: the E2B service is at its limit", sandbox.ErrUnavailable)
	// ErrService means that the service cannot be reached or answers with a fault of its own.
	ErrService = fmt.Errorf("%w: the E2B service", sandbox.ErrUnavailable)
	// ErrMissing means that the machine of a sandbox is not there any more.
	ErrMissing = errors.New("the machine of the sandbox is missing: it reached its time limit or was ended from outside; the next call opens a new one")
)

// Config says where the service is. The zero value is the E2B cloud without a key, whose Open and Probe return ErrKey.
type Config struct {
	Key secret.Value
	// URL of the API; empty for DefaultURL.
	URL string
	// SandboxURL is where all sandboxes are reached; empty for the address that the service gives each.
	SandboxURL string
	// Template of the machines; empty for DefaultTemplate.
	Template string
	// Client makes requests; nil for one of its own.
	Client *http.Client
	// Retry is how long a refused request waits where the service does not say; 0 for a second.
	Retry time.Duration
	// Silence is how long a stream may say nothing before it counts as cut; 0 for a minute and a half.
	Silence time.Duration
}

// Backend opens sandboxes in the cloud.
type Backend struct{ api *api }

var (
	_ sandbox.Backend = (*Backend)(nil)
	_ sandbox.Away    = (*Backend)(nil)
)

// New returns the backend. It asks no one.
func New(cfg Config) *Backend {
	cfg.URL = strings.TrimRight(cmp.Or(cfg.URL, DefaultURL), "/")
	cfg.SandboxURL = strings.TrimRight(cfg.SandboxURL, "/")
	cfg.Template = cmp.Or(cfg.Template, DefaultTemplate)
	cfg.Retry = cmp.Or(max(cfg.Retry, 0), time.Second)
	cfg.Silence = cmp.Or(max(cfg.Silence, 0), 90*time.Second)
	client := http.Client{}
	if cfg.Client != nil {
		client = *cfg.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cfg.Client = &client
	return &Backend{newAPI(cfg)}
}

// Mode returns sandbox.E2B.
func (*Backend) Mode() sandbox.Mode { return sandbox.E2B }

// Away implements sandbox.Away.
func (*Backend) Away() {}

// Probe really makes a machine, runs a command in it and ends it.
func (b *Backend) Probe(ctx context.Context) error { return mirror.Probe(ctx, b, false) }

// Open makes a machine and binds it to a workspace.
func (b *Backend) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	sized := cfg.Limits
	asked := cfg
	asked.Limits.CPU, asked.Limits.Memory, asked.Limits.Disk = 0, 0, 0 // seen when the machine is there
	err := errors.Join(cfg.Limits.Check(), sandbox.Require(sandbox.E2B, asked, b.Capabilities()),
		mirror.Refuse(sandbox.E2B, cfg))
	if err == nil && b.api.cfg.Key.Reveal() == "" {
		err = fmt.Errorf("%w is missing: set INSPAN_E2B_API_KEY, or name another sandbox mode", ErrKey)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	sb, err := mirror.OpenSandbox(ctx, cfg, sandbox.E2B, "",
		func(ctx context.Context, name string) (mirror.Remote, error) {
			m, err := b.api.create(ctx, name, cfg.Network)
			if err != nil {
				return nil, err
			}
			if err := b.api.fits(ctx, m.id, sized); err != nil {
				return nil, errors.Join(err, m.End(context.WithoutCancel(ctx)))
			}
			return m, nil
		})
	if err != nil {
		return nil, err
	}
	return sb, nil
}

// Capabilities implements sandbox.Backend.
func (*Backend) Capabilities() []sandbox.Capability {
	const own = "own virtual machine"
	how := map[sandbox.Isolation]string{
		sandbox.IsolationFiles:     own + ", which receives only the workspace",
		sandbox.IsolationDenied:    "denied paths are not sent",
		sandbox.IsolationNetwork:   "the service gives the machine no network access",
		sandbox.IsolationStation:   "a machine in another network, which reaches only what is reachable from the Internet",
		sandbox.IsolationProcesses: own,
		sandbox.IsolationMetadata:  own,
		sandbox.LimitWallTime:      "the processes of the sandbox are ended",
	}
	const size = "the template sets the size: a sandbox with a smaller limit than its template is refused, choose a smaller template or a larger limit"
	why := map[sandbox.Isolation]string{
		sandbox.IsolationPrivileges: "commands can become root in their machine",
		sandbox.IsolationSyscalls:   "its own kernel replaces a filter",
		sandbox.IsolationTree:       "a process that clears its environment, leaves its session and loses its parent runs until the sandbox ends",
		sandbox.LimitCPU:            size, sandbox.LimitMemory: size, sandbox.LimitDisk: size,
		sandbox.IsolationPrograms: "its programs come from an image: use an image without the denied programs",
		sandbox.LimitPIDs:         "the service does not count processes",
	}
	return sandbox.Report(how, why)
}

// address is where a sandbox is reached.
func (c Config) address(id, domain string) (string, error) {
	if c.SandboxURL != "" {
		return c.SandboxURL, nil
	}
	if domain == "" {
		domain = DefaultDomain
	}
	at := fmt.Sprintf("https://%d-%s.%s", envdPort, id, domain)
	u, err := url.Parse(at)
	if err != nil || u.Host != fmt.Sprintf("%d-%s.%s", envdPort, id, domain) || u.Path != "" {
		return "", fmt.Errorf("%w returned no address: %.100q", ErrService, domain)
	}
	return at, nil
}
