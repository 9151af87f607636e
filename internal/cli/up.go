package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
)

// local holds the flags of a station in this process.
type local struct {
	store, agents, scripts, workspace, sandbox string
	lazy                                       bool
}

func (l *local) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.agents, "agents", os.Getenv("INSPAN_AGENTS"), "folder of agent files to register (INSPAN_AGENTS)")
	f.StringVar(&l.scripts, "scripts", os.Getenv("INSPAN_SCRIPTS"), "folder of scripts for scripted/ models (INSPAN_SCRIPTS)")
	f.StringVar(&l.workspace, "workspace", os.Getenv("INSPAN_WORKSPACE"), "root of the workspaces; STORE/workspace if not given (INSPAN_WORKSPACE)")
	f.StringVar(&l.sandbox, "sandbox", env("auto", "INSPAN_SANDBOX"), "sandbox of agents that do not ask for one: auto, bwrap or host (INSPAN_SANDBOX)")
	f.BoolVar(&l.lazy, "accept-lazy-fsync", os.Getenv("INSPAN_ACCEPT_LAZY_FSYNC") == "true", "acknowledge before syncing: faster, and a power cut loses the last seconds (INSPAN_ACCEPT_LAZY_FSYNC)")
}

// start starts a station in this process.
func (a *app) start(ctx context.Context, l local, listen string) (*station.Station, error) {
	base, err := service.FromEnv()
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	store, err := filepath.Abs(l.store)
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	return station.Up(ctx, station.Config{Listen: listen, StoreDir: store, Station: a.station, AgentsDir: l.agents, ScriptsDir: l.scripts,
		WorkspaceDir: l.workspace, Sandbox: l.sandbox, LazySync: l.lazy, Log: log, Base: base})
}

func (a *app) upCmd() *cobra.Command {
	var l local
	var listen string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a station: a NATS server and all five services in this process",
		Long: `Runs a station on this machine until it is interrupted. Everything is kept under --store; started again with the
same --store, it goes on with the runs that were not finished, also after kill -9.`,
		Example: `  inspan up --store .inspan --agents examples/agents --scripts examples/scripts
  inspan up --listen 127.0.0.1:4333 --station lab --store /var/lib/inspan`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := a.start(cmd.Context(), l, listen)
			if err != nil {
				return err
			}
			a.greet(st, l)
			var failure error
			select {
			case <-cmd.Context().Done():
				fmt.Fprintln(a.out, "Stopping: no new work, what is under way is finished.")
			case failure = <-st.Failed():
			}
			return errors.Join(failure, st.Close(context.WithoutCancel(cmd.Context())))
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:4222", "host:port for NATS clients")
	cmd.Flags().StringVar(&l.store, "store", ".inspan", "folder to keep the station in")
	l.flags(cmd)
	return cmd
}

// greet prints what a person needs to use the station with nothing but the nats program.
func (a *app) greet(st *station.Station, l local) {
	p := a.paint()
	fmt.Fprintf(a.out, "Station %s is up at %s\n", p.bold(st.Name()), p.bold(st.URL()))
	fmt.Fprintf(a.out, "  durability  %s\n  sandbox     %s\n  workspace   %s\n  store       %s\n\n", st.Durability(), st.SandboxMode(), st.Workspace(), l.store)
	fmt.Fprintf(a.out, "Dispatch   %s\n", p.cyan(fmt.Sprintf(`nats -s %s pub station.%s.task '{"agent":"fixer","task":"...","autonomy":1}'`, st.URL(), st.Name())))
	fmt.Fprintf(a.out, "Watch      %s\n", p.cyan(fmt.Sprintf(`nats -s %s sub 'station.%s.run.*.stream'`, st.URL(), st.Name())))
	fmt.Fprintf(a.out, "Approve    %s\n\n", p.cyan(fmt.Sprintf(`nats -s %s req station.%s.run.RUN.gate.GATE '{"decision":"approve"}'`, st.URL(), st.Name())))
	fmt.Fprintln(a.out, "Ctrl+C stops it; the same --store goes on where it stopped.")
}
