package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Boxes opens the sandbox of a run: its directory below the workspace root, in the mode its agent asks for.
type Boxes struct {
	cfg BoxConfig
	// out is the way out of the sandboxes that are opened; nil where there is none.
	out *wayOut
	// lasting says that more than one call uses the sandboxes that are opened.
	lasting bool
	met     *metNeeds
}

// BoxConfig says where workspaces are and which backends this machine has.
type BoxConfig struct {
	// Root is the absolute path of the workspace root.
	Root string
	// Backends by mode, only those that work on this machine. Auto is resolved before.
	Backends map[sandbox.Mode]sandbox.Backend
	// Default is the mode of agents that do not ask for one.
	Default sandbox.Mode
	// Least is the weakest mode that any agent may have; empty for any.
	Least sandbox.Mode
	// Missing says why a known mode is not among the backends.
	Missing map[sandbox.Mode]error
	// Env, ReadOnly and Writable are given to each sandbox.
	Env, ReadOnly, Writable []string
	// Cache is the absolute path below which each workspace has a cache of its own for build tools; empty means none.
	Cache string
	// Closed reports which addresses commands must not connect to where their network is open; nil leaves it as it is.
	Closed func(to netip.AddrPort) bool
	// Programs returns the programs that deny rules name as a whole, the station's and those of an agent; nil for none.
	Programs func(guards []events.Rule) []string
	// Reach says which sandboxes are opened although they cannot keep commands from the station.
	Reach Reach
	// Keep is how long a sandbox that nobody uses stays for the next call of its step, or of its session; 0 keeps none. Whoever
	// sets it runs Role.Mind.
	Keep time.Duration
}

// Reach says whose commands may reach the station's listeners although their sandbox cannot keep them from it.
type Reach int

// ReachNone are none, which is refused; ReachHost are those of host; ReachAny are those of all.
const (
	ReachNone Reach = iota
	ReachHost
	ReachAny
)

// ErrReaches means that the commands of a sandbox could connect to the station, and answer the gates of their own run.
var ErrReaches = fmt.Errorf("%w: its commands could connect to the station, and answer the gates of their own run", sandbox.ErrNotEnforced)

// NewBoxes checks the configuration and makes the workspace root.
func NewBoxes(cfg BoxConfig) (*Boxes, error) {
	if !filepath.IsAbs(cfg.Root) {
		return nil, fmt.Errorf("workspace root %q is not an absolute path", cfg.Root)
	}
	if _, ok := cfg.Backends[cfg.Default]; !ok {
		return nil, fmt.Errorf("default sandbox %q: %w", cfg.Default, sandbox.ErrUnavailable)
	}
	if err := os.MkdirAll(cfg.Root, 0o755); err != nil {
		return nil, fmt.Errorf("workspace root: %w", err)
	}
	return &Boxes{cfg: cfg, met: &metNeeds{}}, nil
}

// wanted is what the agent of a step asks for.
func (b *Boxes) wanted(s run.State, step string) events.Sandbox {
	if st := s.Step(step); st != nil {
		return s.Agents[st.AssignedAgent].Sandbox
	}
	return events.Sandbox{}
}

// ModeFor tells which sandbox the calls of a step run in.
func (b *Boxes) ModeFor(s run.State, step string) sandbox.Mode { return b.mode(b.wanted(s, step)) }

// mode is what an agent asks for. With auto, a backend that it names is taken only where this machine does not have the
// commands that it requires (SBX-10), or where what the machine has isolates less than the agent wants.
func (b *Boxes) mode(want events.Sandbox) sandbox.Mode {
	if auto := want.Mode == "" || want.Mode == string(sandbox.Auto); auto && want.Backend != "" && b.commandsHere(want.Requires) &&
		backends.Enough(b.cfg.Default, sandbox.Mode(want.MinIsolation)) == nil && b.local() {
		return b.cfg.Default
	}
	for _, m := range []string{want.Mode, want.Backend} {
		if m != "" && m != string(sandbox.Auto) {
			return sandbox.Mode(m)
		}
	}
	return b.cfg.Default
}

// open makes the workspace if it is missing and opens a sandbox on it. Asking for a backend that this machine does
// not have is an error, never another backend (SBX-20).
func (b *Boxes) open(ctx context.Context, s run.State, step string, p place) (sandbox.Sandbox, error) {
	return b.openAt(ctx, s.HarnessID, p, b.wanted(s, step), b.denied(s, step))
}

// denied are the programs that the agent of a step must not run.
func (b *Boxes) denied(s run.State, step string) []string {
	st := s.Step(step)
	if st == nil || b.cfg.Programs == nil {
		return nil
	}
	return b.cfg.Programs(s.Agents[st.AssignedAgent].Guards)
}

// OpenAs opens a sandbox as an agent wants it on a workspace of this machine, given by its path below the workspace root.
func (b *Boxes) OpenAs(ctx context.Context, id, workspace string, want events.Sandbox) (sandbox.Sandbox, error) {
	return b.openAt(ctx, id, place{workspace: workspace, path: workspace}, want, nil)
}

func (b *Boxes) openAt(ctx context.Context, id string, p place, want events.Sandbox, denied []string) (sandbox.Sandbox, error) {
	o, err := b.planned(id, p, want, denied)
	if err != nil {
		return nil, err
	}
	return o.open(ctx)
}

// local reports whether the default sandbox runs the commands of this machine.
func (b *Boxes) local() bool {
	return slices.Contains([]sandbox.Mode{sandbox.Bwrap, sandbox.Landlock, sandbox.Host}, b.cfg.Default)
}

// opening is a backend, and what it is to be opened with as things are now.
type opening struct {
	backend sandbox.Backend
	cfg     sandbox.Config
	at      workdir.Pinned
	// meets looks whether a sandbox has what the agent requires.
	meets func(context.Context, sandbox.Sandbox) error
}

// open opens the sandbox, on the very workspace that was looked at.
func (o opening) open(ctx context.Context) (sandbox.Sandbox, error) {
	box, err := o.backend.Open(ctx, o.cfg)
	if err != nil {
		return nil, err
	}
	if err := o.at.Still(); err != nil {
		return nil, errors.Join(err, box.Destroy(context.WithoutCancel(ctx)))
	}
	if err := o.meets(ctx, box); err != nil {
		return nil, errors.Join(err, box.Destroy(context.WithoutCancel(ctx)))
	}
	return box, nil
}

// planned makes the workspace if it is missing, and says how the sandbox that an agent wants is opened.
func (b *Boxes) planned(id string, p place, want events.Sandbox, denied []string) (opening, error) {
	mode := b.mode(want)
	for _, least := range []sandbox.Mode{b.cfg.Least, sandbox.Mode(want.MinIsolation)} {
		if err := backends.Enough(mode, least); err != nil {
			return opening{}, err
		}
	}
	backend, ok := b.cfg.Backends[mode]
	if !ok {
		if why := b.cfg.Missing[mode]; why != nil {
			return opening{}, fmt.Errorf("sandbox %s: %w", mode, why)
		}
		return opening{}, fmt.Errorf("sandbox %q: %w", mode, sandbox.ErrUnavailable)
	}
	o := opening{backend: backend, meets: func(ctx context.Context, box sandbox.Sandbox) error { return b.meets(ctx, box, want) }}
	var err error
	if o.at, err = workdir.Pin(b.cfg.Root, p.path); err == nil {
		o.cfg, err = b.config(id, p, want, mode, o)
	}
	if len(denied) > 0 && err == nil && sandbox.Can(backend.Capabilities(), sandbox.WallPrograms).Enforced {
		o.cfg.DenyPrograms = denied // elsewhere the guards alone hold the rule
	}
	return o, err
}

// config says what a sandbox may see.
func (b *Boxes) config(id string, p place, want events.Sandbox, mode sandbox.Mode, o opening) (sandbox.Config, error) {
	cfg := sandbox.Config{ID: id, Workspace: o.at.Path, Lasting: b.lasting, Image: want.Image, Env: b.cfg.Env, ReadOnly: b.cfg.ReadOnly, Writable: b.cfg.Writable}
	if b.cfg.Cache != "" {
		own, err := workdir.Pin(b.cfg.Cache, p.workspace)
		if err != nil {
			return sandbox.Config{}, err
		}
		cache := own.Path
		cfg.Writable = append(append([]string{}, cfg.Writable...), cache)
		cfg.Env = append(append([]string{}, cfg.Env...), "XDG_CACHE_HOME="+cache)
	}
	if _, away := o.backend.(sandbox.Away); away {
		cfg.ReadOnly, cfg.Writable, cfg.Env = nil, nil, elsewhere(cfg.Env)
	}
	if err := b.lent(id, p, mode, o.backend, &cfg); err != nil {
		return sandbox.Config{}, err
	}
	cfg.Network = mode == sandbox.Host || want.Network
	cfg.Limits = sandbox.Limits{CPU: want.CPU, Memory: want.MemoryBytes, Disk: want.DiskBytes, PIDs: want.PIDs,
		Wall: time.Duration(want.TimeoutMS) * time.Millisecond}
	if err := b.paths(&cfg, want); err != nil {
		return sandbox.Config{}, err
	}
	if err := b.close(&cfg, o.backend); err != nil {
		return sandbox.Config{}, err
	}
	err := b.out.lead(&cfg, o.backend) // changes it, so it is not to stand beside it in the return
	return cfg, err
}

// close has a sandbox whose network is open keep commands from the station. One that cannot is refused, but where an operator has
// accepted it or nothing follows from it.
func (b *Boxes) close(cfg *sandbox.Config, backend sandbox.Backend) error {
	mode := backend.Mode()
	if !cfg.Network || b.cfg.Closed == nil || b.out != nil && b.out.narrow {
		return nil
	}
	can := sandbox.Can(backend.Capabilities(), sandbox.WallStation)
	switch {
	case can.Enforced:
		cfg.Closed = b.cfg.Closed
	case b.cfg.Reach == ReachAny, b.cfg.Reach == ReachHost && mode == sandbox.Host:
	default:
		return fmt.Errorf("sandbox mode %s: %w: %s. Accept only signed answers to gates (INSPAN_ONLY_SIGNED), or accept this (INSPAN_SANDBOX_REACHES_STATION=true)", mode, ErrReaches, can.Why)
	}
	return nil
}

// elsewhere is an environment without what names paths of this machine: the operator shows them to commands here, and they
// are not there on another one.
func elsewhere(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		return strings.HasPrefix(e, "PATH=") || strings.HasPrefix(e, "XDG_CACHE_HOME=")
	})
}

// Later returns a sandbox that is opened when a tool first touches it: many tools never do. open may be nil, for one of its own.
func (b *Boxes) Later(ctx context.Context, s run.State, c run.Call, p place, open func() (sandbox.Sandbox, error)) *laterBox {
	return &laterBox{id: s.HarnessID, mode: b.ModeFor(s, c.Step), lasts: open != nil, open: sync.OnceValues(func() (sandbox.Sandbox, error) {
		p.touch(c.Effect)
		if open != nil {
			return open()
		}
		return b.open(ctx, s, c.Step, p)
	})}
}
