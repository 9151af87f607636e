package workitems

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/itemlist"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// addCommand is inspan work add.
type addCommand struct {
	App            *app.App
	spec           events.WorkSpec
	accept, labels []string
	id, from, by   string
	dry            bool
}

func addCmd(a *app.App) *cobra.Command {
	c := &addCommand{App: a}
	cmd := &cobra.Command{
		Use: "add TITLE | --from FILE", Short: "Make a work item, or those of a file",
		Long: `Makes a work item. What it says is data for its agent: nothing in it becomes an instruction of the harness.

--from reads many from a file, - from standard input: issues of GitHub as JSON (gh issue list --json number,title,body,labels,url,state, or
the answer of its REST API), or a Markdown check list, whose open items "- [ ] TEXT" become work items with the lines below them. Closed issues,
pull requests and items that are checked are left out. The id of an item follows from the issue, or from its text: the same file read again makes
nothing twice.`,
		Example: "  inspan work add \"Fix the login\" --text \"It fails with an empty password.\" --accept \"go test ./login\"\n" +
			"  gh issue list --json number,title,body,labels,url,state | inspan work add --from -\n  inspan work add --from tasks.md --label tasks\n" +
			"  inspan work add \"Release 2\" --item fix-the-login-k3v9 --item sign-up-x7q2",
		Args: app.ArgsBetween(0, 1), RunE: a.Connected(c.run),
	}
	f := cmd.Flags()
	f.StringVar(&c.spec.Text, "text", "", "what there is to do, in more words")
	f.StringVar(&c.spec.Acceptance, "acceptance", "", "when it is done, in words for the agent")
	f.StringArrayVar(&c.accept, "accept", nil,
		"command that decides that it is done: it must exit with 0 on a copy of the files; may be repeated")
	f.StringArrayVar(&c.labels, "label", nil, "label; may be repeated")
	f.StringVar(&c.spec.Source, "source", "", "where it comes from, such as an address")
	f.StringArrayVar(&c.spec.Items, "item", nil,
		"item of a convoy, which is closed when all of its items are; may be repeated")
	f.StringVar(&c.id, "id", "", "id of the item; made of the title if not given")
	f.StringVar(&c.from, "from", "", "file with issues of GitHub as JSON, or a Markdown check list; - for standard input")
	f.BoolVar(&c.dry, "dry-run", false, "with --from: print what would be made, and make nothing")
	f.StringVar(&c.by, "by", a.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

// made is what became of one item, for programs.
type made struct {
	Work    string `json:"work"`
	Title   string `json:"title"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
}

func (a *addCommand) run(ctx context.Context, c *client.Client, args []string) error {
	if a.from != "" {
		if len(args) > 0 || a.id != "" || a.spec.Text != "" || a.spec.Acceptance != "" || a.spec.Source != "" {
			return app.Usage("--from says all of its items but --label and --accept: leave the title and the other flags out")
		}
		return a.many(ctx, c)
	}
	if len(args) != 1 || a.dry {
		return app.Usage("want a title, or --from FILE, which --dry-run goes with: inspan work add \"TITLE\"")
	}
	spec := a.spec
	spec.Title = args[0]
	id := a.id
	if id == "" {
		id = itemlist.Slug(spec.Title, 32) + "-" + strings.ToLower(rand.Text()[:6])
	}
	ctl, err := a.control(spec)
	if err == nil {
		err = events.CheckID("work item", id)
	}
	if err != nil {
		return app.Usage("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	w, err := client.NewWorkItems(c).Control(ctx, id, ctl)
	if err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(w)
	}
	fmt.Fprintf(a.App.Out, "Work item %s. Give it to an agent: inspan sling %s AGENT\n", a.App.Paint().Bold(w.ID), w.ID)
	return nil
}

func (a *addCommand) control(spec events.WorkSpec) (events.WorkControl, error) {
	for _, command := range a.accept {
		if spec.Accept == nil {
			spec.Accept = &events.Accept{}
		}
		spec.Accept.Checks = append(spec.Accept.Checks, events.Check{Kind: events.CheckCommand, Run: command})
	}
	spec.Labels = append(spec.Labels[:len(spec.Labels):len(spec.Labels)], a.labels...)
	ctl := events.WorkControl{Action: work.Add, Spec: &spec, By: a.by}
	return ctl, errors.Join(ctl.Check(), work.Check(ctl))
}

// many makes the items of a file. One that exists is left as it is.
func (a *addCommand) many(ctx context.Context, c *client.Client) error {
	data, err := a.read()
	if err != nil {
		return err
	}
	found, err := itemlist.Read(a.from, data)
	if err != nil {
		return app.Usage("%w", err)
	}
	controls := make([]events.WorkControl, len(found))
	for i, item := range found { // nothing is made of a file that is wrong
		if controls[i], err = a.control(item.Spec); err != nil {
			return app.Usage("%s: %s (%s): %w", a.from, item.ID, view.Clip(item.Spec.Title, 60), err)
		}
	}
	l := app.Listing{Heads: []string{"ITEM", "OUTCOME", "TITLE"}, Empty: a.from + " has no open items."}
	for i, item := range found {
		m := made{Work: item.ID, Title: item.Spec.Title, Outcome: "made"}
		if a.dry {
			m.Outcome = "would be made"
		} else if err := a.one(ctx, c, item.ID, controls[i], &m); err != nil {
			return fmt.Errorf("%d of %d items are done: %w", i, len(found), err)
		}
		l.Add(m.Work, m, m.Work, m.Outcome, view.Clip(m.Title, 80))
	}
	return a.App.Print(l)
}

func (a *addCommand) one(ctx context.Context, c *client.Client, id string, ctl events.WorkControl, m *made) error {
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	_, err := client.NewWorkItems(c).Control(ctx, id, ctl)
	if no, ok := errors.AsType[*client.RefusedError](err); ok && no.Code == work.Exists {
		m.Outcome, m.Reason = "exists", no.Reason
		return nil
	}
	return err
}

func (a *addCommand) read() ([]byte, error) {
	in := a.App.In
	if a.from != "-" {
		f, err := os.Open(a.from)
		if err != nil {
			return nil, app.Usage("%w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, itemlist.MaxBytes+1))
	if err == nil && len(data) > itemlist.MaxBytes {
		err = fmt.Errorf("%s has more than %d bytes", a.from, itemlist.MaxBytes)
	}
	if err != nil {
		return nil, app.Usage("%w", err)
	}
	return data, nil
}
