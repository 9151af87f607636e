package steer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// retryCommand is inspan retry.
type retryCommand struct {
	App          *app.App
	withoutFiles bool
}

// Retry makes inspan retry.
func Retry(a *app.App) *cobra.Command {
	c := &retryCommand{App: a}
	cmd := &cobra.Command{
		Use:   "retry RUN",
		Short: "Go on with a failed run, as a new run that begins before the failure",
		Long: `Starts a new run that begins where RUN stood before its first step failed, or before it was stopped or timed out, with
its plan, conversation, results and used budget, and with a deadline of its own. RUN stays as it is. The new run works in the
directory of RUN, or in its newest snapshot; files that were changed since then are named. Where the files are lost, because the
workspace was removed or ephemeral or belongs to a session, the command refuses: --without-files goes on in a directory of its own, and
the agent is informed. A failed run has one retry: a second call shows it, and where that one has failed, goes on with it.`,
		Example: "  inspan retry run-k3v9x2m1qa\n  inspan retry run-k3v9x2m1qa --without-files\n  inspan retry run-k3v9x2m1qa --json | jq -r .run",
		Args:    app.Args(1),
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().BoolVar(&c.withoutFiles, "without-files", false,
		"go on in a new, empty directory where the files of RUN are lost")
	return cmd
}

func (a *retryCommand) run(ctx context.Context, c *client.Client, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	r, err := c.Runs().Retry(ctx, client.Retry{Run: args[0], By: a.App.Me(), WithoutFiles: a.withoutFiles})
	if err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(r)
	}
	s, err := c.State(ctx, r.Run)
	if err != nil {
		return err
	}
	done := fmt.Sprintf("Retried %s as %s after event %d", r.Of, r.Run, r.At)
	if r.Existing {
		done = fmt.Sprintf("%s is retried already, as %s after event %d", r.Of, r.Run, r.At)
	}
	next := "follow it with inspan logs " + r.Run + " --follow"
	if a.App.Local { // no service works on it when this program has ended
		next = "inspan up --local lets it go on"
	}
	return printRun(a.App, s, fmt.Sprintf("%s, in %s, %s; %s.", done, workspaceOf(r), spent(r, s.Options), next))
}

// workspaceOf says where a retry works, and with which files.
func workspaceOf(r client.Retried) string {
	switch {
	case !r.SameWorkspace:
		return "a new workspace"
	case r.Files.Files == events.FilesSaved:
		return "the same workspace, from its newest snapshot"
	case r.Files.Files == events.FilesThere && len(r.Files.Changed) == 0 && !r.Files.More:
		return "the same workspace, whose files were not changed since"
	case len(r.Files.Changed) > 0:
		names := make([]string, 0, len(r.Files.Changed)+1)
		for _, name := range r.Files.Changed {
			names = append(names, view.Clip(name, maxNamed))
		}
		if r.Files.More {
			names = append(names, "and more")
		}
		return "the same workspace, with the files as they are now, changed since: " + strings.Join(names, ", ")
	}
	return "the same workspace, with the files as they are now"
}

// maxNamed is how much of a file's name is shown.
const maxNamed = 80

// spent says what a retry begins with of its budget, and how long it may work.
func spent(r client.Retried, o events.Options) string {
	text := fmt.Sprintf("with %s tokens, %s", view.Count(r.Tokens), view.Plural(r.ToolCalls, "tool call"))
	if r.Cost > 0 {
		text += " and " + r.Cost.String()
	}
	text += " used"
	if o.TimeoutMS > 0 {
		text += " and " + view.Span(time.Duration(o.TimeoutMS)*time.Millisecond) + " to work"
	}
	return text
}
