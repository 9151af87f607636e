package rotate

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/pkg/client"
)

// listCommand is inspan rotate list.
type listCommand struct{ App *app.App }

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{a}
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the keys of anchors that were replaced, as the log has them",
		Long: `Lists the keys of anchors of a station: which replaced which, when, why, and the last position of the log at which an anchor of the old one
is accepted. Each link is verified. The JSON form has the certificates, for inspan audit --chain.`,
		Example: "  inspan rotate list\n  inspan rotate list --json > keys.json\n  inspan audit --file run.jsonl --anchor run.anchor --key old.pub --chain keys.json",
		Args:    app.Args(0), RunE: a.Connected(c.run),
	}
}

func (a *listCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	chain, err := operator.KeyChain(ctx, c)
	if err != nil {
		return err
	}
	if _, err := keychain.Trust(c.Station(), nil, nil, chain); err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(keychain.Chain{Station: c.Station(), Links: chain})
	}
	l := app.Listing{Heads: []string{">NO", "OLD KEY", "NEW KEY", "REASON", ">OLD UNTIL", "+AT"},
		Empty: "No key of anchors was replaced. inspan rotate anchor-key replaces it."}
	for i, link := range chain {
		old := "unknown"
		if link.Old != "" {
			old = keychain.ID(link.Old)
		}
		l.Add(link.New, link, fmt.Sprint(i+1), old, keychain.ID(link.New), link.Reason, fmt.Sprint(link.Until()), link.At)
	}
	return a.App.Print(l)
}
