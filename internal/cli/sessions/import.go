package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// importCommand is inspan session import.
type importCommand struct {
	App *app.App
	by  string
}

func importCmd(a *app.App) *cobra.Command {
	c := &importCommand{App: a}
	cmd := &cobra.Command{
		Use: "import NAME FILE", Short: "Give a session the conversation of a file, such as a .history.json",
		Long: `Reads a conversation and makes it the history of a session, which is made where there is none; the next input goes on with it.
A session that has a conversation keeps it: the import is refused. FILE is - for the standard input.

The file is JSON: an array of messages, or an object with them as "messages", as "inspan session history --json" and
.harness/history.json have it. A message has role (user, assistant, tool) and content; tool_calls and tool_results, or
tool_call_id and name with the result as content; content may be a list of parts of text, toolRequest and toolResponse.`,
		Example: "  inspan session import parser .history.json\n  inspan session history parser --json | inspan session import copy -",
		Args:    app.Args(2),
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.by, "by", a.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

func (a *importCommand) run(ctx context.Context, c *client.Client, args []string) error {
	data, err := conversation(a.App, args[1])
	if err != nil {
		return err
	}
	messages, err := history.Read(data)
	if err != nil {
		return app.Usage("%s: %w", args[1], err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	e, err := c.Sessions().Control(ctx, args[0], events.SessionControl{Action: "import", Messages: messages, By: a.by})
	if err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(e)
	}
	fmt.Fprintf(a.App.Out, "Session %s has the conversation: %s. Go on with: inspan repl AGENT --session %s\n", e.ID,
		view.Plural(e.Messages, "message"), e.ID)
	return nil
}

// conversation reads the file, at most a little more than it may have.
func conversation(a *app.App, path string) (data []byte, err error) {
	in := a.In
	if path != "-" {
		info, err := os.Stat(path)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is no file")
		}
		if err != nil {
			return nil, app.Usage("import: %w", err)
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, app.Usage("import: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		in = f
	}
	if data, err = io.ReadAll(io.LimitReader(in, history.MaxFile+1)); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	return data, nil
}
