package serve

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/program"
)

// setupCommand is inspan setup.
type setupCommand struct {
	App  *app.App
	own  app.OwnStation
	loss string
}

// Setup makes inspan setup.
func Setup(a *app.App) *cobra.Command {
	c := &setupCommand{App: a}
	cmd := &cobra.Command{
		Use: "setup", Short: "Make or update the streams of a station on a server with users, and register agents",
		Long: `Makes the streams, consumers and buckets of a station as the user who may, on a NATS server whose services may not.
It changes nothing where all is as it should be, so it can be run at any time; run it before the services start for the
first time, after an upgrade, and after a change of INSPAN_REPLICAS or INSPAN_LOG_MAX_BYTES. inspan up does it by itself.
--accept-loss with the ID that inspan doctor names lets a station go on whose log has lost something on all of its servers.`,
		Example: "  INSPAN_NATS_USER=setup INSPAN_NATS_PASSWORD_FILE=setup.password inspan setup --server nats://127.0.0.1:4222 --agents examples/agents",
		Args:    app.Args(0),
		RunE:    c.run,
	}
	cmd.Flags().StringVar(&c.own.Agents, "agents", a.Lookup("INSPAN_AGENTS", ""),
		"folder of agent files to register (INSPAN_AGENTS)")
	cmd.Flags().BoolVar(&c.own.Trust, "trust", false,
		"accept for this once what the directory contributes: agents and settings that no one named")
	cmd.Flags().StringVar(&c.loss, "accept-loss", "",
		"go on with what is left of the log: the ID of the loss that inspan doctor names")
	return cmd
}

func (a *setupCommand) run(cmd *cobra.Command, _ []string) error {
	if err := a.own.Check(); err != nil {
		return err
	}
	if err := a.App.Accept(cmd.Context(), &a.own); err != nil {
		return err
	}
	cfg, err := a.App.Config()
	if err != nil {
		return err
	}
	log, err := a.App.Logger()
	if err != nil {
		return err
	}
	cfg.NATSURL, cfg.NATSCreds, cfg.Station, cfg.Agents = a.App.Server, a.App.Creds, a.App.Station, a.own.Agents
	if a.loss != "" {
		if err := program.AcceptLoss(cmd.Context(), cfg, a.loss, log); err != nil {
			return err
		}
	}
	mode, err := program.Setup(cmd.Context(), cfg, log)
	if err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(map[string]string{"station": cfg.Station, "durability": mode, "agents": cfg.Agents})
	}
	fmt.Fprintf(a.App.Out, "Station %s is set up; the server: %s.\n", cfg.Station, mode)
	return nil
}
