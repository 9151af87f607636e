// Package pool opens the sandboxes of runs and keeps those that are slow to open, or hold the files of a session,
// between calls.
//
// Promises: a sandbox is opened as the agent's file wants it or not at all; never another backend, never a weaker
// isolation, never a path that the station does not show. A sandbox belongs to one agent in one step of a run, or in
// one session; it ends once, with its last user, and is given to no run while another one that used it goes on.
package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// Opener opens the sandboxes of runs: on a directory below the workspace root, in the mode that an agent asks for.
type Opener struct {
	cfg   Config
	met   *requirementsMet
	found *probed
	proxy *egress.Proxy // may be nil
}

// Open opens a sandbox, the same one each time it is called.
type Open = func() (sandbox.Sandbox, error)

// WithEgress returns an opener whose sandboxes reach what their agents may reach through a proxy; nil lets none reach
// anything.
func (o *Opener) WithEgress(proxy *egress.Proxy) *Opener {
	return &Opener{cfg: o.cfg, met: o.met, found: o.found, proxy: proxy}
}

// Config says where workspaces are and which backends this machine has.
type Config struct {
	// Root is the absolute path of the workspace root.
	Root string
	// Backends by mode. Auto is resolved before.
	Backends map[sandbox.Mode]sandbox.Backend
	// Unprobed are those that may not work on this machine: their probe is made before the first sandbox is opened.
	Unprobed []sandbox.Mode
	// Default is the mode of agents that do not ask for one.
	Default sandbox.Mode
	// Least is the weakest mode that any agent may have; empty for any.
	Least sandbox.Mode
	// Env, ReadOnly and Writable are given to each sandbox.
	Env, ReadOnly, Writable []string
	// Cache is the absolute path below which each workspace has a cache of its own for build tools; empty means none.
	Cache string
	// Shared is the cache of compiled code that all sandboxes read; nil for none.
	Shared *Shared
	// Closed reports which addresses commands must not connect to where their network is open; nil leaves it as it is.
	Closed func(to netip.AddrPort) bool
	// Programs returns the programs that deny rules name as a whole, the station's and those of an agent; nil for none.
	Programs func(guards []events.Rule) []string
	// Reaches says that sandboxes are opened also where they cannot keep commands from the station.
	Reaches bool
	// Keep is how long an unused sandbox stays for the next call of its step, or of its session; 0 keeps none. Whoever
	// sets it calls Pool.Expire now and then.
	Keep time.Duration
}

// ErrReaches means that the commands of a sandbox could connect to the station, and answer the gates of their own run.
var ErrReaches = fmt.Errorf("%w: its commands could connect to the station and answer the gates of their own run",
	sandbox.ErrNotEnforced)

// NewOpener checks the configuration and makes the workspace root.
func NewOpener(cfg Config) (*Opener, error) {
	if !filepath.IsAbs(cfg.Root) {
		return nil, fmt.Errorf("workspace root %q is not an absolute path", cfg.Root)
	}
	if _, ok := cfg.Backends[cfg.Default]; !ok {
		return nil, fmt.Errorf("default sandbox %q: %w", cfg.Default, sandbox.ErrUnavailable)
	}
	if err := os.MkdirAll(cfg.Root, 0o755); err != nil {
		return nil, fmt.Errorf("workspace root: %w", err)
	}
	return &Opener{cfg: cfg, met: &requirementsMet{}, found: &probed{}}, nil
}

// Root is the absolute path of the workspace root, Cache that of the caches; Cache may be empty.
func (o *Opener) Root() string { return o.cfg.Root }

// Cache is the absolute path below which each workspace has a cache of its own; empty for none.
func (o *Opener) Cache() string { return o.cfg.Cache }

// Keep is how long an unused sandbox is kept.
func (o *Opener) Keep() time.Duration { return o.cfg.Keep }

// AgentVariable tells commands which named agent they run for. A sandbox is of one run, so it stays while that lives.
const AgentVariable = "INSPAN_AGENT"

// Request is a sandbox to be opened: of a run, on the directory of its workspace, as its agent wants it.
type Request struct {
	Run  string
	Dir  workdir.Dir
	Want events.Sandbox
	// Denied are the programs that the agent must not run.
	Denied []string
	// Egress is the way to what the agent may reach; nil for none.
	Egress *Egress
	// Agent is the address of the agent that the run is; empty where it is none.
	Agent string
	// AgentEnv are the variables that the role of that agent gives its commands, by name.
	AgentEnv map[string]string
	// Shared says that more than one call uses the sandbox.
	Shared bool
}

// RequestFor is the request of a call of a step.
func (o *Opener) RequestFor(s run.State, step string, at workdir.Dir, out *Egress) Request {
	r := Request{Run: s.HarnessID, Dir: at, Egress: out}
	if s.Created != nil && s.Created.Address != nil {
		r.Agent, r.AgentEnv = s.Created.Address.Address, s.Created.Address.Env
	}
	if st := s.Step(step); st != nil {
		agent := s.Agents[st.AssignedAgent]
		if r.Want = agent.Sandbox; o.cfg.Programs != nil {
			r.Denied = o.cfg.Programs(agent.Guards)
		}
	}
	return r
}

// EgressFor is the way of a step's agent to what it may reach; nil where it may reach nothing. It refuses when holds
// does not hold: when another attempt has begun, or the call or its run has ended (SAFE-7).
func (o *Opener) EgressFor(s run.State, step string, holds func(context.Context) (bool, error)) *Egress {
	return NewEgress(o.proxy, o.RequestFor(s, step, workdir.Dir{}, nil).Want, func(ctx context.Context) error {
		ok, err := holds(ctx)
		if err == nil && !ok {
			err = egress.ErrStale
		}
		return err
	})
}

// ModeFor returns the mode of the sandbox that the calls of a step run in.
func (o *Opener) ModeFor(s run.State, step string) sandbox.Mode {
	return o.Mode(o.RequestFor(s, step, workdir.Dir{}, nil).Want)
}

// Away reports whether the commands of a mode run on another machine.
func (o *Opener) Away(mode sandbox.Mode) bool {
	_, away := o.cfg.Backends[mode].(sandbox.Away)
	return away
}

// Mode is what an agent asks for. With auto, a backend that it names is taken only where this machine does not have the
// commands that it requires (SBX-10), or where what the machine has isolates less than the agent wants.
func (o *Opener) Mode(want events.Sandbox) sandbox.Mode {
	if auto := want.Mode == "" || want.Mode == string(sandbox.Auto); auto && want.Backend != "" &&
		o.commandsHere(want.Requires) &&
		backends.Enough(o.cfg.Default, sandbox.Mode(want.MinIsolation)) == nil && o.local() {
		return o.cfg.Default
	}
	for _, m := range []string{want.Mode, want.Backend} {
		if m != "" && m != string(sandbox.Auto) {
			return sandbox.Mode(m)
		}
	}
	return o.cfg.Default
}

// Open makes the workspace if it is missing and opens a sandbox on it. Asking for a backend that this machine does
// not have is an error, never another backend (SBX-20).
func (o *Opener) Open(ctx context.Context, r Request) (sandbox.Sandbox, error) {
	p, err := o.plan(r)
	if err != nil {
		return nil, err
	}
	return p.open(ctx)
}

// Opening returns what opens a sandbox. ctx is that of the opening.
func (o *Opener) Opening(ctx context.Context, r Request) Open {
	return func() (sandbox.Sandbox, error) { return o.Open(ctx, r) }
}

// Plan is a sandbox as it would be opened at a moment.
type Plan struct {
	plan   plan
	opened fingerprint
}

// Plan says how the sandbox that a request is for would be opened now.
func (o *Opener) Plan(r Request) (*Plan, error) {
	p, err := o.plan(r)
	if err != nil {
		return nil, err
	}
	return &Plan{p, fingerprintOf(p.backend.Mode(), p.cfg)}, nil
}

// Open opens the sandbox.
func (p *Plan) Open(ctx context.Context) (sandbox.Sandbox, error) { return p.plan.open(ctx) }

// Same reports whether a sandbox of this plan may stand for one of the other.
func (p *Plan) Same(other *Plan) bool { return p.opened.same(other.opened) }

// OnFirstUse opens a sandbox once, after touch.
func OnFirstUse(touch func(), open Open) Open {
	return sync.OnceValues(func() (sandbox.Sandbox, error) {
		touch()
		return open()
	})
}

// OpenAs opens a sandbox as an agent wants it on a workspace of this machine, given by its path below the workspace
// root.
func (o *Opener) OpenAs(ctx context.Context, id, workspace string, want events.Sandbox) (sandbox.Sandbox, error) {
	return o.Open(ctx, Request{Run: id, Dir: workdir.Dir{Workspace: workspace, Path: workspace}, Want: want})
}

// local reports whether the default sandbox runs the commands of this machine.
func (o *Opener) local() bool {
	return slices.Contains([]sandbox.Mode{sandbox.Bwrap, sandbox.Landlock, sandbox.Host}, o.cfg.Default)
}

// plan is a backend, and what it is to be opened with as things are now.
type plan struct {
	backend sandbox.Backend
	cfg     sandbox.Config
	at      workdir.Pinned
	// works is the probe of the backend, where it is made before the first sandbox.
	works func(context.Context, sandbox.Backend) error
	// meets checks that a sandbox has what the agent requires.
	meets func(context.Context, sandbox.Sandbox) error
}

// open opens the sandbox, on the very workspace that was looked at.
func (p plan) open(ctx context.Context) (sandbox.Sandbox, error) {
	if err := p.works(ctx, p.backend); err != nil {
		return nil, err
	}
	sb, err := p.backend.Open(ctx, p.cfg)
	if err != nil {
		return nil, err
	}
	if err := p.at.Still(); err != nil {
		return nil, errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	}
	if err := p.meets(ctx, sb); err != nil {
		return nil, errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	}
	return sb, nil
}

// plan makes the workspace if it is missing, and returns how the sandbox that a request is for is opened.
func (o *Opener) plan(r Request) (plan, error) {
	mode := o.Mode(r.Want)
	for _, least := range []sandbox.Mode{o.cfg.Least, sandbox.Mode(r.Want.MinIsolation)} {
		if err := backends.Enough(mode, least); err != nil {
			return plan{}, err
		}
	}
	backend, ok := o.cfg.Backends[mode]
	if !ok {
		return plan{}, fmt.Errorf("sandbox %q: %w", mode, sandbox.ErrUnavailable)
	}
	p := plan{backend: backend, works: o.works, meets: func(ctx context.Context, sb sandbox.Sandbox) error {
		return o.meets(ctx, sb,
			r.Want)
	}}
	var err error
	if p.at, err = workdir.Pin(o.cfg.Root, r.Dir.Path); err == nil {
		p.cfg, err = o.config(r, mode, p)
	}
	if len(r.Denied) > 0 && err == nil && sandbox.Can(backend.Capabilities(), sandbox.IsolationPrograms).Enforced {
		p.cfg.DenyPrograms = r.Denied // elsewhere the guards alone hold the rule
	}
	return p, err
}

// config is what a sandbox may see.
func (o *Opener) config(r Request, mode sandbox.Mode, p plan) (sandbox.Config, error) {
	cfg := sandbox.Config{ID: r.Run, Workspace: p.at.Path, Lasting: r.Shared, Image: r.Want.Image, Env: o.cfg.Env,
		ReadOnly: o.cfg.ReadOnly, Writable: o.cfg.Writable}
	if err := o.ownCache(&cfg, r.Dir); err != nil {
		return sandbox.Config{}, err
	}
	o.share(&cfg, p.backend)
	if o.Away(mode) {
		cfg.ReadOnly, cfg.Writable, cfg.Env = nil, nil, elsewhere(cfg.Env)
	}
	if r.Agent != "" {
		cfg.Env = slices.Clone(cfg.Env)
		for _, name := range slices.Sorted(maps.Keys(r.AgentEnv)) {
			cfg.Env = append(cfg.Env, name+"="+r.AgentEnv[name])
		}
		cfg.Env = append(cfg.Env, AgentVariable+"="+r.Agent)
	}
	if err := o.alternates(r, mode, &cfg); err != nil {
		return sandbox.Config{}, err
	}
	cfg.Network = mode == sandbox.Host || r.Want.Network
	cfg.Limits = sandbox.Limits{CPU: r.Want.CPU, Memory: r.Want.MemoryBytes, Disk: r.Want.DiskBytes, PIDs: r.Want.PIDs,
		Wall: time.Duration(r.Want.TimeoutMS) * time.Millisecond}
	if err := paths(&cfg, r.Want); err != nil {
		return sandbox.Config{}, err
	}
	if err := o.closePlace(&cfg, mode, p.backend, r.Dir.Path); err != nil {
		return sandbox.Config{}, err
	}
	if err := o.closeStation(&cfg, p.backend, r.Egress); err != nil {
		return sandbox.Config{}, err
	}
	err := r.Egress.lead(&cfg, p.backend) // changes cfg, so it must not be in the return statement beside it
	return cfg, err
}

// ownCache gives a sandbox the cache of its workspace.
func (o *Opener) ownCache(cfg *sandbox.Config, dir workdir.Dir) error {
	if o.cfg.Cache == "" {
		return nil
	}
	name, err := o.cacheOf(dir)
	if err != nil || name == "" {
		return err
	}
	cache, err := workdir.Make(o.cfg.Cache, name)
	if err != nil {
		return err
	}
	cfg.Writable = append(slices.Clone(cfg.Writable), cache)
	cfg.Env = append(slices.Clone(cfg.Env), "XDG_CACHE_HOME="+cache)
	return nil
}

// ErrAlternates means that a sandbox cannot show the objects that an ephemeral workspace takes from a mirror.
var ErrAlternates = errors.New("an ephemeral workspace shares objects with a mirror on this machine")

// alternates lets a sandbox read the objects that its workspace takes from a mirror, and change none of them.
func (o *Opener) alternates(r Request, mode sandbox.Mode, cfg *sandbox.Config) error {
	objects, _, err := gitwork.Alternates(o.cfg.Root, r.Dir.Path, r.Run)
	if err != nil {
		return tool.Fail(tool.Permanent, "call git_prepare again with the url", err)
	}
	if objects == "" {
		return nil
	}
	if o.Away(mode) {
		return tool.Fail(tool.Permanent, "set workspace: persistent, or another sandbox",
			fmt.Errorf("%w, which the sandbox %s cannot show", ErrAlternates, mode))
	}
	cfg.ReadOnly = append(slices.Clone(cfg.ReadOnly), objects)
	return nil
}

// closeStation has a sandbox whose network is open keep commands from the station. One that cannot is refused, but
// where an operator has accepted it or nothing follows from it.
func (o *Opener) closeStation(cfg *sandbox.Config, backend sandbox.Backend, out *Egress) error {
	mode := backend.Mode()
	if !cfg.Network || o.cfg.Closed == nil || out.Narrow() {
		return nil
	}
	can := sandbox.Can(backend.Capabilities(), sandbox.IsolationStation)
	switch {
	case can.Enforced:
		cfg.Closed = o.cfg.Closed
	case !o.cfg.Reaches:
		return fmt.Errorf("sandbox mode %s: %w: %s. Require signed answers to gates (INSPAN_ONLY_SIGNED), or accept the risk (INSPAN_SANDBOX_REACHES_STATION=true)", mode, ErrReaches, can.Why)
	}
	return nil
}

// elsewhere is an environment without what names paths of this machine: the operator shows them to commands here, and
// they are not there on another one.
func elsewhere(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		return strings.HasPrefix(e, "PATH=") || strings.HasPrefix(e, "XDG_CACHE_HOME=")
	})
}
