// Package cli is the inspan program: commands for people and scripts, on the same subjects as everybody else.
//
// Promises: every command has --help with examples and, where it prints data, --json. What is for people is in colour
// on a terminal and plain anywhere else or with NO_COLOR. What others wrote can not drive the terminal. Data goes to
// standard output, everything else to standard error. An error says what to do next. Exit codes are: 0 done, 1 failed,
// 2 the command line is wrong, 3 the run is paused or waits for a person, 4 the station refused it, 5 there is no such
// thing, 130 interrupted.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPaused      = 3
	exitRefused     = 4
	exitUnknown     = 5
	exitInterrupted = 130
)

// exit is an error that carries its own exit code; a nil cause is printed as nothing.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// exitWith is an error that ends the program with a code; err may be nil.
func exitWith(code int, err error) error { return &exit{code, err} }

// usage is an error of the command line.
func usage(format string, args ...any) error { return exitWith(exitUsage, fmt.Errorf(format, args...)) }

// defaultStore is the folder of a station where none is named.
const defaultStore = ".inspan"

// printer prints for people and programs.
type printer struct {
	out, err io.Writer
	// json has data printed as JSON, utc times in UTC.
	json, utc bool
	// term is what out is.
	term screen
}

// settings are what the environment and the configuration files say.
type settings struct {
	layers service.Layers
	// badFiles is what is wrong with the files.
	badFiles error
}

// app is what the commands of one invocation share.
type app struct {
	printer
	settings
	in io.Reader
	// keys is what a person types.
	keys    *keyboard
	server  string
	creds   string
	station string
	// alone does without NATS: the station is a local store in folder.
	alone    bool
	folder   string
	wait     time.Duration
	logLevel string
	// stream shows text as it comes instead of a tree.
	stream bool
	// signals gives each Ctrl+C until stop is called, where it does not end the program.
	signals func() (breaks <-chan os.Signal, stop func())
	// cmd is the command of this invocation.
	cmd *cobra.Command
	// record is how the station was found, where the project has one that runs.
	record station.Record
	// ownStore is the folder of a station that this process started for one run.
	ownStore string
}

// Main runs a command line and returns the exit code.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app{printer: printer{out: out, err: errOut, term: screenOf(out)}, in: in, keys: &keyboard{in: in}, signals: signals}
	a.layers, a.badFiles = service.Discover()
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if text := err.Error(); text != "" {
		text = "inspan: " + harmless(text) + whereToLook(err) // it may quote what a model wrote
		fmt.Fprintln(errOut, onTerminal(errOut, text))
	}
	return codeOf(err)
}

// onTerminal breaks the lines of a message between words where they are read on a terminal. One that ends with a command to copy
// stays whole.
func onTerminal(out io.Writer, text string) string {
	screen := screenOf(out)
	if !screen.tty {
		return text
	}
	width, _ := screen.size()
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, seeMore) {
			lines[i] = ansi.Wordwrap(line, max(width, 20), "")
		}
	}
	return strings.Join(lines, "\n")
}

// whereToLook is what follows an error about something that is not there: where its names are listed.
func whereToLook(err error) string {
	missing, ok := errors.AsType[*client.NotFoundError](err)
	switch {
	case !ok:
	case missing.What == "run":
		return "; inspan runs lists those of the station"
	case missing.What == "artifact":
		return "; inspan artifacts list RUN lists those of a run, by id and path"
	}
	return ""
}

func codeOf(err error) int {
	if e, ok := errors.AsType[*exit](err); ok {
		return e.code
	}
	if errors.Is(err, errWaits) {
		return exitPaused
	}
	if _, ok := errors.AsType[*client.RefusedError](err); ok {
		return exitRefused
	}
	if _, ok := errors.AsType[*events.IDError](err); ok {
		return exitUsage
	}
	if errors.Is(err, client.ErrNotFound) {
		return exitUnknown
	}
	return exitFailed
}

// Root returns the tree of commands, for the generated reference.
func Root() *cobra.Command {
	a := &app{printer: printer{out: io.Discard, err: io.Discard}, in: strings.NewReader("")}
	return a.root()
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "inspan",
		Short: "A durable harness for AI agents on NATS JetStream",
		Long: `Inspan runs AI agents through work that takes hours: every step, turn and tool call is a fact on a JetStream log,
any service may die at any moment, and people decide where it matters.

Start a station with "inspan up", or let "inspan run" start one for a single run.

Exit codes: 0 done, 1 failed, 2 wrong command line, 3 paused or waiting for a person, 4 refused by the station,
5 no such thing, 130 interrupted.`,
		Example: `  inspan demo
  inspan up --store .inspan --agents examples/agents --scripts examples/scripts
  inspan run fixer "make the tests pass" --session demo
  inspan gates
  inspan approve run-k3v9x2m1qa/g-1a2b3c4d5e6f
  inspan why run-k3v9x2m1qa`,
		SilenceUsage: true, SilenceErrors: true, Version: service.Version(), Args: cobra.ArbitraryArgs,
	}
	a.folder = a.set("INSPAN_STORE", defaultStore)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.sound(cmd); err != nil {
			return err
		}
		return a.applies(cmd)
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	f := root.PersistentFlags()
	f.StringVar(&a.server, "server", a.set("INSPAN_NATS_URL", "nats://127.0.0.1:4222"), "address of the station's NATS server (NATS_URL); without it, the station that runs in this project, else this one")
	f.StringVar(&a.creds, "creds", a.set("INSPAN_NATS_CREDS", ""), "NATS credentials file (NATS_CREDS)")
	f.StringVar(&a.station, "station", a.set("INSPAN_STATION", client.DefaultStation), "name of the station (INSPAN_STATION)")
	f.BoolVar(&a.alone, "local", a.set("INSPAN_NATS_ENABLED", "") == "false", "do without NATS: the station is a file in the folder that INSPAN_STORE names, .inspan if none, and one program uses it at a time (INSPAN_NATS_ENABLED=false)")
	f.BoolVar(&a.json, "json", false, "print JSON")
	f.BoolVar(&a.utc, "utc", false, "show times in UTC instead of the local zone")
	f.DurationVar(&a.wait, "wait", 10*time.Second, "how long to wait for an answer of the station")
	f.StringVar(&a.logLevel, "log", a.set("INSPAN_LOG_LEVEL", "warn"), "log level of a station in this process: debug, info, warn, error")
	root.AddGroup(&cobra.Group{ID: "start", Title: "Start:"}, &cobra.Group{ID: "look", Title: "Look:"}, &cobra.Group{ID: "decide", Title: "Decide and steer:"}, &cobra.Group{ID: "care", Title: "Care:"})
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("start", a.initCmd(), a.agentCmd(), a.demoCmd(), a.upCmd(), a.runCmd(), a.replCmd())
	add("look", a.runsCmd(), a.inspectCmd(), a.watchCmd(), a.logsCmd(), a.whyCmd(), a.exportCmd(), a.agentsCmd(), a.toolsCmd(), a.guardsCmd(), a.configCmd(), a.costCmd(), a.artifactsCmd(), a.checkpointsCmd(), a.branchesCmd(), a.sessionCmd())
	add("decide", a.gatesCmd(), a.answerCmd("approve"), a.answerCmd("reject"), a.forkCmd(), a.controlCmd("pause"), a.controlCmd("resume"), a.reviseCmd(), a.controlCmd("stop"), a.autonomyCmd())
	add("care", a.setupCmd(), a.keygenCmd(), a.doctorCmd(), a.auditCmd(), a.replayTestCmd(), a.restoreCmd(), a.importCmd(), a.rebuildCmd(), a.deadCmd(), a.versionCmd())
	root.SetCompletionCommandGroupID("care")
	root.SetHelpCommandGroupID("care")
	return root
}

// unknownCommand names the command that may have been meant.
func unknownCommand(cmd *cobra.Command, got string) error {
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
	}
	if near := didyoumean.Word(got, known); near != "" {
		return usage("there is no command %q; did you mean %q? %s --help lists all", got, near, cmd.CommandPath())
	}
	return usage("there is no command %q; %s --help lists all", got, cmd.CommandPath())
}

// args checks the number of arguments, and names those that are wanted.
func args(n int) cobra.PositionalArgs { return between(n, n) }

// between is args where some may be left out.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		want := fmt.Sprint(most)
		if least < most {
			want = fmt.Sprintf("%d to %d", least, most)
		}
		return usage("%s: %d given, want %s: %s", cmd.CommandPath(), len(args), want, cmd.UseLine())
	}
}

// group is the RunE of a command that only has commands below it.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args[0])
}

func env(fallback string, names ...string) string {
	for _, n := range names {
		if v := os.Getenv(n); v != "" {
			return v
		}
	}
	return fallback
}

// me is who answers gates and steers where the command line does not say.
func (s *settings) me() string {
	name := s.set("INSPAN_APPROVER", env("", "USER", "LOGNAME"))
	if !events.ValidID(name) {
		return ""
	}
	return name
}

// printJSON prints a value. What is stored has its signs < > & escaped, as JSON in a page of HTML would; here they are as they are.
func (o *printer) printJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := o.out.Write(events.Plain(b.Bytes()))
	return err
}

// zone is the time zone of what is shown.
func (o *printer) zone() *time.Location {
	if o.utc {
		return time.UTC
	}
	return time.Local
}

func (a *app) logger() (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(a.logLevel)
	if err != nil {
		return zerolog.Nop(), usage("--log: %w", err)
	}
	plain := !screenOf(a.err).colour()
	return zerolog.New(zerolog.ConsoleWriter{Out: a.err, NoColor: plain, TimeFormat: "15:04:05"}).Level(level).With().Timestamp().Logger(), nil
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  inspan version\n  inspan version --json", Args: args(0),
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo()
			if a.json {
				return a.printJSON(v)
			}
			fmt.Fprintf(a.out, "inspan %s, facts v%d, %s %s\n", v.Version, v.Facts, v.Go, v.Platform)
			return nil
		},
	}
}
