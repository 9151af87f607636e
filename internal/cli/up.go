package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/station"
)

// local holds the flags of a station in this process.
type local struct {
	store, agents, scripts, workspace, sandbox string
	lazy                                       bool
}

func (l *local) flags(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.agents, "agents", a.set("INSPAN_AGENTS", ""), "folder of agent files to register (INSPAN_AGENTS)")
	f.StringVar(&l.scripts, "scripts", a.set("INSPAN_SCRIPTS", ""), "folder of scripts for scripted/ models (INSPAN_SCRIPTS)")
	f.StringVar(&l.workspace, "workspace", a.set("INSPAN_WORKSPACE", ""), "root of the workspaces; STORE/workspace if not given (INSPAN_WORKSPACE)")
	f.StringVar(&l.sandbox, "sandbox", a.set("INSPAN_SANDBOX", "auto"), "sandbox of agents that do not ask for one: auto, bwrap, landlock, host, docker, gvisor, wasm, e2b or kubernetes (INSPAN_SANDBOX)")
	f.BoolVar(&l.lazy, "accept-lazy-fsync", a.set("INSPAN_ACCEPT_LAZY_FSYNC", "") == "true", "acknowledge before syncing: faster, and a power cut loses the last seconds (INSPAN_ACCEPT_LAZY_FSYNC)")
}

// check finds a folder that is not there before anything is started.
func (l *local) check() error {
	for flag, dir := range map[string]string{"--agents": l.agents, "--scripts": l.scripts} {
		if dir == "" {
			continue
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return usage("%s %s: there is no such folder", flag, dir)
		}
	}
	return nil
}

// start starts a station in this process.
// still starts no service.
func (a *app) start(ctx context.Context, l local, listen string, still bool) (*station.Station, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	base, err := a.config()
	if err != nil {
		return nil, err
	}
	a.warnOfFiles()
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	store, err := filepath.Abs(l.store)
	if err != nil {
		return nil, usage("--store: %w", err)
	}
	return station.Up(ctx, station.Config{Listen: listen, StoreDir: store, Station: a.station, AgentsDir: l.agents, ScriptsDir: l.scripts,
		WorkspaceDir: l.workspace, Sandbox: l.sandbox, LazySync: l.lazy, Alone: a.alone, Still: still, Log: log, Base: base})
}

func (a *app) upCmd() *cobra.Command {
	var l local
	var listen string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a station: a NATS server and all five services in this process",
		Long: `Runs a station on this machine until it is interrupted. Everything is kept under --store; started again with the
same --store, it goes on with the runs that were not finished, also after kill -9. It listens on 127.0.0.1 unless
--listen says otherwise. Whoever reaches it may dispatch, watch, steer and answer gates in nobody's name, without a
password; only the services in this process may say facts, and nobody may change or erase what is stored. With --local there is no
server: it works off what is in the local store, and nobody reaches it meanwhile.`,
		Example: `  inspan up --agents examples/agents --scripts examples/scripts
  inspan up --listen 127.0.0.1:4333 --station lab --store /var/lib/inspan --json`,
		Args: args(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.alone && cmd.Flags().Changed("listen") {
				return usage("--local does without NATS, so there is nothing to reach at --listen: leave one of them out")
			}
			if a.alone && !cmd.Flags().Changed("store") {
				l.store = a.folder
			}
			st, err := a.start(cmd.Context(), l, listen, false)
			if err != nil {
				return err
			}
			if err := a.greet(st, l); err != nil {
				return errors.Join(err, st.Close(context.WithoutCancel(cmd.Context())))
			}
			var failure error
			select {
			case <-cmd.Context().Done():
				fmt.Fprintln(a.err, "Stopping: no new work is taken, what is under way is finished.")
			case failure = <-st.Failed():
			}
			return errors.Join(failure, st.Close(context.WithoutCancel(cmd.Context())))
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:4222", "host:port for NATS clients; port 0 is any free one")
	cmd.Flags().StringVar(&l.store, "store", ".inspan", "folder to keep the station in")
	l.flags(a, cmd)
	return cmd
}

// greet prints what a person needs to use the station with nothing but the nats program.
func (a *app) greet(st *station.Station, l local) error {
	url, name := st.URL(), st.Name()
	if a.json {
		return a.printJSON(map[string]string{"station": name, "url": url, "durability": st.Durability(), "sandbox": st.SandboxMode(),
			"workspace": st.Workspace(), "store": l.store})
	}
	p := a.paint()
	address := p.bold(url)
	if url == "" {
		address = "none, without NATS"
	}
	sandbox := st.SandboxMode()
	if sandbox == "host" {
		sandbox += p.yellow("  (tools run without isolation; inspan doctor says why)")
	}
	fmt.Fprintf(a.out, "%s Station %s is up.\n\n", p.green("●"), p.bold(name))
	a.pairs([][2]string{{"address", address}, {"durability", st.Durability()}, {"sandbox", sandbox}, {"workspace", st.Workspace()},
		{"store", l.store}, {"agents", or(l.agents, "none new; name a folder with --agents")}})
	fmt.Fprintln(a.out)
	if a.alone {
		fmt.Fprintln(a.out, p.dim("It works off what is in its local store. Ctrl+C stops it; inspan run --local gives it a task, inspan runs --local shows them."))
		return nil
	}
	a.pairs([][2]string{
		{"dispatch", p.cyan(fmt.Sprintf(`nats -s %s pub station.%s.task '{"agent":"fixer","task":"..."}'`, url, name))},
		{"watch", p.cyan(fmt.Sprintf(`nats -s %s sub 'station.%s.run.*.stream'`, url, name))},
		{"approve", p.cyan(fmt.Sprintf(`nats -s %s pub station.%s.run.RUN.gate.GATE '{"decision":"approve"}'`, url, name))},
	})
	fmt.Fprintln(a.out, "\n"+p.dim("Or: inspan run, inspan runs, inspan gates. Ctrl+C stops the station; with the same --store it goes on where it stopped."))
	return nil
}
