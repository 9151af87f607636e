package service

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/telemetry"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Validate says what is wrong, and with which variable.
func (c *Config) Validate() error { return check(reflect.ValueOf(c).Elem()) }

// check has each section look at itself. Paths become absolute.
func check(cfg reflect.Value) error {
	var errs []error
	for section := range sections(cfg) {
		if s, ok := section.Addr().Interface().(interface{ check() error }); ok {
			errs = append(errs, s.check())
		}
	}
	return errors.Join(errs...)
}

// few refuses numbers below 0.
func few(name string, v int64) error {
	if v < 0 {
		return fmt.Errorf("%s is %d, want 0 or more", name, v)
	}
	return nil
}

func (b *Base) check() (err error) {
	errs := []error{events.CheckID("INSPAN_STATION", b.Station), few("INSPAN_WORKERS", int64(b.Workers))}
	if err := snapshot.CheckForm(snapshot.Form(b.SnapshotForm)); err != nil {
		errs = append(errs, fmt.Errorf("INSPAN_SNAPSHOT_FORM: %w", err))
	}
	if b.HooksDir != "" {
		if b.HooksDir, err = filepath.Abs(b.HooksDir); err != nil {
			errs = append(errs, fmt.Errorf("INSPAN_HOOKS_DIR: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (n *NATS) check() error {
	_, err := n.Listeners()
	return err
}

func (s *Store) check() error {
	if s.Replicas != 1 && s.Replicas != 3 {
		return errors.Join(fmt.Errorf("INSPAN_REPLICAS is %d, want 1 or 3", s.Replicas), s.Buckets().Check())
	}
	return s.Buckets().Check()
}

// Buckets are the names of the station's buckets.
func (s *Store) Buckets() topology.Buckets {
	return topology.Buckets{State: s.StateBucket, Files: s.FilesBucket}
}

// Limits of the station's streams.
func (s *Store) Limits() topology.Limits {
	return topology.Limits{LogBytes: s.LogMaxBytes, InBytes: s.InMaxBytes, FileBytes: s.FilesMaxBytes,
		ArtifactBytes: s.ArtifactMaxBytes}
}

func (t *Telemetry) check() error { return t.exports().Check() }

// exports is what is exported, and where to.
func (t *Telemetry) exports() telemetry.Config {
	return telemetry.Config{Endpoint: t.OTLP, Traces: t.OTLPTraces, Metrics: t.OTLPMetrics, Protocol: t.OTLPProtocol,
		Disabled:       t.OTELDisabled,
		TracesExporter: t.TracesExporter, MetricsExporter: t.MetricsExporter, Sampler: t.Sampler, Arg: t.SamplerArg,
		Content: t.CaptureContent}
}

func (p *Planning) check() error {
	errs := []error{few("INSPAN_MAX_RUNS", int64(p.MaxRuns)), few("INSPAN_MAX_RUNS_PER_MINUTE", int64(p.RunsPerMinute)),
		few("INSPAN_TASK_PATIENCE", int64(p.Patience)), few("INSPAN_MAX_TASKS_PER_SENDER", int64(p.SenderPerMinute))}
	_, err := p.Windows()
	return errors.Join(append(errs, err)...)
}

// Windows are the context windows of models as the settings have them.
func (p *Planning) Windows() (prompt.Windows, error) {
	w, err := prompt.ParseWindows(p.ContextWindows)
	if err != nil {
		return w, fmt.Errorf("INSPAN_CONTEXT_WINDOWS: %w", err)
	}
	return w, nil
}

func (m *Models) check() error {
	var errs []error
	if m.OpenAIAPI != "" && m.OpenAIAPI != "chat" && m.OpenAIAPI != "responses" {
		errs = append(errs, fmt.Errorf("INSPAN_OPENAI_API is %q, want chat, responses or nothing", m.OpenAIAPI))
	}
	for name, d := range map[string]time.Duration{"INSPAN_MODEL_IDLE": m.ModelIdle, "INSPAN_MODEL_TIMEOUT": m.ModelTimeout,
		"INSPAN_MODEL_MAX_WAIT": m.ModelMaxWait} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is %s, want more than 0, or 0 for no limit", name, d))
		}
	}
	return errors.Join(errs...)
}

func (g *Gates) check() error {
	errs := []error{few("INSPAN_MAX_GATES", int64(g.MaxGates)), few("INSPAN_MAX_ANSWERS_PER_APPROVER",
		int64(g.AnswersPerMinute))}
	if g.GateApprovers < 0 || g.GateApprovers > events.MaxApprovers {
		errs = append(errs, fmt.Errorf("INSPAN_GATE_APPROVERS is %d, want 1 to %d", g.GateApprovers, events.MaxApprovers))
	}
	if g.GateExpires < 0 || g.GateExpires > 0 && g.GateExpires < time.Second {
		errs = append(errs, fmt.Errorf("INSPAN_GATE_EXPIRES is %s, want at least 1s, or 0 for no limit", g.GateExpires))
	}
	for name, d := range map[string]time.Duration{"INSPAN_GATE_REMIND": g.GateRemind,
		"INSPAN_GATE_ESCALATE_AFTER": g.GateEscalateAfter} {
		if d < 0 || d > 0 && d < time.Second {
			errs = append(errs, fmt.Errorf("%s is %s, want at least 1s, or 0 for never", name, d))
		}
	}
	if (g.GateEscalateAfter > 0) != (g.GateEscalateTo != "") {
		errs = append(errs, errors.New("INSPAN_GATE_ESCALATE_AFTER and INSPAN_GATE_ESCALATE_TO: set both, or none"))
	}
	if g.GateOnExpiry != "" && g.GateOnExpiry != events.ExpiryRejects && g.GateOnExpiry != events.ExpiryFails {
		errs = append(errs, fmt.Errorf("INSPAN_GATE_ON_EXPIRY is %q, want %s or %s; a gate is never approved by itself",
			g.GateOnExpiry, events.ExpiryRejects, events.ExpiryFails))
	}
	return errors.Join(errs...)
}

// GateTerms hold for all gates of the station.
func (g *Gates) GateTerms() events.GateTerms {
	return events.GateTerms{Approvers: g.GateApprovers, ExpiresMS: g.GateExpires.Milliseconds(), OnExpiry: g.GateOnExpiry,
		GateReminders: events.GateReminders{RemindMS: g.GateRemind.Milliseconds(),
			EscalateMS: g.GateEscalateAfter.Milliseconds(), EscalateTo: g.GateEscalateTo}}
}

func (a *Approvals) check() error {
	if a.OnlySigned && a.ApproverKeys == "" {
		return errors.New("INSPAN_ONLY_SIGNED is true and INSPAN_APPROVER_KEYS names no keys: no one could answer a gate")
	}
	return nil
}

func (l *Live) check() error {
	if _, err := streaming.Names(l.Streaming); err != nil {
		return fmt.Errorf("INSPAN_STREAMING: %w", err)
	}
	return nil
}

// What INSPAN_WORKSPACE_MODE may say.
const (
	// WorkspaceLocal: the root belongs to one machine, and all toolrunners of the station are on it.
	WorkspaceLocal = "local"
	// WorkspaceShared: the root is one volume for all toolrunners. One of them works in a workspace at a time.
	WorkspaceShared = "shared"
	// WorkspaceFollow: each toolrunner has a root of its own, and workspaces move through the object store.
	WorkspaceFollow = "follow"
)

// What INSPAN_WORKSPACE_SNAPSHOT may say.
const (
	// SnapshotCall: after each call that may have changed files, before its result is published.
	SnapshotCall = "call"
	// SnapshotStep: when a step ends. The agent is told what is lost in between with a machine.
	SnapshotStep = "step"
)

func (w *Workspaces) check() (err error) {
	var errs []error
	switch {
	case !slices.Contains([]string{"", SnapshotCall, SnapshotStep}, w.WorkspaceSnapshot):
		errs = append(errs, fmt.Errorf("INSPAN_WORKSPACE_SNAPSHOT is %q, want %s or %s", w.WorkspaceSnapshot, SnapshotCall,
			SnapshotStep))
	case w.WorkspaceSnapshot == SnapshotStep && w.WorkspaceMode != WorkspaceFollow:
		errs = append(errs, fmt.Errorf("INSPAN_WORKSPACE_SNAPSHOT=%s goes with INSPAN_WORKSPACE_MODE=%s alone: no other mode keeps snapshots", SnapshotStep, WorkspaceFollow))
	}
	if !slices.Contains([]string{"", WorkspaceLocal, WorkspaceShared, WorkspaceFollow}, w.WorkspaceMode) {
		errs = append(errs, fmt.Errorf("INSPAN_WORKSPACE_MODE is %q, want %s, %s or %s", w.WorkspaceMode, WorkspaceLocal,
			WorkspaceShared, WorkspaceFollow))
	}
	if w.CleanupAfter < 0 {
		errs = append(errs, fmt.Errorf("INSPAN_WORKSPACE_CLEANUP_AFTER is %s, want more than 0, or 0 for 24h",
			w.CleanupAfter))
	}
	if w.Workspace, err = filepath.Abs(w.Workspace); err != nil {
		errs = append(errs, fmt.Errorf("INSPAN_WORKSPACE: %w", err))
	}
	return errors.Join(errs...)
}

// ArtifactsOff keeps nothing but what agents save by name.
const ArtifactsOff = "off"

func (c *Capture) check() error {
	var errs []error
	if c.Artifacts != "" && c.Artifacts != ArtifactsOff {
		if err := capture.CheckMode(c.Artifacts); err != nil {
			errs = append(errs, fmt.Errorf("INSPAN_ARTIFACTS: %w, or off", err))
		}
	}
	if c.ArtifactTTL < 0 || c.ArtifactTTL > 0 && c.ArtifactTTL < time.Second {
		errs = append(errs, fmt.Errorf("INSPAN_ARTIFACT_TTL is %s, want at least 1s, or 0 for 24h", c.ArtifactTTL))
	}
	if _, err := artifact.ParseTTLs(c.ArtifactTTLs); err != nil {
		errs = append(errs, fmt.Errorf("INSPAN_ARTIFACT_TTL_PROJECTS: %w", err))
	}
	if c.MaxFileSize < 0 || c.MaxFileSize > artifact.MaxTransfer {
		errs = append(errs, fmt.Errorf("INSPAN_MAX_FILE_SIZE is %d, want 1 to %d, or 0 for that", c.MaxFileSize,
			artifact.MaxTransfer))
	}
	return errors.Join(errs...)
}

func (s *Sandboxes) check() error {
	_, _, err := s.SecretEnv()
	errs := []error{err}
	if s.SandboxKeep < 0 {
		errs = append(errs, fmt.Errorf("INSPAN_SANDBOX_KEEP is %s, want more than 0, or 0 to keep none", s.SandboxKeep))
	}
	_, err = s.Listeners()
	return errors.Join(append(errs, err)...)
}

// Packages is the folder of installed MCP servers; empty where this user has none.
func (s *Sandboxes) Packages() string {
	if s.MCPPackages != "" {
		return s.MCPPackages
	}
	data := os.Getenv("XDG_DATA_HOME")
	if data == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "inspan", "mcp")
}

// shortestSecret is how long a secret for commands must be, in bytes: a shorter one would be masked in words that only
// look like it.
const shortestSecret = 8

// SecretEnv is the environment of commands that must not be seen, and what is masked of it.
func (s *Sandboxes) SecretEnv() (env []string, masked []secret.Value, err error) {
	if s.SandboxSecrets.Empty() {
		return nil, nil, nil
	}
	for entry := range strings.SplitSeq(s.SandboxSecrets.Reveal(), ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok || name == "" || len(value) < shortestSecret {
			return nil, nil, fmt.Errorf("INSPAN_SANDBOX_SECRETS: entry %d is not NAME=value with at least %d characters of value", len(env)+1, shortestSecret)
		}
		env, masked = append(env, name+"="+value), append(masked, secret.New(value))
	}
	return env, masked, nil
}

func (s *Sandboxes) masked() ([]secret.Value, error) {
	_, masked, err := s.SecretEnv()
	return masked, err
}

func (c *Calls) check() error {
	_, err := c.HostCredentials()
	_, _, err2 := c.ServerSecrets()
	errs := []error{err, err2}
	if c.MCPKeep < 0 {
		errs = append(errs, fmt.Errorf("INSPAN_MCP_KEEP is %s, want more than 0, or 0 to start a server for each call",
			c.MCPKeep))
	}
	if c.MCPMost < 0 || c.MCPIdleBytes < 0 {
		errs = append(errs, fmt.Errorf("INSPAN_MCP_MOST is %d and INSPAN_MCP_IDLE_BYTES is %d, want 0 or more", c.MCPMost,
			c.MCPIdleBytes))
	}
	return errors.Join(errs...)
}

func (c *Calls) masked() (found []secret.Value, err error) {
	held, err := c.HostCredentials()
	for _, h := range held {
		found = append(found, h.Secrets()...)
	}
	return found, err
}

// HostCredentials are what is added to requests for hosts. An error names an entry by its place and never repeats it.
func (c *Calls) HostCredentials() ([]egress.Credential, error) {
	if c.Credentials.Empty() {
		return nil, nil
	}
	var out []egress.Credential
	for entry := range strings.SplitSeq(c.Credentials.Reveal(), ",") {
		host, header, ok := strings.Cut(strings.TrimSpace(entry), "=")
		name, value, full := strings.Cut(header, ":")
		host, plain := strings.CutPrefix(strings.TrimSpace(host), "http://")
		if !ok || !full || host == "" {
			return nil, fmt.Errorf("INSPAN_EGRESS_CREDENTIALS: entry %d is not HOST=HEADER: VALUE", len(out)+1)
		}
		held := egress.Credential{Host: host, Plain: plain, Header: strings.TrimSpace(name), Value: secret.New(value)}
		if err := held.Check(); err != nil {
			return nil, fmt.Errorf("INSPAN_EGRESS_CREDENTIALS: entry %d: %w", len(out)+1, err)
		}
		out = append(out, held)
	}
	return out, nil
}

// KnownHosts is the file of the folder of ssh keys that has the servers' own.
const KnownHosts = "known_hosts"

func (g *GitWork) check() error {
	var errs []error
	for _, p := range g.GitProtocols {
		if !slices.Contains([]string{"https", "ssh", "http", "file"}, p) {
			errs = append(errs, fmt.Errorf("INSPAN_GIT_PROTOCOLS has %q, want https, ssh, http or file", p))
		}
	}
	if err := policy.CheckHosts(g.GitHosts); err != nil {
		errs = append(errs, fmt.Errorf("INSPAN_GIT_HOSTS: %w", err))
	}
	if _, err := PrivateRanges(*g); err != nil {
		errs = append(errs, err)
	}
	if g.GitTimeout < 0 || g.GitTimeout > 0 && g.GitTimeout < time.Second {
		errs = append(errs, fmt.Errorf("INSPAN_GIT_TIMEOUT is %s, want at least 1s, or 0 for 10m", g.GitTimeout))
	}
	errs = append(errs, few("INSPAN_GIT_MAX_BYTES", g.GitMaxBytes))
	if g.GitKeep < 0 || g.GitKeep > 0 && g.GitKeep < time.Hour {
		errs = append(errs, fmt.Errorf("INSPAN_GIT_KEEP is %s, want at least 1h, or 0 for 720h", g.GitKeep))
	}
	if g.GitCAFile != "" && !filepath.IsAbs(g.GitCAFile) {
		errs = append(errs, fmt.Errorf("INSPAN_GIT_CA_FILE is %q, want an absolute path", g.GitCAFile))
	}
	if u, err := url.Parse(g.GitProxy); err != nil || u.User != nil || g.GitProxy != "" && u.Host == "" {
		errs = append(errs, errors.New("INSPAN_GIT_PROXY is no address such as http://proxy:3128, without a user and a password"))
	}
	_, _, err := g.Keys()
	return errors.Join(append(errs, err)...)
}

// PrivateRanges are the ranges of addresses that are not public and that remotes may have all the same.
func PrivateRanges(g GitWork) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range g.GitPrivate {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("INSPAN_GIT_PRIVATE: %q is no range such as 10.1.0.0/16: %w", text, err)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// Keys reads the folder of ssh keys: by the name of its file, which is that of a host, and what is masked.
func (g *GitWork) Keys() (byHost map[string]secret.Value, masked []secret.Value, err error) {
	if g.GitKeys == "" {
		return nil, nil, nil
	}
	entries, err := os.ReadDir(g.GitKeys)
	if err != nil {
		return nil, nil, fmt.Errorf("INSPAN_GIT_KEYS: %w", err)
	}
	byHost = map[string]secret.Value{}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(g.GitKeys, e.Name()))
		if err != nil {
			return nil, nil, fmt.Errorf("INSPAN_GIT_KEYS: %w", err)
		}
		v := secret.New(string(data))
		byHost[e.Name()] = v
		if e.Name() == KnownHosts {
			continue
		}
		masked = append(masked, v)
		for line := range strings.SplitSeq(v.Reveal(), "\n") {
			if len(line) >= 4*shortestSecret && !strings.HasPrefix(line, "-----") {
				masked = append(masked, secret.New(line))
			}
		}
	}
	return byHost, masked, nil
}

func (a *Archives) check() error {
	var errs []error
	if !a.AnchorKey.Empty() {
		if _, err := audit.ParsePrivate(a.AnchorKey.Reveal()); err != nil {
			errs = append(errs, fmt.Errorf("INSPAN_ANCHOR_KEY: %w", err))
		}
	}
	if a.ArchiveEvery < 0 {
		errs = append(errs, fmt.Errorf("INSPAN_ARCHIVE_EVERY is %s, want more than 0, or 0 for 30s", a.ArchiveEvery))
	}
	if a.ArchiveFiles < 0 {
		errs = append(errs, fmt.Errorf("INSPAN_ARCHIVE_FILES_MAX_BYTES is %d, want 0 or more bytes", a.ArchiveFiles))
	}
	return errors.Join(errs...)
}

// Listener is an address at which something of the station listens.
type Listener struct {
	Host string
	Port uint16
}

// Ports of addresses that name none.
const (
	natsPort    = "4222"
	monitorPort = "8222"
)

// Listeners are the addresses of the NATS servers.
func (n *NATS) Listeners() ([]Listener, error) {
	servers, err := listeners("INSPAN_NATS_URL", natsPort, n.NATSURL)
	monitors, err2 := listeners("INSPAN_NATS_MONITOR", monitorPort, n.NATSMonitor)
	return append(servers, monitors...), errors.Join(err, err2)
}

// Listeners are the further addresses that commands must not reach.
func (s *Sandboxes) Listeners() ([]Listener, error) {
	return listeners("INSPAN_SANDBOX_CLOSED", "", strings.Join(s.SandboxClosed, ","))
}

// listeners reads a list of addresses; port is that of one that names none.
func listeners(setting, port, text string) (list []Listener, err error) {
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		one, err := parseListener(entry, port)
		if err != nil {
			return nil, fmt.Errorf("%s: an entry is not permitted: %w", setting, err) // it may hold a password
		}
		list = append(list, one)
	}
	return list, nil
}

func parseListener(text, port string) (Listener, error) {
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil {
			return Listener{}, errors.New("it is no address")
		}
		text = u.Host
	}
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		host, number = strings.Trim(text, "[]"), port
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return Listener{}, errors.New("want HOST:PORT")
	}
	return Listener{Host: host, Port: uint16(n)}, nil
}
