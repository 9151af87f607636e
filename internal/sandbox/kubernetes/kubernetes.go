// Package kubernetes runs commands in pods of a Kubernetes cluster.
//
// Promises: each sandbox is a pod of its own, made when it is opened and deleted by Destroy, which returns when it is
// gone; the workspace is mirrored (package mirror). A pod is as closed as a pod specification can be: not root, nothing
// privileged, no capability, no new privileges, the runtime's system call filter, a read-only root, no token of a
// service account, and the RuntimeClass that is configured. Where a warm pool of agent-sandbox is named, the pod is got
// by a SandboxClaim, which is deleted in its place; a pod whose template is less closed than that (but for the root,
// which may be writable), or larger than the limits, is refused. Command lines, environment and files go through the
// stream of an exec and never into its address, so that they are in no audit log. What the cluster says is hostile
// data: it is bounded and shown quoted.
//
// What only the cluster can keep (a closed network, resources) counts as enforced where an operator states it, and is
// refused elsewhere. A pod whose toolrunner is lost ends after Config.MaxLife; Reap ends those of lost toolrunners of
// this computer sooner. The client is written over net/http and a WebSocket library: the few requests that are made do
// not carry the forty modules that the official client brings.
package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/mirror"
)

// Errors of the cluster. They wrap sandbox.ErrUnavailable.
var (
	// ErrSettings means that the settings do not say what is needed.
	ErrSettings = fmt.Errorf("%w: the settings of sandbox mode kubernetes", sandbox.ErrUnavailable)
	// ErrCluster means that the API server cannot be reached, or refuses.
	ErrCluster = fmt.Errorf("%w: the Kubernetes cluster", sandbox.ErrUnavailable)
	// ErrPod means that a pod did not start.
	ErrPod = fmt.Errorf("%w: the pod", sandbox.ErrUnavailable)
)

// mounted is where what Kubernetes gives a pod is found.
const mounted = "/var/run/secrets/kubernetes.io/serviceaccount/"

// Config says where the cluster is and what pods are made of.
type Config struct {
	// URL of the API server; empty for the cluster that this program runs in.
	URL string
	// TokenFile holds the bearer token, read for each request because it changes; empty for that of this program's pod.
	TokenFile string
	// CAFile holds the certificates that the server is known by; empty for those of this program's pod or the system.
	CAFile string
	// Namespace of the pods; empty for "default".
	Namespace string
	// Image of the pods whose agent names none. There is no default.
	Image string
	// RuntimeClass of the pods; empty for the cluster's own.
	RuntimeClass string
	// WarmPool is the SandboxWarmPool of agent-sandbox whose pods are claimed, in the place of Image and RuntimeClass:
	// what they are made of is said by the pool's template.
	WarmPool string
	// Enforces are walls that an operator states the cluster enforces: network, cpu, memory, disk.
	Enforces []string
	// StartWait is how long a pod may take to start, 0 for two minutes; MaxLife how long it may live, 0 for a day.
	StartWait, MaxLife time.Duration
	// Poll is how often a pod is looked at; 0 for a quarter of a second.
	Poll time.Duration
}

// Backend opens sandboxes in pods.
type Backend struct{ cfg Config }

var (
	_ sandbox.Backend  = (*Backend)(nil)
	_ sandbox.Away     = (*Backend)(nil)
	_ sandbox.Numbered = (*Backend)(nil)
)

// New returns the backend. It asks no one.
func New(cfg Config) *Backend {
	if cfg.Namespace == "" {
		cfg.Namespace = "default"
	}
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{{&cfg.StartWait, 2 * time.Minute}, {&cfg.MaxLife, 24 * time.Hour}, {&cfg.Poll, 250 * time.Millisecond}} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
	return &Backend{cfg}
}

// Mode returns sandbox.Kubernetes.
func (*Backend) Mode() sandbox.Mode { return sandbox.Kubernetes }

// Away implements sandbox.Away.
func (*Backend) Away() {}

// OwnNumbers implements sandbox.Numbered: each pod counts its own processes.
func (*Backend) OwnNumbers() {}

// Probe really makes a pod, runs a command in it and deletes it.
func (b *Backend) Probe(ctx context.Context) error { return mirror.Probe(ctx, b, true) }

// Open makes a pod and binds it to a workspace.
func (b *Backend) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	err := errors.Join(cfg.Limits.Check(), sandbox.Require(sandbox.Kubernetes, cfg, b.Capabilities()),
		mirror.Refuse(sandbox.Kubernetes, cfg), b.known())
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	c, err := b.cluster()
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	sb, err := mirror.OpenSandbox(ctx, cfg, sandbox.Kubernetes, "",
		func(ctx context.Context, name string) (mirror.Remote, error) {
			if b.cfg.WarmPool != "" {
				return c.claimed(ctx, name, cfg)
			}
			return c.create(ctx, name, cfg)
		})
	if err != nil {
		c.http.CloseIdleConnections()
		return nil, err
	}
	return sb, nil
}

// stated are the walls that an operator can state.
var stated = [...]sandbox.Isolation{sandbox.IsolationNetwork, sandbox.IsolationStation, sandbox.LimitCPU,
	sandbox.LimitMemory, sandbox.LimitDisk}

// known checks what the operator says.
func (b *Backend) known() error {
	var failed []error
	switch pool := b.cfg.WarmPool != ""; {
	case pool && (b.cfg.Image != "" || b.cfg.RuntimeClass != ""):
		failed = append(failed, fmt.Errorf("%w: INSPAN_KUBERNETES_WARM_POOL excludes INSPAN_KUBERNETES_IMAGE and INSPAN_KUBERNETES_RUNTIME_CLASS: the template of the pool sets them", ErrSettings))
	case !pool && b.cfg.Image == "":
		failed = append(failed, fmt.Errorf("%w: no image: set INSPAN_KUBERNETES_IMAGE, or INSPAN_KUBERNETES_WARM_POOL",
			ErrSettings))
	}
	for _, isolation := range b.cfg.Enforces {
		if !slices.Contains(stated[:], sandbox.Isolation(isolation)) {
			failed = append(failed, fmt.Errorf("%w: INSPAN_KUBERNETES_ENFORCES: %.40q is none of %v", ErrSettings, isolation,
				stated))
		}
	}
	return errors.Join(failed...)
}

// Capabilities implements sandbox.Backend.
func (b *Backend) Capabilities() []sandbox.Capability {
	how := map[sandbox.Isolation]string{
		sandbox.IsolationFiles:      "own container with a read-only root, which receives only the workspace",
		sandbox.IsolationDenied:     "denied paths are not sent",
		sandbox.IsolationProcesses:  "own process namespace",
		sandbox.IsolationPrivileges: "not root, no capabilities, no new privileges",
		sandbox.IsolationSyscalls:   "the filter of the container runtime",
		sandbox.IsolationMetadata:   "own container",
		sandbox.LimitWallTime:       "the processes of the sandbox are ended",
	}
	const ask = "only the cluster can enforce it, and the toolrunner cannot check that: declare it with INSPAN_KUBERNETES_ENFORCES"
	why := map[sandbox.Isolation]string{
		sandbox.IsolationNetwork: ask +
			", if a NetworkPolicy denies all traffic of pods with the label inspan.dev/network=closed",
		sandbox.IsolationStation: ask +
			", if a NetworkPolicy denies pods with the label inspan.dev/network=open the NATS server and the services of the station",
		sandbox.IsolationPrograms: "its programs come from an image: use an image without the denied programs",
		sandbox.IsolationTree:     "a process that clears its environment, leaves its session and loses its parent runs until the sandbox ends",
		sandbox.LimitCPU:          ask, sandbox.LimitMemory: ask, sandbox.LimitDisk: ask,
		sandbox.LimitPIDs: "a pod cannot request it",
	}
	if b.cfg.WarmPool != "" {
		how[sandbox.IsolationFiles] = "own container, which receives only the workspace"
	}
	for _, isolation := range b.cfg.Enforces {
		if slices.Contains(stated[:], sandbox.Isolation(isolation)) {
			how[sandbox.Isolation(isolation)] = "the operator declares that the cluster enforces it"
		}
	}
	return sandbox.Report(how, why)
}

// cluster returns a client for the settings.
func (b *Backend) cluster() (*cluster, error) {
	c := &cluster{cfg: b.cfg, url: strings.TrimRight(b.cfg.URL, "/")}
	inside := c.url == ""
	if inside {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, fmt.Errorf("%w: no address: set INSPAN_KUBERNETES_URL, or run in a cluster", ErrSettings)
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		c.url = "https://" + host + ":" + port
	}
	c.token, c.ca = b.cfg.TokenFile, b.cfg.CAFile
	if inside && c.token == "" {
		c.token = mounted + "token"
	}
	if inside && c.ca == "" {
		c.ca = mounted + "ca.crt"
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, IdleConnTimeout: time.Minute}
	if c.ca != "" {
		pem, err := os.ReadFile(c.ca)
		if err != nil {
			return nil, fmt.Errorf("%w: INSPAN_KUBERNETES_CA_FILE: %w", ErrSettings, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: INSPAN_KUBERNETES_CA_FILE: %s holds no certificate", ErrSettings, c.ca)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return c, nil
}

// Reap deletes the pods, or claims, that toolrunners of this computer left which are gone, and returns how many. Those
// of living ones and of other computers are left alone.
func (b *Backend) Reap(ctx context.Context) (int, error) {
	if local.Computer() == "" || b.known() != nil {
		return 0, nil
	}
	c, err := b.cluster()
	if err != nil {
		return 0, err
	}
	defer c.http.CloseIdleConnections()
	if b.cfg.WarmPool != "" {
		return c.reapClaims(ctx)
	}
	pods, err := list[pod](ctx, c, c.pods(""), kindLabel+"=sandbox")
	if err != nil {
		return 0, fmt.Errorf("delete pods of lost toolrunners in the cluster: %w", err)
	}
	return reaped(pods, func(p pod) metadata { return p.Metadata }, func(name string) error { return c.remove(ctx, name) })
}

// reaped ends those of a list whose toolrunner was of this computer and is lost, and returns how many.
func reaped[T any](all []T, marks func(T) metadata, end func(name string) error) (int, error) {
	n, here := 0, local.Computer()
	var failed []error
	for _, one := range all {
		m := marks(one)
		if m.Labels[machineLabel] != here || !local.Abandoned(m.Annotations[nameNote]) {
			continue
		}
		if err := end(m.Name); err != nil {
			failed = append(failed, err)
			continue
		}
		n++
	}
	return n, errors.Join(failed...)
}
