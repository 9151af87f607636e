package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

// exportCommand is inspan export.
type exportCommand struct {
	App                    *app.App
	format, anchor, bundle string
	move, fork             bool
}

// Export makes inspan export.
func Export(a *app.App) *cobra.Command {
	c := &exportCommand{App: a}
	cmd := &cobra.Command{
		Use: "export RUN", Short: "Print the whole data of a run",
		Long:    "Prints the events of a run, byte for byte as they are stored (jsonl: each line's SHA-256 is the prevhash of the next),\nits state and events as one document (json), or its result with the whole conversation, also what it began with (messages).\nWith --bundle, writes all that another station needs to go on with it; an open run needs --move or --fork with it.",
		Example: "  inspan export run-k3v9x2m1qa > run.jsonl\n  inspan export run-k3v9x2m1qa --anchor run.anchor > run.jsonl\n  inspan export run-k3v9x2m1qa --bundle run.bundle --move\n  inspan export run-k3v9x2m1qa --format json | jq .state.status\n  inspan export run-k3v9x2m1qa --format messages | jq -r '.conversation.messages[].content'",
		Args:    app.Args(1),
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.bundle, "bundle", "",
		"file to write the run with its objects and agents to, for inspan import")
	cmd.Flags().BoolVar(&c.move, "move", false,
		"with --bundle: end an open run here, so that it goes on only where it is imported")
	cmd.Flags().BoolVar(&c.fork, "fork", false, "with --bundle: an open run goes on here too")
	cmd.Flags().StringVar(&c.anchor, "anchor", "", "file to write the run's signed head to, for inspan audit --anchor")
	cmd.Flags().StringVar(&c.format, "format", "jsonl",
		"jsonl (the events as stored), json (state and events) or messages (the result and the whole conversation)")
	return cmd
}

func (a *exportCommand) run(ctx context.Context, c *client.Client, args []string) error {
	if a.format == "messages" && a.bundle == "" && a.anchor == "" {
		return exportConversation(ctx, a.App, c, args[0])
	}
	if a.format != "jsonl" && a.format != "json" {
		return app.Usage("--format %q: want jsonl (the events as stored), json (state and events) or messages (the conversation), which goes without --bundle and --anchor", a.format)
	}
	if (a.move || a.fork) && a.bundle == "" || a.move && a.fork {
		return app.Usage("--move and --fork go with --bundle FILE, one of them")
	}
	if a.bundle != "" {
		leave := map[bool]operator.Leave{true: operator.LeaveMoved}[a.move]
		if a.fork {
			leave = operator.LeaveForked
		}
		return writeBundle(ctx, a.App, c, args[0], a.bundle, leave)
	}
	evs, s := []json.RawMessage{}, run.State{}
	for item, err := range c.Events(ctx, args[0], 0) {
		if err != nil {
			return err
		}
		evs, s = append(evs, item.Bytes), item.State
	}
	if len(evs) == 0 {
		return app.NoRun(args[0])
	}
	if a.anchor != "" {
		if err := exportAnchor(ctx, c, args[0], a.anchor); err != nil {
			return err
		}
	}
	if a.format == "json" {
		return a.App.PrintJSON(map[string]any{"state": s, "facts": evs})
	}
	for _, f := range evs {
		if _, err := fmt.Fprintf(a.App.Out, "%s\n", f); err != nil {
			return fmt.Errorf("write the export: %w", err)
		}
	}
	return nil
}

// exportAnchor writes the newest signed head of a run to a file.
func exportAnchor(ctx context.Context, c *client.Client, runID, file string) error {
	info, err := c.Runs().Get(ctx, runID)
	if err != nil {
		return err
	}
	if info.Anchor == nil {
		return fmt.Errorf("run %s: %w: no persister with a signing key has written its row yet; wait a second, or set INSPAN_ANCHOR_KEY", runID, errNoAnchor)
	}
	b, err := json.MarshalIndent(info.Anchor, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the anchor: %w", err)
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the anchor: %w", err)
	}
	return nil
}

var errNoAnchor = errors.New("no anchor")

// writeBundle writes a run to a file.
func writeBundle(ctx context.Context, a *app.App, c *client.Client, runID, file string,
	leave operator.Leave) (err error) {
	temp, err := os.MkdirTemp("", "inspan-bundle-*")
	if err != nil {
		return fmt.Errorf("make a bundle: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // a temporary folder
	dir, err := archive.Create(temp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	dir.OnProgress(progress(a))
	m, err := operator.Save(ctx, c, dir, runID, leave, a.Me())
	if errors.Is(err, client.ErrOpen) {
		return app.Usage("%w: --move ends it here so that it goes on only elsewhere, --fork lets it go on here too", err)
	}
	if err != nil {
		return err
	}
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	err = errors.Join(archive.Pack(ctx, f, dir), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the bundle: %w", err), os.Remove(part))
	}
	if a.JSON {
		return a.PrintJSON(m)
	}
	fmt.Fprintf(a.Out, "Run %s, %s, %s: %s\n", runID, m.Status, view.Plural(int(m.Sequence), "event"), file) //nolint:gosec // far below the limit
	reportBundle(a, m)
	fmt.Fprintf(a.Out, "Bring it to a station with: inspan import %s --station NAME --server URL\n", file)
	return nil
}

// exportConversation prints the result of a run with its whole conversation (LOOP-12); of one that has not ended, the
// conversation so far.
func exportConversation(ctx context.Context, a *app.App, c *client.Client, id string) error {
	out, err := c.Runs().Outcome(ctx, id)
	if errors.Is(err, client.ErrOpen) {
		out.Conversation, err = c.Runs().Conversation(ctx, id)
	}
	if errors.Is(err, client.ErrNotFound) {
		return app.NoRun(id)
	}
	if err != nil {
		return err
	}
	return a.PrintJSON(out)
}
