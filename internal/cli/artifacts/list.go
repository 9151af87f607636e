// Package artifacts has inspan artifacts: list and get what runs made, and give them files.
package artifacts

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// listCommand is inspan artifacts list.
type listCommand struct {
	App *app.App
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	return &cobra.Command{
		Use: "list RUN", Short: "List the artifacts of a run, of each path the newest", Args: app.Args(1),
		Example: "  inspan artifacts list run-k3v9x2m1qa\n  inspan artifacts list run-k3v9x2m1qa --json | jq -r '.[].path'",
		RunE:    a.Connected(c.run),
	}
}

func (a *listCommand) run(ctx context.Context, c *client.Client, argv []string) error {
	all, err := c.Artifacts().List(ctx, argv[0])
	if err != nil {
		return err
	}
	l := app.Listing{Heads: []string{"ID", ">AGE", "TYPE", ">SIZE", "STEP", "KEPT", "+SHA256", "PATH"},
		Empty: "The run has made no artifacts."}
	for _, f := range all {
		l.Add(f.ID, f, f.ID, app.Age(f.CreatedAt), f.Type, view.Bytes(f.Size), view.Clip(f.Step, 30), retentionText(f),
			f.SHA256,
			view.Clip(cmp.Or(f.Path, f.Name), 120))
	}
	return a.App.Print(l)
}

// Command makes inspan artifacts and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "artifacts", Short: "List and get what runs made, and give them files",
		Long: `What the tool calls of a run make or change in its workspace is kept as artifacts: files that match the station's or the
agent's patterns, files that the agent saves by name, and outputs of calls that are too long for the log. They are kept
for a time after the run, INSPAN_ARTIFACT_TTL; the record of each stays in the log.`,
		Example: "  inspan artifacts list run-k3v9x2m1qa\n  inspan artifacts get run-k3v9x2m1qa --to out",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(listCmd(a), getCmd(a), putCmd(a))
	return cmd
}

// retentionText says how long an artifact is there.
func retentionText(f client.Artifact) string {
	switch {
	case f.Expired:
		return "expired"
	case f.Kept == events.StoredInWorkspace:
		return "in the workspace"
	case f.Kept == events.StoredWithLog:
		return "with the log"
	case f.ExpiresAt != nil:
		if left := time.Until(*f.ExpiresAt); left < 2*time.Hour {
			return fmt.Sprintf("%.0f min more", left.Minutes())
		}
		return fmt.Sprintf("%.0f h more", time.Until(*f.ExpiresAt).Hours())
	}
	return "while the run goes on"
}
