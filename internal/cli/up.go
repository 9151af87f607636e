package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/storecheck"
)

// local holds the flags of a station in this process.
type local struct {
	store, agents, scripts, workspace, sandbox string
	lazy                                       bool
	// loss is the ID of a loss that is accepted.
	loss string
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
		WorkspaceDir: l.workspace, Sandbox: l.sandbox, LazySync: l.lazy, Alone: a.alone, Still: still, AcceptLoss: l.loss, Log: log, Base: base})
}

func (a *app) upCmd() *cobra.Command {
	var l local
	var listen string
	port := -1
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a station: a NATS server and all five services in this process",
		Long: `Runs a station on this machine until it is interrupted. Everything is kept under --store; started again with the
same --store, it goes on with the runs that were not finished, also after kill -9. It listens on 127.0.0.1 unless
--listen says otherwise; other commands in the same project find it there. Whoever reaches it may dispatch, watch, steer and answer gates in nobody's name, without a
password; only the services in this process may say facts, and nobody may change or erase what is stored. With --local there is no
server: it works off what is in the local store, and nobody reaches it meanwhile.

Before it opens the store it looks for damage. A flipped bit is turned back where a checksum proves which one it was. Where
something is lost it says what, and runs without taking work: what is left can be read, audited, exported and restored, and
the exit code is 1. --accept-loss with the ID that it names makes it work on with what is left.`,
		Example: `  inspan up --agents examples/agents --scripts examples/scripts
  inspan up --listen 127.0.0.1:4333 --station lab --store /var/lib/inspan --json`,
		Args: args(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"listen", "port"} {
				if a.alone && a.given(name) {
					return usage("--local does without NATS, so there is nothing to reach at --%s: leave one of them out", name)
				}
			}
			if port >= 0 {
				if cmd.Flags().Changed("listen") {
					return usage("--listen names a port already: leave --port out")
				}
				listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			}
			st, err := a.start(cmd.Context(), l, listen, false)
			if err != nil {
				return portTaken(cmd.Context(), listen, err)
			}
			damage := a.reportDamage(st)
			if err := a.greet(st, l); err != nil {
				return errors.Join(err, st.Close(context.WithoutCancel(cmd.Context())))
			}
			var failure error
			select {
			case <-cmd.Context().Done():
				fmt.Fprintln(a.err, "Stopping: no new work is taken, what is under way is finished.")
			case failure = <-st.Failed():
			}
			return errors.Join(failure, st.Close(context.WithoutCancel(cmd.Context())), damage)
		},
	}
	cmd.Flags().StringVar(&l.loss, "accept-loss", "", "work on although something of the store is lost: the ID that inspan up or inspan doctor named")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:4222", "host:port for NATS clients; port 0 is any free one")
	cmd.Flags().IntVar(&port, "port", -1, "port of 127.0.0.1 for NATS clients, in place of --listen; 0 is any free one")
	cmd.Flags().StringVar(&l.store, "store", a.folder, "folder to keep the station in (INSPAN_STORE)")
	l.flags(a, cmd)
	return cmd
}

// errDamaged is how a station ends whose store has lost something.
var errDamaged = errors.New("the store is damaged: the station took no work")

// reportDamage says what the store has lost; what was repaired is in the log.
func (a *app) reportDamage(st *station.Station) error {
	p, lost := a.paint(), st.Damage()
	if !lost.Damaged() {
		return nil
	}
	fmt.Fprintf(a.err, "%s THE STORE IS DAMAGED (loss %s). The station takes no work; what is left can be read, audited, exported and restored.\n", p.red("●"), lost.ID())
	for _, f := range lost.Lost() {
		fmt.Fprintf(a.err, "  %s\n", f)
	}
	from := "an archive"
	if cfg, err := a.config(); err == nil && cfg.Archive != "" {
		from = cfg.Archive
	}
	fmt.Fprintf(a.err, "Files are kept as they were in the folder %s of the store. Restore from %s into a new store (docs/runbook.md),\nor accept what is lost: inspan up --accept-loss %s\n", storecheck.CopiesFolder, from, lost.ID())
	return errDamaged
}

// greet prints what a person needs to use the station with nothing but the nats program.
func (a *app) greet(st *station.Station, l local) error {
	url, name := st.URL(), st.Name()
	if a.json {
		about := map[string]string{"station": name, "url": url, "durability": st.Durability(), "sandbox": st.SandboxMode(),
			"workspace": st.Workspace(), "store": l.store}
		if lost := st.Damage(); lost.Damaged() {
			about["loss"], about["lost"] = lost.ID(), lost.Error()
		}
		return a.printJSON(about)
	}
	p := a.paint()
	address := p.bold(url)
	if url == "" {
		address = "none, without NATS"
	}
	mode := st.SandboxMode()
	if mode == "host" {
		mode += p.yellow("  (tools run without isolation; inspan doctor says why)")
	}
	if cfg, err := a.config(); err == nil && url != "" {
		cfg.Sandbox = l.sandbox
		if said := all.Toolrunner(cfg).Reaches(sandbox.Mode(st.SandboxMode())); said != "" {
			fmt.Fprintln(a.err, p.yellow("Gates: "+said+"."))
		}
	}
	if st.Damage().Damaged() {
		fmt.Fprintf(a.out, "%s Station %s is up and takes no work: its store is damaged.\n\n", p.red("●"), p.bold(name))
	} else {
		fmt.Fprintf(a.out, "%s Station %s is up.\n\n", p.green("●"), p.bold(name))
	}
	a.pairs([][2]string{{"address", address}, {"durability", st.Durability()}, {"sandbox", mode}, {"workspace", st.Workspace()},
		{"store", l.store}, {"agents", cmp.Or(l.agents, "none new; name a folder with --agents")}})
	fmt.Fprintln(a.out)
	if a.alone {
		fmt.Fprintln(a.out, p.dim("It works off what is in its local store; no one reaches it meanwhile. Ctrl+C stops it."))
		fmt.Fprintln(a.out, p.dim("Then inspan run --local gives it a task, and inspan runs --local shows them."))
		return nil
	}
	a.pairs([][2]string{
		{"dispatch", p.cyan(fmt.Sprintf(`nats -s %s pub station.%s.task '{"agent":"fixer","task":"..."}'`, url, name))},
		{"watch", p.cyan(fmt.Sprintf(`nats -s %s sub 'station.%s.run.*.stream'`, url, name))},
		{"approve", p.cyan(fmt.Sprintf(`nats -s %s pub station.%s.run.RUN.gate.GATE '{"decision":"approve"}'`, url, name))},
	})
	fmt.Fprintln(a.out, "\n"+p.dim("Or, in another terminal in this project: inspan run, inspan runs, inspan gates."))
	fmt.Fprintln(a.out, p.dim("Ctrl+C stops the station; with the same --store it goes on where it stopped."))
	return nil
}
