package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
)

// openLocal opens the station in the local store; with work its services run until the client is closed. A command that
// only looks lets nothing go on.
func (a *App) openLocal(ctx context.Context, work bool) (*client.Client, error) {
	path := filepath.Join(a.Folder, station.LocalFile)
	if !work && !station.HasLocal(a.Folder) {
		return nil, fmt.Errorf("there is no local store %s: inspan run --local makes one, INSPAN_STORE names another folder, and without --local a station over NATS is meant", path)
	}
	l := OwnStation{Store: a.Folder, Sandbox: a.Lookup("INSPAN_SANDBOX", "auto")}
	l.Workspace = a.Lookup("INSPAN_WORKSPACE", "")
	if work {
		l.Agents, l.Scripts = a.Lookup("INSPAN_AGENTS", ""), a.Lookup("INSPAN_SCRIPTS", "")
		l.Guess()
	}
	st, err := Start(ctx, a, l, Starting{Still: !work})
	if err != nil {
		return nil, err
	}
	return operator.Local(st.Local(), cmp.Or(l.Workspace, filepath.Join(a.Folder, "workspace")), func() {
		if err := st.Close(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintf(a.Err, "inspan: close the local store: %v\n", err)
		}
	}), nil
}

// Guess finds agents and scripts where people put them. What it finds is used once it was accepted (Accept).
func (l *OwnStation) Guess() {
	for _, g := range []struct {
		dst *string
		dir string
	}{{&l.Agents, "agents"}, {&l.Agents, filepath.Join("examples", "agents")}, {&l.Scripts, "scripts"},
		{&l.Scripts, filepath.Join("examples", "scripts")}} {
		if info, err := os.Stat(g.dir); *g.dst == "" && err == nil && info.IsDir() {
			*g.dst = g.dir
		}
	}
}

// OwnStation holds the flags of a station in this process.
type OwnStation struct {
	Store, Agents, Scripts, Workspace, Sandbox string
	Lazy                                       bool
	// Source is the folder of the directory that Agents is an accepted copy of; empty where Agents is no copy.
	Source string
	// Commands is the folder of the project's commands of the conversation, where they are asked about.
	Commands string
	// Formulas is the folder of the project's formulas, where they are asked about.
	Formulas string
	// Schedules is the folder of the project's schedules, where they are asked about; SchedulesDigest is that of those
	// that were accepted.
	Schedules, SchedulesDigest string
	// Closed are addresses of this process, HOST:PORT, that commands of sandboxes must not reach.
	Closed []string
	// Console has the station take consoles.
	Console bool
	// Loss is the ID of a loss that is accepted.
	Loss string
	// Trust accepts for once what the directory contributes; accepted is set once that was decided.
	Trust, accepted bool
}

// Flags defines the flags of a station in this process.
func (l *OwnStation) Flags(a *App, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.Agents, "agents", a.Lookup("INSPAN_AGENTS", ""), "folder of agent files to register (INSPAN_AGENTS)")
	f.StringVar(&l.Scripts, "scripts", a.Lookup("INSPAN_SCRIPTS", ""),
		"folder of scripts for scripted/ models (INSPAN_SCRIPTS)")
	f.StringVar(&l.Workspace, "workspace", a.Lookup("INSPAN_WORKSPACE", ""),
		"root of the workspaces; STORE/workspace if not given (INSPAN_WORKSPACE)")
	f.StringVar(&l.Sandbox, "sandbox", a.Lookup("INSPAN_SANDBOX", "auto"),
		"sandbox of agents that do not ask for one: auto, bwrap, landlock, host, docker, gvisor, wasm, e2b or kubernetes (INSPAN_SANDBOX)")
	f.BoolVar(&l.Lazy, "accept-lazy-fsync", a.Lookup("INSPAN_ACCEPT_LAZY_FSYNC", "") == "true",
		"acknowledge before syncing: faster, and a power cut loses the last seconds (INSPAN_ACCEPT_LAZY_FSYNC)")
	f.BoolVar(&l.Trust, "trust", false,
		"accept for this once what the directory contributes: agents, scripts, settings and store that no one named")
}

// Check finds a folder that is not there before anything is started.
func (l *OwnStation) Check() error {
	for flag, dir := range map[string]string{"--agents": l.Agents, "--scripts": l.Scripts} {
		if dir == "" {
			continue
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return Usage("%s %s: there is no such folder", flag, dir)
		}
	}
	return nil
}

// Starting is how a station in this process is started.
type Starting struct {
	// Listen is the address of its server; empty for none outside of this process.
	Listen string
	// Still starts no service, and reads nothing of the directory but the store.
	Still bool
	// Metrics are what the station reports to; nil shows them nowhere.
	Metrics *service.Metrics
}

// Start starts a station in this process, once what the directory contributes was accepted (Accept). It is no method of
// App: the generic types that a method of App leads to are compiled into each package of commands, and a station leads
// to those of the kernel.
func Start(ctx context.Context, a *App, l OwnStation, how Starting) (*station.Station, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if !how.Still {
		if err := a.Accept(ctx, &l); err != nil {
			return nil, err
		}
	}
	base, err := a.Config()
	if err != nil {
		return nil, err
	}
	a.WarnOfFiles()
	log, err := a.Logger()
	if err != nil {
		return nil, err
	}
	store, err := filepath.Abs(l.Store)
	if err != nil {
		return nil, Usage("--store: %w", err)
	}
	base.SandboxClosed = append(slices.Clone(base.SandboxClosed), l.Closed...)
	return station.Up(ctx, station.Config{Listen: how.Listen, StoreDir: store, Station: a.Station, AgentsDir: l.Agents,
		ScriptsDir:   l.Scripts,
		WorkspaceDir: l.Workspace, Sandbox: l.Sandbox, LazySync: l.Lazy, Alone: a.Local, Still: how.Still, AcceptLoss: l.Loss,
		Console: l.Console, Metrics: how.Metrics,
		Log: log, Base: base})
}
