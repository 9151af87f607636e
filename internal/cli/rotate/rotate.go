// Package rotate has inspan rotate: how the keys and credentials of a station are replaced.
package rotate

import (
	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
)

// Command makes inspan rotate and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate", Short: "Replace the keys and credentials of a station",
		Long: `Replaces a key by a new one. What was made with the old key stays good as far as it has to: old anchors verify, and calls that are under way go
on with the key that they began with. Each rotation can be interrupted at any point; the same command, or the next start of the station,
completes it. docs/rotation.md lists every secret of a station and what to do when it leaked.`,
		Example: "  inspan rotate anchor-key\n  inspan rotate anchor-key --leaked\n  inspan rotate station-key --store .inspan\n  inspan rotate credentials ada\n  inspan rotate list",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(anchorKeyCmd(a), stationKeyCmd(a), credentialsCmd(a), listCmd(a))
	return cmd
}
