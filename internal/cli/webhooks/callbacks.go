package webhooks

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/callback"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/edge"
)

// callbacksCommand is inspan webhook callbacks.
type callbacksCommand struct {
	App                 *app.App
	dir, secrets, state string
}

func callbacksCmd(a *app.App) *cobra.Command {
	c := &callbacksCommand{App: a}
	cmd := &cobra.Command{
		Use: "callbacks", Aliases: []string{"callback"}, Short: "List the callbacks of the folder and what they have still to call",
		Long: `A callback is a file NAME.toml: it has a receiver called when runs end or wait at a gate. This command says what is wrong with the
files, or lists them with the calls that wait. Calls that were given up are in inspan dead list. docs/callbacks.md has the keys of a file.`,
		Example: "  inspan webhook callbacks\n  inspan webhook callbacks --dir callbacks --state /var/lib/inspan/callbacks.json --json",
		Args:    app.Args(0), RunE: c.run,
	}
	cmd.Flags().StringVar(&c.dir, "dir", a.Lookup("INSPAN_GATEWAY_CALLBACKS", "callbacks"),
		"folder of the files (INSPAN_GATEWAY_CALLBACKS)")
	cmd.Flags().StringVar(&c.secrets, "secrets", a.Lookup("INSPAN_GATEWAY_SECRETS", filepath.Join(a.Folder,
		"webhook-secrets")), "folder of the secrets (INSPAN_GATEWAY_SECRETS)")
	cmd.Flags().StringVar(&c.state, "state", a.Lookup("INSPAN_GATEWAY_CALLBACKS_STATE", filepath.Join(app.DefaultStore,
		edge.StateFile)), "file of what is still to be called (INSPAN_GATEWAY_CALLBACKS_STATE)")
	return cmd
}

func (a *callbacksCommand) run(_ *cobra.Command, _ []string) error {
	targets, err := callback.Load(a.dir, a.secrets)
	if err != nil {
		return err
	}
	state, err := callback.ReadState(a.state)
	if err != nil {
		return err
	}
	l := app.Listing{Heads: []string{"NAME", "KIND", "ON", "WAITING", "LAST FAILURE"}, Empty: "There is no callback in " +
		a.dir + ". docs/callbacks.md shows files of callbacks."}
	for _, t := range targets {
		on := make([]string, len(t.File.On))
		for i, k := range t.File.On {
			on[i] = string(k)
		}
		waiting, last := 0, ""
		for _, d := range state.Pending {
			if d.Target == t.Name {
				waiting++
				last = d.Last
			}
		}
		l.Add(t.Name, map[string]any{"name": t.Name, "kind": t.File.Kind, "on": on, "waiting": waiting, "last_failure": last},
			t.Name, string(t.File.Kind), strings.Join(on, ", "), strconv.Itoa(waiting), last)
	}
	return a.App.Print(l)
}
