package sessions

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// historyCommand is inspan session history.
type historyCommand struct {
	App *app.App
}

func historyCmd(a *app.App) *cobra.Command {
	c := &historyCommand{App: a}
	return &cobra.Command{
		Use: "history NAME", Short: "Print the conversation of a session",
		Example: "  inspan session history parser\n  inspan session history parser --json > parser.json", Args: app.Args(1),
		RunE: a.Connected(c.run),
	}
}

func (a *historyCommand) run(ctx context.Context, c *client.Client, args []string) error {
	talk, err := c.Sessions().History(ctx, args[0])
	if err != nil {
		return noSession(err)
	}
	if a.App.JSON {
		return a.App.PrintJSON(talk)
	}
	printConversation(a.App, talk)
	return nil
}

// printConversation prints a conversation for people.
func printConversation(a *app.App, talk client.Conversation) {
	p := a.Paint()
	for _, m := range talk.Messages {
		head := m.Role
		if m.Role == events.RoleAssistant && m.Metadata.Agent != "" {
			head = m.Metadata.Agent
		}
		if !m.At.IsZero() {
			head += "  " + p.Dim(m.At.In(a.Zone()).Format("2006-01-02 15:04:05"))
		}
		if m.Role != events.RoleTool {
			fmt.Fprintf(a.Out, "%s\n", p.Bold(head))
		}
		if m.Content != "" {
			fmt.Fprintf(a.Out, "%s\n", terminal.Sanitize(m.Content))
		}
		for _, call := range m.Calls {
			fmt.Fprintf(a.Out, "%s\n", p.Dim("  "+view.Clip(call.Name+" "+string(call.Input), 200)))
		}
		for _, r := range m.Results {
			word := "ok"
			if r.Failed {
				word = "failed"
			}
			fmt.Fprintf(a.Out, "%s\n", p.Dim("  "+r.Name+" "+word+": "+view.Clip(r.Output, 200)))
		}
		if m.Role != events.RoleAssistant || len(m.Calls) == 0 {
			fmt.Fprintln(a.Out)
		}
	}
	fmt.Fprintf(a.Out, "%s\n", p.Dim(view.Plural(len(talk.Messages), "message")+", "+view.Count(talk.TotalTokens)+
		" tokens"))
}
