// Package cli is the inspan program: commands for people and scripts, on the same subjects as everybody else.
//
// Promises: every command has --help with examples and, where it prints data, --json. Output for people goes to a
// terminal in colour and anywhere else without. An error says what to do next. Exit codes are: 0 done, 1 failed, 2 the
// command line is wrong, 3 the run paused or a gate was rejected, 4 the station refused it, 5 there is no such thing.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Exit codes.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitPaused  = 3
	exitRefused = 4
	exitUnknown = 5
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

// app is one invocation.
type app struct {
	in       io.Reader
	out, err io.Writer
	server   string
	creds    string
	station  string
	json     bool
	logLevel string
	wait     time.Duration
}

// Main runs a command line and returns the exit code.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app{in: in, out: out, err: errOut}
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
		fmt.Fprintf(errOut, "inspan: %s\n", view.Whole(text)) // it may quote what a model wrote
	}
	return codeOf(err)
}

func codeOf(err error) int {
	if e, ok := errors.AsType[*exit](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[*client.RefusedError](err); ok {
		return exitRefused
	}
	if _, ok := errors.AsType[*events.IDError](err); ok {
		return exitUsage
	}
	switch {
	case errors.Is(err, client.ErrNotFound):
		return exitUnknown
	case strings.HasPrefix(err.Error(), "unknown command"), strings.HasPrefix(err.Error(), "unknown flag"), strings.HasPrefix(err.Error(), "unknown shorthand"),
		strings.HasPrefix(err.Error(), "invalid argument"), strings.Contains(err.Error(), "arg(s)"), strings.HasPrefix(err.Error(), "flag needs"), strings.HasPrefix(err.Error(), "required flag"):
		return exitUsage
	}
	return exitFailed
}

// Root returns the tree of commands, for the generated reference.
func Root() *cobra.Command {
	return (&app{in: strings.NewReader(""), out: io.Discard, err: io.Discard}).root()
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "inspan",
		Short: "A durable harness for AI agents on NATS JetStream",
		Long: `Inspan runs AI agents through work that takes hours: every step, turn and tool call is a fact on a JetStream log,
any service may die at any moment, and people decide where it matters.

Start a station with "inspan up", or let "inspan run" start one for a single run.`,
		Example: `  inspan demo
  inspan up --store .inspan --agents examples/agents --scripts examples/scripts
  inspan run fixer "make the tests pass" --session demo
  inspan gates && inspan approve g-1a2b3c4d5e6f
  inspan why run-abc`,
		SilenceUsage: true, SilenceErrors: true, Version: service.Version(),
	}
	f := root.PersistentFlags()
	f.StringVar(&a.server, "server", env("nats://127.0.0.1:4222", "INSPAN_NATS_URL", "NATS_URL"), "address of the station's NATS server (NATS_URL)")
	f.StringVar(&a.creds, "creds", env("", "INSPAN_NATS_CREDS", "NATS_CREDS"), "NATS credentials file (NATS_CREDS)")
	f.StringVar(&a.station, "station", env("default", "INSPAN_STATION"), "name of the station (INSPAN_STATION)")
	f.BoolVar(&a.json, "json", false, "print JSON")
	f.DurationVar(&a.wait, "wait", 10*time.Second, "how long to wait for an answer of the station")
	f.StringVar(&a.logLevel, "log", env("warn", "INSPAN_LOG_LEVEL"), "log level of a station in this process: debug, info, warn, error")
	root.AddCommand(a.demoCmd(), a.upCmd(), a.runCmd(), a.runsCmd(), a.inspectCmd(), a.logsCmd(), a.exportCmd(), a.whyCmd(), a.gatesCmd(),
		a.answerCmd("approve"), a.answerCmd("reject"), a.controlCmd("pause"), a.controlCmd("resume"), a.controlCmd("stop"), a.autonomyCmd(), a.deadCmd(),
		a.agentsCmd(), a.doctorCmd())
	return root
}

func env(fallback string, names ...string) string {
	for _, n := range names {
		if v := os.Getenv(n); v != "" {
			return v
		}
	}
	return fallback
}

// connect connects to the station, and says what to do where there is none.
func (a *app) connect(ctx context.Context) (*client.Client, error) {
	try, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c, err := client.Connect(try, client.Config{URL: a.server, Creds: a.creds, Station: a.station})
	if err != nil {
		return nil, fmt.Errorf("no station at %s: start one with \"inspan up --store .inspan\", or name another with --server: %w", a.address(), err)
	}
	return c, nil
}

// address is the server's address without the password that it may hold.
func (a *app) address() string {
	var shown []string
	for _, one := range strings.Split(a.server, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			return "the address given"
		}
		shown = append(shown, u.Redacted())
	}
	return strings.Join(shown, ",")
}

// with runs a command that needs a station.
func (a *app) with(run func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		return run(cmd.Context(), c, args)
	}
}

func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// terminal reports whether a writer is a terminal, and its size.
func terminal(w io.Writer) (width, height int, ok bool) {
	f, is := w.(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	return width, height, err == nil && width > 0
}

// paint colours text on a terminal, unless NO_COLOR is set.
type paint bool

func (a *app) paint() paint {
	_, _, ok := terminal(a.out)
	return paint(ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

func (p paint) in(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) bold(s string) string   { return p.in("1", s) }
func (p paint) dim(s string) string    { return p.in("2", s) }
func (p paint) red(s string) string    { return p.in("31", s) }
func (p paint) green(s string) string  { return p.in("32", s) }
func (p paint) yellow(s string) string { return p.in("33", s) }
func (p paint) cyan(s string) string   { return p.in("36", s) }

func (a *app) logger() (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(a.logLevel)
	if err != nil {
		return zerolog.Nop(), &exit{exitUsage, fmt.Errorf("--log: %w", err)}
	}
	_, _, tty := terminal(a.err)
	return zerolog.New(zerolog.ConsoleWriter{Out: a.err, NoColor: !tty || os.Getenv("NO_COLOR") != "", TimeFormat: "15:04:05"}).Level(level).With().Timestamp().Logger(), nil
}
