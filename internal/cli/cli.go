// Package cli is the inspan program: commands for people and scripts, on the same subjects as every other client. It
// puts the tree of commands together; each group of commands is a package below it, and internal/cli/app has what they
// share.
//
// Promises: every command has --help with examples and, where it prints data, --json. Text for people is coloured on a
// terminal and plain anywhere else or with NO_COLOR. Text of others cannot control the terminal. Data goes to standard
// output, everything else to standard error. An error says what to do next. Exit codes are: 0 done, 1 failed, 2 the
// command line is wrong, 3 the run is paused or waits for a person, 4 the station refused it or it was not accepted, 5
// there is no such thing, 130 interrupted.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/acp"
	"github.com/inspan/inspan/internal/cli/adopting"
	"github.com/inspan/inspan/internal/cli/agents"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/artifacts"
	"github.com/inspan/inspan/internal/cli/away"
	"github.com/inspan/inspan/internal/cli/backups"
	"github.com/inspan/inspan/internal/cli/budgets"
	"github.com/inspan/inspan/internal/cli/colony"
	"github.com/inspan/inspan/internal/cli/config"
	"github.com/inspan/inspan/internal/cli/contexts"
	"github.com/inspan/inspan/internal/cli/dead"
	"github.com/inspan/inspan/internal/cli/dispatch"
	"github.com/inspan/inspan/internal/cli/doctor"
	"github.com/inspan/inspan/internal/cli/firstrun"
	"github.com/inspan/inspan/internal/cli/follow"
	"github.com/inspan/inspan/internal/cli/formulas"
	"github.com/inspan/inspan/internal/cli/guards"
	"github.com/inspan/inspan/internal/cli/halts"
	"github.com/inspan/inspan/internal/cli/harnesses"
	"github.com/inspan/inspan/internal/cli/lineedit"
	"github.com/inspan/inspan/internal/cli/mail"
	"github.com/inspan/inspan/internal/cli/mcp"
	"github.com/inspan/inspan/internal/cli/merge"
	"github.com/inspan/inspan/internal/cli/moves"
	"github.com/inspan/inspan/internal/cli/natsaccounts"
	"github.com/inspan/inspan/internal/cli/notices"
	"github.com/inspan/inspan/internal/cli/push"
	"github.com/inspan/inspan/internal/cli/queues"
	"github.com/inspan/inspan/internal/cli/repl"
	"github.com/inspan/inspan/internal/cli/replaytest"
	"github.com/inspan/inspan/internal/cli/rotate"
	"github.com/inspan/inspan/internal/cli/runs"
	"github.com/inspan/inspan/internal/cli/runtimes"
	"github.com/inspan/inspan/internal/cli/schedules"
	"github.com/inspan/inspan/internal/cli/serve"
	"github.com/inspan/inspan/internal/cli/served"
	"github.com/inspan/inspan/internal/cli/sessions"
	"github.com/inspan/inspan/internal/cli/shipped"
	"github.com/inspan/inspan/internal/cli/space"
	"github.com/inspan/inspan/internal/cli/stations"
	"github.com/inspan/inspan/internal/cli/steer"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/cli/tokens"
	"github.com/inspan/inspan/internal/cli/top"
	"github.com/inspan/inspan/internal/cli/transfer"
	"github.com/inspan/inspan/internal/cli/trusted"
	"github.com/inspan/inspan/internal/cli/users"
	"github.com/inspan/inspan/internal/cli/verify"
	"github.com/inspan/inspan/internal/cli/views"
	"github.com/inspan/inspan/internal/cli/webhooks"
	"github.com/inspan/inspan/internal/cli/workitems"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
)

// Main runs a command line and returns the exit code.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return mainAt(ctx, "nats://127.0.0.1:4222", args, in, out, errOut)
}

// mainAt is Main with the server of those who name none.
func mainAt(ctx context.Context, server string, args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app.App{Server: server, Printer: app.Printer{Out: out, Err: errOut, Term: terminal.ScreenOf(out)}, In: in,
		Keys: &lineedit.Keyboard{In: in}, Signals: repl.Signals}
	a.Layers, a.BadFiles = service.Discover()
	root := root(a)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) { // no other start pays for it
		a.Complete(root)
	}
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return app.ExitDone
	}
	if text := err.Error(); text != "" && (a.JSON || slices.Contains(args, "--json")) {
		fmt.Fprintln(errOut, app.FailureOf(err).Line())
	} else if text != "" {
		text = "inspan: " + terminal.Sanitize(text) + app.Hint(err) // it may quote what a model wrote
		fmt.Fprintln(errOut, wrapForTerminal(errOut, text))
	}
	return app.Code(err)
}

// wrapForTerminal breaks the lines of a message between words where they are read on a terminal. One that ends with a
// command to copy stays whole.
func wrapForTerminal(out io.Writer, text string) string {
	screen := terminal.ScreenOf(out)
	if !screen.TTY {
		return text
	}
	width, _ := screen.Size()
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, follow.SeeMore) {
			lines[i] = ansi.Wordwrap(line, max(width, 20), "")
		}
	}
	return strings.Join(lines, "\n")
}

// Root returns the tree of commands, for the generated reference.
func Root() *cobra.Command {
	a := &app.App{Printer: app.Printer{Out: io.Discard, Err: io.Discard}, In: strings.NewReader("")}
	return root(a)
}

// bare is inspan without a command.
func bare(a *app.App) func(*cobra.Command, []string) error {
	return func(root *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return app.UnknownCommand(root, args[0])
		case !a.CanAsk():
			return root.Help()
		}
		return firstrun.Start(root.Context(), a, func(ctx context.Context, args ...string) error {
			root.SetArgs(args)
			return root.ExecuteContext(ctx)
		})
	}
}

func root(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "inspan",
		Short: "A durable harness for AI agents on NATS JetStream",
		Long: `Inspan runs AI agents through work that takes hours: every step, turn and tool call is an event on a JetStream log,
any service may die at any moment, and people decide where it matters.

At a terminal, inspan alone sets you up the first time, and then talks to an agent about the directory you are in. A station is
started with "inspan up", or by "inspan run" for a single run.

RUN is the id of a run, the beginning or the end of one that fits no other, or "last" for the newest that
is no child of another one.

Exit codes: 0 done, 1 failed, 2 wrong command line, 3 paused or waiting for a person, 4 refused by the station
or not accepted (inspan trust), 5 no such thing, 130 interrupted.`,
		Example: `  inspan
  inspan demo
  inspan up --store .inspan --agents examples/agents --scripts examples/scripts
  inspan run fixer "make the tests pass" --session demo
  inspan gates
  inspan approve run-k3v9x2m1qa/g-1a2b3c4d5e6f
  inspan why run-k3v9x2m1qa`,
		SilenceUsage: true, SilenceErrors: true, Version: service.Version(), Args: cobra.ArbitraryArgs,
	}
	a.Folder = a.Lookup("INSPAN_STORE", app.DefaultStore)
	a.Kept, a.Builtin = merge.Kept(a), firstrun.Agents(a)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(a.CheckForm(cmd), a.CheckFiles(cmd)); err != nil {
			return err
		}
		return a.CheckFlags(cmd)
	}
	root.RunE = bare(a)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return app.Usage("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	f := root.PersistentFlags()
	f.StringVar(&a.Server, "server", a.Lookup("INSPAN_NATS_URL", a.Server),
		"address of the station's NATS server (NATS_URL); without it, the station that runs in this project, else this one")
	f.StringVar(&a.ContextFlag, "context", "", "context to reach the station with (INSPAN_NATS_CONTEXT); inspan context lists them")
	f.StringVar(&a.Creds, "creds", a.Lookup("INSPAN_NATS_CREDS", ""), "NATS credentials file (NATS_CREDS)")
	f.StringVar(&a.Station, "station", a.Lookup("INSPAN_STATION", client.DefaultStation),
		"name of the station (INSPAN_STATION)")
	f.BoolVar(&a.Local, "local", a.Lookup("INSPAN_NATS_ENABLED", "") == "false",
		"do without NATS: the station is a file in the folder that INSPAN_STORE names, .inspan if none, and one program uses it at a time (INSPAN_NATS_ENABLED=false)")
	f.BoolVar(&a.JSON, "json", false, "print JSON, errors too: -o json")
	f.StringVarP(&a.Form, "output", "o", "", "form of the output: json, yaml, and of lists wide or name")
	f.BoolVar(&a.UTC, "utc", false, "show times in UTC instead of the local zone")
	f.DurationVar(&a.Wait, "wait", 10*time.Second, "how long to wait for an answer of the station")
	f.StringVar(&a.LogLevel, "log", a.Lookup("INSPAN_LOG_LEVEL", "warn"),
		"log level of a station in this process: debug, info, warn, error")
	addCommands(a, root)
	root.SetCompletionCommandGroupID("care")
	root.SetHelpCommandGroupID("care")
	app.WrapHelp(a, root)
	return root
}

// addCommands adds all commands, in the groups that the help has.
func addCommands(a *app.App, root *cobra.Command) {
	root.AddGroup(&cobra.Group{ID: "start", Title: "Start:"}, &cobra.Group{ID: "look", Title: "Look:"},
		&cobra.Group{ID: "decide", Title: "Decide and steer:"}, &cobra.Group{ID: "care", Title: "Care:"})
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	files := agents.Files(a)
	files.AddCommand(shipped.Catalog(a), shipped.Try(a), push.Command(a))
	add("start", firstrun.Login(a), config.Init(a), files, dispatch.Demo(a), serve.Up(a), dispatch.Run(a),
		repl.Command(a, inConversation), acp.Command(a), formulas.Command(a),
		merge.Merge(a), merge.Undo(a), merge.Clean(a), trusted.Command(a))
	tools := agents.Tools(a)
	tools.AddCommand(served.Commands(a, agents.Builtin())...)
	add("look", top.Command(a), space.Command(a, backups.MakeSpace(a)), stations.Command(a, moves.Command(a)), colony.Command(a), notices.Command(a), runs.List(a),
		runs.Inspect(a), runs.Tree(a), runs.Watch(a), runs.Logs(a), runs.Why(a), transfer.Export(a),
		colony.Extend(a, agents.List(a)), tools, mcp.Command(a), runtimes.Command(a), guards.Command(a),
		config.Command(a), contexts.Command(a), runs.Cost(a), artifacts.Command(a), runs.Checkpoints(a), runs.Report(a),
		runs.Branches(a), merge.Diff(a), sessions.Command(a), harnesses.Command(a))
	add("decide", halts.Halt(a), halts.Release(a), budgets.Command(a), colony.Seance(a), colony.Tier(a), steer.Gates(a), away.Command(a),
		schedules.Command(a), webhooks.Command(a), workitems.Command(a), mail.Command(a), queues.Command(a),
		workitems.Sling(a), workitems.Deliver(a), dispatch.GoesOn(a, steer.Answer(a, "approve")),
		dispatch.GoesOn(a, steer.Answer(a, "reject")), steer.Grants(a), steer.Fork(a),
		dispatch.GoesOn(a, steer.Retry(a)), steer.Control(a, "pause"), dispatch.GoesOn(a, steer.Control(a, "resume")),
		steer.Revise(a), steer.Control(a, "stop"), steer.Autonomy(a), steer.Signal(a))
	add("care", serve.Setup(a), serve.Callout(a), verify.Keygen(a), doctor.Command(a), verify.Audit(a), replaytest.Command(a),
		backups.Backup(a), backups.Forget(a), transfer.Restore(a, backups.Fill),
		adopting.Extend(a, transfer.Import(a)), views.Rebuild(a),
		dead.Command(a), users.Command(a), natsaccounts.Command(a), tokens.Command(a),
		rotate.Command(a), versionCmd(a))
}

// inConversation are the commands that a conversation has, too.
func inConversation(a *app.App) []*cobra.Command {
	return []*cobra.Command{merge.Diff(a), merge.Merge(a), merge.Undo(a), runs.Why(a), agents.List(a), sessions.Command(a)}
}
