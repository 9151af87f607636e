package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
)

func (a *app) deadCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "Look at input that the station refused",
		Long:    "What a station refuses is kept for a week with the reason and what to do: tasks, controls and answers to gates.",
		Example: "  inspan dead list\n  inspan dead show 3", Args: cobra.ArbitraryArgs, RunE: group,
	}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "List refused input, the oldest first", Example: "  inspan dead list\n  inspan dead list --json", Args: args(0),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			letters, err := c.Dead(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(letters)
			}
			if len(letters) == 0 {
				fmt.Fprintln(a.out, "Nothing was refused.")
				return nil
			}
			var rows [][]string
			for _, l := range letters {
				rows = append(rows, []string{fmt.Sprint(l.Seq), age(l.Time), string(l.By), l.Code, view.Clip(l.Subject, 60), view.Clip(l.Reason, 100)})
			}
			a.table([]column{{"NO", true}, {"AGE", true}, {head: "BY"}, {head: "CODE"}, {head: "SUBJECT"}, {head: "REASON"}}, rows)
			return nil
		}),
	}, &cobra.Command{
		Use: "show NO", Short: "Show one refused message whole", Example: "  inspan dead show 3\n  inspan dead show 3 --json", Args: args(1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			no, err := strconv.ParseUint(argv[0], 10, 64)
			if err != nil {
				return usage("%q is not a number of inspan dead list", argv[0])
			}
			return a.with(func(ctx context.Context, c *client.Client, _ []string) error { return a.showDead(ctx, c, no) })(cmd, argv)
		},
	})
	return cmd
}

func (a *app) showDead(ctx context.Context, c *client.Client, no uint64) error {
	letters, err := c.Dead(ctx)
	if err != nil {
		return err
	}
	for _, l := range letters {
		if l.Seq != no {
			continue
		}
		if a.json {
			return a.printJSON(l)
		}
		a.pairs([][2]string{{"No", fmt.Sprint(l.Seq)}, {"When", l.Time.In(a.zone()).Format("2006-01-02 15:04:05")}, {"Refused by", string(l.By)},
			{"Subject", view.Clip(l.Subject, 200)}, {"Run", l.Run}, {"Code", l.Code}, {"Reason", view.Clip(l.Reason, 1000)}, {"What to do", view.Clip(l.Hint, 1000)},
			{"Message", view.Bytes(int64(l.DataBytes))}})
		fmt.Fprintf(a.out, "\n%s\n", harmless(l.Data))
		return nil
	}
	return fmt.Errorf("dead letter %d: %w; inspan dead list lists those of the last week", no, client.ErrNotFound)
}
