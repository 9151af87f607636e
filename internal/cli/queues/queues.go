// Package queues has inspan queue: the merge queues that land what was delivered.
package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/mergequeue"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Command makes inspan queue and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "queue", Short: "Land delivered branches, one after the other, each tested as merged",
		Long: `A merge queue lands delivered branches on one branch of a repository. It takes one after the other: a run merges it into the target,
checks the merged tree and pushes that. Where the target moved meanwhile, the branch is tested again; where it conflicts, breaks
the checks or is refused, it bounces: its work item is free again, and its next agent reads why.`,
		Example: "  inspan queue add main --repo https://github.com/you/project --branch main --agent lander --accept \"make test\"\n" +
			"  inspan deliver fix-the-login-k3v9 fixer --queue main\n  inspan queue list\n  inspan queue show main\n" +
			"  inspan queue drop main fix-the-login-k3v9 --reason \"not in this release\"",
		Args: cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(addCmd(a), listCmd(a), showCmd(a),
		entryCmd(a, mergequeue.Retry, "Try an entry that waits for its time at once"),
		entryCmd(a, mergequeue.Drop, "Take an entry out of a queue: its delivery bounces"))
	return cmd
}

// control is a command that publishes one control.
type control struct {
	App    *app.App
	ctl    events.QueueControl
	spec   events.QueueSpec
	checks []string
}

func addCmd(a *app.App) *cobra.Command {
	c := &control{App: a, ctl: events.QueueControl{Action: mergequeue.Add}}
	cmd := &cobra.Command{Use: "add QUEUE", Short: "Make a merge queue",
		Long: `Makes a merge queue. Its runs have the sandbox and the git settings of --agent, and ask no model. Where git.require_approval holds for
that agent, as it does by default, a person approves each push to the target.`,
		Example: "  inspan queue add main --repo https://github.com/you/project --branch main --agent lander --accept \"make test\"",
		Args:    app.Args(1), RunE: a.Connected(c.run)}
	f := cmd.Flags()
	f.StringVar(&c.spec.Repo, "repo", "", "git repository, by https or ssh")
	f.StringVar(&c.spec.Branch, "branch", "main", "branch that is landed on")
	f.StringVar(&c.spec.Agent, "agent", "", "definition whose sandbox and git settings its runs have")
	f.StringArrayVar(&c.checks, "accept", nil, "command that decides about the merged tree; may be repeated")
	f.StringVar(&c.spec.ReviewTo, "review-to", "", "address that gets the notices for reviewers")
	f.StringVar(&c.spec.Oversight, "oversight", "", "address that gets the notices for oversight")
	f.BoolVar(&c.spec.KeepBranches, "keep-branches", false,
		"leave branches at the remote that have landed; else each is removed once it is proven merged")
	f.StringVar(&c.ctl.By, "by", a.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

func entryCmd(a *app.App, action, title string) *cobra.Command {
	c := &control{App: a, ctl: events.QueueControl{Action: action}}
	cmd := &cobra.Command{Use: action + " QUEUE ITEM", Short: title,
		Example: "  inspan queue " + action + " main fix-the-login-k3v9",
		Args:    app.Args(2), RunE: a.Connected(c.run)}
	f := cmd.Flags()
	f.StringVar(&c.ctl.Reason, "reason", "", "why; recorded in the log of the queue")
	f.StringVar(&c.ctl.By, "by", a.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

func (c *control) run(ctx context.Context, cl *client.Client, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, c.App.Wait)
	defer cancel()
	ctl := c.ctl
	if ctl.Action == mergequeue.Add {
		spec := c.spec
		for _, command := range c.checks {
			if spec.Accept == nil {
				spec.Accept = &events.Accept{}
			}
			spec.Accept.Checks = append(spec.Accept.Checks, events.Check{Kind: events.CheckCommand, Run: command})
		}
		ctl.Spec = &spec
	} else {
		ctl.Work = args[1]
	}
	if err := errors.Join(ctl.Check(), mergequeue.Check(ctl)); err != nil {
		return app.Usage("%w", err)
	}
	q, err := client.NewMergeQueues(cl).Control(ctx, args[0], ctl)
	if err != nil {
		return err
	}
	if c.App.JSON {
		return c.App.PrintJSON(q)
	}
	switch ctl.Action {
	case mergequeue.Add:
		fmt.Fprintf(c.App.Out, "Merge queue %s lands on %s of %s. Deliver to it: inspan deliver ITEM AGENT --queue %s\n", q.ID,
			q.Spec.Branch, q.Spec.Repo, q.ID)
		if by, unusual := protocol(q.Spec.Repo); unusual {
			fmt.Fprintf(c.App.Out, "Its runs reach %s only where the toolrunner has %q in INSPAN_GIT_PROTOCOLS (git.protocols), which by default is https,ssh.\n", q.Spec.Repo, by)
		}
	case mergequeue.Retry:
		fmt.Fprintf(c.App.Out, "The entry of work item %s is tried at once. See it: inspan queue show %s\n", ctl.Work, q.ID)
	case mergequeue.Drop:
		fmt.Fprintf(c.App.Out, "The entry of work item %s is out of the queue, and the item is free. Its branch is kept.\n",
			ctl.Work)
	}
	return nil
}

// protocol is how the runs of a queue reach its repository; unusual is true where toolrunners refuse it unless they are
// set to. That is a setting of theirs, which no other service has.
func protocol(repo string) (by string, unusual bool) {
	scheme, _, ok := strings.Cut(repo, "://")
	switch {
	case !ok && (strings.HasPrefix(repo, "/") || strings.HasPrefix(repo, ".")):
		return "file", true
	case !ok:
		return "ssh", false // host:path
	}
	return scheme, scheme != "https" && scheme != "ssh"
}

// listCommand is inspan queue list.
type listCommand struct {
	App   *app.App
	watch bool
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the merge queues, with what each tests now",
		Example: "  inspan queue list\n  inspan queue list --watch\n  inspan queue list -o name", Args: app.Args(0),
		RunE: a.Connected(c.run)}
	app.WatchFlag(cmd, &c.watch)
	return cmd
}

func (a *listCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	return a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) {
		l := app.Listing{Heads: []string{"QUEUE", "BRANCH", "WAITING", "TESTING", "RUN", "LANDED", "BOUNCED", "REPOSITORY"},
			Empty: `No merge queues. Make one with: inspan queue add NAME --repo URL --branch main --agent AGENT --accept "make test"`}
		all, err := client.NewMergeQueues(c).List(ctx)
		for _, q := range all {
			testing, run, waiting := "-", "-", len(q.Entries)
			if e, is := q.Taken(); is {
				testing, run = e.Work, e.Landing
				waiting--
			}
			ended := map[events.EntryState]int{}
			for _, e := range q.Done {
				ended[e.State]++
			}
			l.Add(q.ID, q, q.ID, q.Spec.Branch, fmt.Sprint(waiting), testing, run, fmt.Sprint(ended[events.EntryIsLanded]),
				fmt.Sprint(ended[events.EntryBounced]), view.Clip(q.Spec.Repo, 80))
		}
		return l, err
	})
}

// showCommand is inspan queue show.
type showCommand struct {
	App   *app.App
	watch bool
}

func showCmd(a *app.App) *cobra.Command {
	c := &showCommand{App: a}
	cmd := &cobra.Command{Use: "show QUEUE",
		Short:   "Show the entries of a merge queue: those that wait, and the last that have ended",
		Example: "  inspan queue show main\n  inspan queue show main --json | jq -r '.done[].reason'", Args: app.Args(1),
		RunE: a.Connected(c.run)}
	app.WatchFlag(cmd, &c.watch)
	return cmd
}

func (a *showCommand) run(ctx context.Context, c *client.Client, args []string) error {
	if a.App.JSON {
		q, err := a.get(ctx, c, args[0])
		if err != nil {
			return err
		}
		return a.App.PrintJSON(q)
	}
	return a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) {
		l := app.Listing{Heads: []string{"ENTRY", "ITEM", "STATE", "ATTEMPT", "BRANCH", "COMMIT", "RUN", "REASON"},
			Empty: "Nothing was delivered to this queue yet. Deliver to it: inspan deliver ITEM AGENT --queue " + args[0]}
		q, err := a.get(ctx, c, args[0])
		if err != nil {
			return l, err
		}
		for _, e := range slices.Concat(q.Entries, q.Done) {
			l.Add(e.Work, e, fmt.Sprint(e.Number), e.Work, a.state(e), fmt.Sprint(e.Attempt), view.Clip(e.Branch, 60),
				fmt.Sprintf("%.12s", e.Commit), orDash(e.Landing), a.why(e))
		}
		return l, nil
	})
}

func (a *showCommand) get(ctx context.Context, c *client.Client, id string) (events.MergeQueue, error) {
	q, err := client.NewMergeQueues(c).Get(ctx, id)
	if errors.Is(err, client.ErrNotFound) {
		return q, fmt.Errorf("%w; inspan queue list lists those of the station", err)
	}
	return q, err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (a *showCommand) state(e events.QueueEntry) string {
	p := a.App.Paint()
	switch e.State {
	case events.EntryIsTaken:
		return p.Yellow("testing")
	case events.EntryIsLanded:
		return p.Green("landed")
	case events.EntryBounced, events.EntryDropped:
		return p.Red(string(e.State))
	case events.EntryWaits:
	}
	return string(e.State)
}

// why is what is shown of an entry beside its state.
func (a *showCommand) why(e events.QueueEntry) string {
	switch {
	case e.Landed != "":
		return fmt.Sprintf("%s has it at %.12s", e.Target, e.Landed)
	case e.Code == "":
		return "-"
	case e.State == events.EntryWaits && !e.NotBefore.IsZero():
		return fmt.Sprintf("%s, again at %s", e.Code, e.NotBefore.In(a.App.Zone()).Format("15:04:05"))
	}
	return view.Clip(e.Code+": "+e.Reason, 160)
}
