package colony

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// noTier has every agent use the model of its definition.
const noTier = "none"

// Tier makes inspan tier and the commands below it.
func Tier(a *app.App) *cobra.Command {
	cmd := &cobra.Command{Use: "tier",
		Short: "Show and set the cost tier: which models the named agents use, by their role",
		Long: `A tier gives the agents of roles other models than their definitions have, from the next run of each agent on; a run under way keeps its
own. Tiers are in a file:

  [tiers.economy]
  worker = "openai/gpt-6.1-mini"
  "web/lead" = "agent:planner-codex"

A key is a role, or PROJECT/ROLE, which comes first. agent:NAME has its agents run another definition, and so another runtime.`,
		Example: "  inspan tier show\n  inspan tier set economy --from tiers.toml\n  inspan tier set none",
		Args:    cobra.ArbitraryArgs, RunE: app.Group}
	cmd.AddCommand(showTierCmd(a), setTierCmd(a))
	return cmd
}

func showTierCmd(a *app.App) *cobra.Command {
	return &cobra.Command{Use: "show", Short: "Show the tier, and the model of each role that it names",
		Example: "  inspan tier show\n  inspan tier show --json",
		Args:    app.Args(0), RunE: a.Connected(func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := client.NewMail(c).Get(ctx, events.Everyone)
			if err != nil && !errors.Is(err, client.ErrNotFound) {
				return err
			}
			return printTier(a, all.Life.Tier)
		})}
}

func printTier(a *app.App, t *events.AgentTier) error {
	if t == nil {
		t = &events.AgentTier{Name: noTier}
	}
	if a.JSON {
		return a.PrintJSON(t)
	}
	if len(t.Models) == 0 {
		fmt.Fprintln(a.Out,
			"No tier: each agent uses the model of its definition. Set one with: inspan tier set NAME --from FILE")
		return nil
	}
	fmt.Fprintf(a.Out, "Tier %s, from the next run of each agent on:\n", t.Name)
	var rows [][]string
	for _, role := range slices.Sorted(maps.Keys(t.Models)) {
		rows = append(rows, []string{role, t.Models[role]})
	}
	a.Table([]string{"ROLE", "MODEL"}, rows)
	return nil
}

func setTierCmd(a *app.App) *cobra.Command {
	c, file := &steerCommand{App: a, ctl: events.MailControl{Action: mailbox.Tier}}, ""
	cmd := &cobra.Command{Use: "set NAME", Short: "Set the tier; none has each agent use the model of its definition",
		Example: "  inspan tier set economy --from tiers.toml\n  inspan tier set none", Args: app.Args(1),
		RunE: a.Connected(func(ctx context.Context, cl *client.Client, args []string) error {
			tier, err := readTier(file, args[0])
			if err != nil {
				return app.Usage("%w", err)
			}
			c.ctl.Tier = &tier
			if err := errors.Join(c.ctl.Check(), mailbox.Check(events.EveryAddress, c.ctl)); err != nil {
				return app.Usage("%w", err)
			}
			ctx, cancel := context.WithTimeout(ctx, c.App.Wait)
			defer cancel()
			all, err := client.NewMail(cl).Control(ctx, events.Everyone, c.ctl)
			if err != nil {
				return err
			}
			return printTier(a, all.Life.Tier)
		})}
	cmd.Flags().StringVar(&file, "from", "", "file of tiers, as TOML")
	return c.by(cmd)
}

// maxTiers bounds the size of a file of tiers, in bytes.
const maxTiers = 64 << 10

// readTier reads the tier of a name.
func readTier(file, name string) (t events.AgentTier, err error) {
	if t.Name = name; name == noTier {
		return t, nil
	}
	if file == "" {
		return t, fmt.Errorf("tier %.80q needs the file that has it: --from tiers.toml; none needs no file", name)
	}
	info, err := os.Stat(file)
	if err != nil {
		return t, err
	}
	if info.Size() > maxTiers {
		return t, fmt.Errorf("%s has %d bytes, the limit is %d", file, info.Size(), maxTiers)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return t, err
	}
	var all struct {
		Tiers map[string]map[string]string `toml:"tiers"`
	}
	if err := toml.Unmarshal(b, &all); err != nil {
		return t, fmt.Errorf("%s: %w", file, err)
	}
	models, ok := all.Tiers[name]
	if !ok || len(models) == 0 {
		return t, fmt.Errorf("%s has no tier %.80q; %s", file, name, didyoumean.Hint(name,
			slices.Sorted(maps.Keys(all.Tiers)), "write it as [tiers."+name+"]"))
	}
	t.Models = models
	return t, nil
}
