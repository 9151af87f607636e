package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/program"
)

func (a *app) setupCmd() *cobra.Command {
	var l local
	var loss string
	cmd := &cobra.Command{
		Use: "setup", Short: "Make or update the streams of a station on a server with users, and register agents",
		Long: `Makes the streams, consumers and buckets of a station as the user who may, on a NATS server whose services may not.
It changes nothing where all is as it should be, so it can be run at any time; run it before the services start for the
first time, after an upgrade, and after a change of INSPAN_REPLICAS or INSPAN_LOG_MAX_BYTES. inspan up does it by itself.
--accept-loss with the ID that inspan doctor names lets a station go on whose log has lost something on all of its servers.`,
		Example: "  INSPAN_NATS_USER=setup INSPAN_NATS_PASSWORD_FILE=setup.password inspan setup --server nats://127.0.0.1:4222 --agents examples/agents",
		Args:    args(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := l.check(); err != nil {
				return err
			}
			cfg, err := a.config()
			if err != nil {
				return err
			}
			log, err := a.logger()
			if err != nil {
				return err
			}
			cfg.NATSURL, cfg.NATSCreds, cfg.Station, cfg.Agents = a.server, a.creds, a.station, l.agents
			if loss != "" {
				if err := program.AcceptLoss(cmd.Context(), cfg, loss, log); err != nil {
					return err
				}
			}
			mode, err := program.Setup(cmd.Context(), cfg, log)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]string{"station": cfg.Station, "durability": mode, "agents": cfg.Agents})
			}
			fmt.Fprintf(a.out, "Station %s is set up; the server: %s.\n", cfg.Station, mode)
			return nil
		},
	}
	cmd.Flags().StringVar(&l.agents, "agents", a.set("INSPAN_AGENTS", ""), "folder of agent files to register (INSPAN_AGENTS)")
	cmd.Flags().StringVar(&loss, "accept-loss", "", "go on with what is left of the log: the ID of the loss that inspan doctor names")
	return cmd
}
