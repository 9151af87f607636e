package pool

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// asked is a backend that keeps what it was asked for.
type asked struct {
	sandbox.Backend
	mode sandbox.Mode
	cfg  *sandbox.Config
}

func (a asked) Mode() sandbox.Mode { return a.mode }

func (a asked) Open(_ context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	*a.cfg = cfg
	return nil, errors.New("kept")
}

// wants opens a sandbox as the agent of a run wants it, and returns what the backend was asked for.
func wants(t *testing.T, least sandbox.Mode, want events.Sandbox) (sandbox.Config, error) {
	t.Helper()
	root, cfg := t.TempDir(), sandbox.Config{}
	if err := os.MkdirAll(filepath.Join(root, "ws/.git/hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(root, "ws/link")); err != nil {
		t.Fatal(err)
	}
	sandboxes, err := NewOpener(Config{Root: root, Default: sandbox.Bwrap, Least: least, ReadOnly: []string{"/usr/share"},
		Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Bwrap: asked{mode: sandbox.Bwrap, cfg: &cfg}, sandbox.Host: asked{mode: sandbox.Host, cfg: &cfg}}})
	if err != nil {
		t.Fatal(err)
	}
	s := run.State{HarnessID: "hx-1", Created: &events.RunCreatedData{Workspace: "ws"}, Agents: map[string]events.Agent{"a": {Sandbox: want}},
		Plan: &run.Plan{Steps: []*run.Step{{ID: "s", AssignedAgent: "a"}}}}
	_, err = sandboxes.Open(t.Context(), sandboxes.RequestFor(s, "s", workdir.Dir{Workspace: "ws", Path: "ws"}, nil))
	if cfg.Workspace != "" {
		return cfg, nil
	}
	return cfg, err
}

// askedAway is a backend whose commands run on another machine.
type askedAway struct{ asked }

func (askedAway) Away() {}

func TestAway(t *testing.T) {
	t.Parallel()
	t.Run("SBX-20 what names paths of this machine is not given to a sandbox on another, what the agent names is", func(t *testing.T) {
		t.Parallel()
		root, cfg := t.TempDir(), sandbox.Config{}
		sandboxes, err := NewOpener(Config{Root: root, Default: sandbox.E2B, ReadOnly: []string{"/usr/share"}, Writable: []string{"/var/cache"},
			Env: []string{"PATH=/opt/go/bin", "KEY=value"}, Cache: root + "/.cache", Backends: map[sandbox.Mode]sandbox.Backend{sandbox.E2B: askedAway{asked{mode: sandbox.E2B, cfg: &cfg}}}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = sandboxes.OpenAs(t.Context(), "id", "ws", events.Sandbox{Denied: []string{".env"}}) // asked keeps what it is asked for
		if len(cfg.ReadOnly)+len(cfg.Writable) != 0 || !slices.Equal(cfg.Env, []string{"KEY=value"}) || len(cfg.Denied) != 1 || cfg.Workspace == "" {
			t.Errorf("got %+v", cfg)
		}
	})
}

func TestWanted(t *testing.T) {
	t.Parallel()
	t.Run("SBX-11 SBX-12 what an agent says reaches its sandbox", func(t *testing.T) {
		t.Parallel()
		cfg, err := wants(t, "", events.Sandbox{CPU: 2, MemoryBytes: 4 << 30, DiskBytes: 10 << 30, PIDs: 100, TimeoutMS: 1_800_000, Network: true,
			ReadOnly: []string{".git/hooks", "/usr/share", "not/there"}, Denied: []string{".env", "/etc/passwd"}})
		if err != nil {
			t.Fatal(err)
		}
		if want := (sandbox.Limits{CPU: 2, Memory: 4 << 30, Disk: 10 << 30, PIDs: 100, Wall: 30 * time.Minute}); cfg.Limits != want || !cfg.Network {
			t.Errorf("got %+v, want %+v", cfg.Limits, want)
		}
		if want := []string{"/usr/share", cfg.Workspace + "/.git/hooks", "/usr/share"}; !slices.Equal(cfg.ReadOnly, want) {
			t.Errorf("read-only: got %v, want %v", cfg.ReadOnly, want)
		}
		if want := []string{cfg.Workspace + "/.env", "/etc/passwd"}; !slices.Equal(cfg.Denied, want) {
			t.Errorf("denied: got %v, want %v", cfg.Denied, want)
		}
	})
	for name, c := range map[string]struct {
		least sandbox.Mode
		want  events.Sandbox
		err   error
	}{
		"SBX-14 an agent opens no path of the machine":       {"", events.Sandbox{ReadOnly: []string{"/root"}}, ErrNotShown},
		"SBX-14 an agent opens no home":                      {"", events.Sandbox{ReadOnly: []string{"~/.ssh"}}, ErrNotShown},
		"SBX-14 an agent writes no path of the machine":      {"", events.Sandbox{ReadWrite: []string{"/usr/share"}}, ErrNotShown},
		"SBX-14 an agent leaves the workspace by no dots":    {"", events.Sandbox{ReadWrite: []string{"../other"}}, ErrNotShown},
		"SBX-14 a link opens nothing":                        {"", events.Sandbox{ReadOnly: []string{"link"}}, ErrNotShown},
		"SBX-14 a way through a link opens nothing":          {"", events.Sandbox{ReadWrite: []string{"link/ssl"}}, ErrNotShown},
		"SBX-10 an agent's least isolation holds":            {"", events.Sandbox{Mode: "host", MinIsolation: "bwrap"}, backends.ErrTooWeak},
		"SBX-10 the station's least isolation holds":         {sandbox.Landlock, events.Sandbox{Mode: "host"}, backends.ErrTooWeak},
		"SBX-10 a least isolation that is unknown":           {"", events.Sandbox{Mode: "bwrap", MinIsolation: "steel"}, backends.ErrTooWeak},
		"SBX-20 auto with a backend that is not here":        {"", events.Sandbox{Mode: "auto", Backend: "docker"}, sandbox.ErrUnavailable},
		"SBX-14 the whole workspace is not closed to itself": {"", events.Sandbox{ReadOnly: []string{"."}}, sandbox.ErrNotEnforced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if cfg, err := wants(t, c.least, c.want); !errors.Is(err, c.err) {
				t.Errorf("got %+v, %v, want %v", cfg, err, c.err)
			}
		})
	}
	t.Run("SBX-20 a limit that host cannot enforce is refused", func(t *testing.T) {
		t.Parallel()
		sandboxes, err := NewOpener(Config{Root: t.TempDir(), Default: sandbox.Host, Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Host: host.New("")}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sandboxes.OpenAs(t.Context(), "x", "ws", events.Sandbox{MemoryBytes: 1 << 30}); !errors.Is(err, sandbox.ErrNotEnforced) {
			t.Errorf("got %v, want ErrNotEnforced", err)
		}
	})
	t.Run("SBX-15 a call that only starts a job opens no sandbox of its own", func(t *testing.T) {
		t.Parallel()
		prepared := false
		sb := NewLazy(LazyConfig{Mode: sandbox.Host, Open: func() (sandbox.Sandbox, error) {
			t.Error("it was opened")
			return nil, errors.New("unused")
		}, Before: func() error {
			prepared = true
			return nil
		}})
		if err := errors.Join(sb.Prepare(), sb.Destroy(t.Context())); err != nil || !prepared {
			t.Errorf("prepared %v, %v", prepared, err)
		}
	})
	t.Run("SBX-16 what the commands of a call used is added up", func(t *testing.T) {
		t.Parallel()
		sandboxes, err := NewOpener(Config{Root: t.TempDir(), Default: sandbox.Host, Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Host: host.New("")}})
		if err != nil {
			t.Fatal(err)
		}
		sb := NewLazy(LazyConfig{ID: "hx-1", Mode: sandbox.Host, Open: sync.OnceValues(func() (sandbox.Sandbox, error) {
			return sandboxes.OpenAs(t.Context(), "hx-1", "ws", events.Sandbox{})
		})})
		defer func() { _ = sb.Destroy(context.Background()) }()
		if sb.Usage() != nil {
			t.Error("before any: got a usage")
		}
		spin := sandbox.Cmd{Args: []string{"sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"}}
		if _, err := sb.Exec(t.Context(), spin); err != nil {
			t.Fatal(err)
		}
		p, err := sb.Start(t.Context(), spin)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := p.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		if u := sb.Usage(); u == nil || u.Commands != 2 || u.UserMS+u.SystemMS < 10 || u.MaxMemoryBytes == 0 {
			t.Errorf("got %+v, want two commands", u)
		}
	})
}

// able is a backend that enforces some walls.
type able struct {
	asked
	isolation []sandbox.Isolation
}

func (a able) Capabilities() []sandbox.Capability {
	var list []sandbox.Capability
	for _, w := range sandbox.Isolations() {
		list = append(list, sandbox.Capability{Isolation: w, Enforced: slices.Contains(a.isolation, w), Why: "it does not"})
	}
	return list
}

func TestOpenerRules(t *testing.T) {
	t.Parallel()
	closed := func(netip.AddrPort) bool { return true }
	opened := func(t *testing.T, mode sandbox.Mode, reaches bool, network bool, isolation ...sandbox.Isolation) (cfg sandbox.Config, err error) {
		t.Helper()
		sandboxes, err := NewOpener(Config{Root: t.TempDir(), Default: mode, Closed: closed, Reaches: reaches, Programs: func(rules []events.Rule) []string { return []string{rules[0].ID} },
			Backends: map[sandbox.Mode]sandbox.Backend{mode: able{asked{mode: mode, cfg: &cfg}, isolation}}})
		if err != nil {
			t.Fatal(err)
		}
		s := run.State{HarnessID: "hx-1", Created: &events.RunCreatedData{Workspace: "ws"}, Plan: &run.Plan{Steps: []*run.Step{{ID: "s", AssignedAgent: "a"}}},
			Agents: map[string]events.Agent{"a": {Guards: []events.Rule{{ID: "curl"}}, Sandbox: events.Sandbox{Network: network}}}}
		_, err = sandboxes.Open(t.Context(), sandboxes.RequestFor(s, "s", workdir.Dir{Workspace: "ws", Path: "ws"}, nil))
		if cfg.Workspace != "" {
			err = nil
		}
		return cfg, err
	}
	t.Run("GUARD-12 denied programs go to backends that can close them, and to no others", func(t *testing.T) {
		t.Parallel()
		if cfg, err := opened(t, sandbox.Bwrap, false, false, sandbox.IsolationPrograms); err != nil || !slices.Equal(cfg.DenyPrograms, []string{"curl"}) {
			t.Errorf("got %q, %v", cfg.DenyPrograms, err)
		}
		if cfg, err := opened(t, sandbox.Docker, false, false); err != nil || cfg.DenyPrograms != nil {
			t.Errorf("got %q, %v", cfg.DenyPrograms, err)
		}
	})
	for name, c := range map[string]struct {
		mode      sandbox.Mode
		reaches   bool
		network   bool
		isolation []sandbox.Isolation
		opens     bool
		closes    bool
	}{
		"an open network, kept from the station":     {sandbox.Landlock, false, true, []sandbox.Isolation{sandbox.IsolationStation}, true, true},
		"kept from it also where that is not needed": {sandbox.Landlock, true, true, []sandbox.Isolation{sandbox.IsolationStation}, true, true},
		"an open network that is not kept from it":   {sandbox.Docker, false, true, nil, false, false},
		"one that an operator accepts":               {sandbox.Docker, true, true, nil, true, false},
		"host, accepted":                             {sandbox.Host, true, true, nil, true, false},
		"host, whose network is always open":         {sandbox.Host, false, false, nil, false, false},
		"a closed network":                           {sandbox.Docker, false, false, nil, true, false},
	} {
		t.Run("SBX-13 "+name, func(t *testing.T) {
			t.Parallel()
			cfg, err := opened(t, c.mode, c.reaches, c.network, c.isolation...)
			if (err == nil) != c.opens || (cfg.Closed != nil) != c.closes || err != nil && !errors.Is(err, ErrReaches) {
				t.Errorf("got %v, closed %v, want opened %v, closed %v", err, cfg.Closed != nil, c.opens, c.closes)
			}
		})
	}
}
