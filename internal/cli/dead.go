package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
)

func (a *app) deadCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "Look at input that the station refused",
		Long:    "What a station refuses is kept for a week with the reason and what to do: tasks, controls and answers to gates.",
		Example: "  inspan dead list\n  inspan dead show 3\n  inspan dead replay 3", Args: cobra.ArbitraryArgs, RunE: group,
	}
	cmd.AddCommand(a.deadListCmd(), a.deadShowCmd(), a.deadReplayCmd())
	return cmd
}

func (a *app) deadListCmd() *cobra.Command {
	return &cobra.Command{
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
				code := l.Code
				if l.Replayed != nil {
					code += ", replayed"
				}
				rows = append(rows, []string{fmt.Sprint(l.Seq), age(l.Time), string(l.By), code, view.Clip(l.Subject, 60), view.Clip(l.Reason, 100)})
			}
			a.table([]string{">NO", ">AGE", "BY", "CODE", "SUBJECT", "REASON"}, rows)
			return nil
		}),
	}
}

func (a *app) deadShowCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show NO", Short: "Show one refused message whole", Example: "  inspan dead show 3\n  inspan dead show 3 --json", Args: args(1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			no, err := letterNo(argv[0])
			if err != nil {
				return err
			}
			return a.with(func(ctx context.Context, c *client.Client, _ []string) error { return a.showDead(ctx, c, no) })(cmd, argv)
		},
	}
}

func replayedAt(l client.Letter, zone *time.Location) string {
	if l.Replayed == nil {
		return ""
	}
	return l.Replayed.In(zone).Format("2006-01-02 15:04:05")
}

func letterNo(text string) (uint64, error) {
	no, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, usage("%q is not a number of inspan dead list", text)
	}
	return no, nil
}

func (a *app) deadReplayCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "replay NO", Short: "Say a refused message again, where it came from",
		Long: `Says a refused message again, once what it was refused for is mended, and waits until the station has taken it. Then the
list shows it as replayed, and it is not said a third time. Refused again, it is a new entry of the list.`,
		Example: "  inspan dead replay 3\n  inspan dead replay 3 --yes", Args: args(1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			no, err := letterNo(argv[0])
			if err != nil {
				return err
			}
			return a.with(func(ctx context.Context, c *client.Client, _ []string) error {
				if !yes {
					if err := a.showDead(ctx, c, no); err != nil {
						return err
					}
					fmt.Fprint(a.err, "\nSay this again? [y/N] ")
					if line, err := bufio.NewReader(a.in).ReadString('\n'); strings.ToLower(strings.TrimSpace(line)) != "y" {
						return errors.Join(exitWith(exitFailed, errors.New("nothing was said; --yes says it without asking")), ignoreEOF(err))
					}
				}
				wait, cancel := context.WithTimeout(ctx, a.wait)
				defer cancel()
				l, err := c.Replay(wait, no)
				if errors.Is(err, client.ErrReplayed) || errors.Is(err, client.ErrNotWhole) {
					return exitWith(exitRefused, err)
				}
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"letter": no, "subject": l.Subject, "taken": true})
				}
				fmt.Fprintf(a.out, "Letter %d was said again on %s and taken.\n", no, view.Clip(l.Subject, 200))
				return nil
			})(cmd, argv)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// ignoreEOF is an error of reading that is none: the input is simply over.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
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
			{"Subject", view.Clip(l.Subject, 200)}, {"Run", l.Run}, {"Code", l.Code}, {"Replayed", replayedAt(l, a.zone())}, {"Reason", view.Clip(l.Reason, 1000)}, {"What to do", view.Clip(l.Hint, 1000)},
			{"Message", view.Bytes(int64(l.DataBytes))}})
		fmt.Fprintf(a.out, "\n%s\n", harmless(l.Data))
		return nil
	}
	return fmt.Errorf("dead letter %d: %w; inspan dead list lists those of the last week", no, client.ErrNotFound)
}
