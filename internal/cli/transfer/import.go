package transfer

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/cli/app"
)

// importCommand is inspan import.
type importCommand struct {
	App    *app.App
	target Target
}

// Import makes inspan import.
func Import(a *app.App) *cobra.Command {
	c := &importCommand{App: a}
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Bring a run from a bundle to the station, where it goes on",
		Long: `Checks every event and object of a bundle, then copies them to the station, byte for byte: the events keep the name of
the station that they were appended at. An open run goes on here with its plan, history, gates, deferred calls and
deadline; a paused one when it is resumed. Its answers are published on the subjects of this station. Its artifacts and
published branches come with it, and the files of its workspace where they followed the run: toolrunners with
INSPAN_WORKSPACE_MODE=follow restore them. What is not in a bundle is named. Where the station has a session or a
workspace of the same name, that one stands.`,
		Example: "  inspan import run-k3v9x2m1qa.bundle --station berlin --server nats://berlin:4222\n  inspan import run-k3v9x2m1qa.bundle --key persister.pub --json",
		Args:    app.Args(1),
		RunE:    c.run,
	}
	c.target.flags(cmd)
	return cmd
}

func (a *importCommand) run(cmd *cobra.Command, argv []string) error {
	f, err := os.Open(argv[0])
	if err != nil {
		return app.Exit(app.ExitUnknown, fmt.Errorf("open the bundle: %w", err))
	}
	defer f.Close()
	temp, err := os.MkdirTemp("", "inspan-bundle-*")
	if err != nil {
		return fmt.Errorf("unpack the bundle: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // a temporary folder
	src, err := archive.Unpack(f, temp)
	if err != nil {
		return err
	}
	m, err := src.Only(cmd.Context())
	if err != nil {
		return err
	}
	return a.target.open(cmd.Context(), a.App, func(to *archive.Restorer, how archive.How) error {
		b, err := to.Bring(cmd.Context(), src, m, how)
		if err != nil {
			return err
		}
		if _, err := to.Agents(cmd.Context(), src, m.Station); err != nil {
			return err
		}
		return printRestored(a.App, []archive.Brought{b}, nil)
	})
}
