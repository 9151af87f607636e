// Package app holds what the commands of one invocation of inspan share: the connection to the station, the settings,
// the printer for people and programs, and errors with exit codes and hints. A command embeds *App and adds its own
// flags.
package app

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/lineedit"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
)

// CanAsk reports whether there is a person to ask.
func (a *App) CanAsk() bool { return a.Term.TTY && !a.JSON && terminal.IsTerminal(a.In) }

// Piped reports whether standard input is something else than a terminal.
func (a *App) Piped() bool { return !terminal.IsTerminal(a.In) }

// ProjectCommands is the folder of a project's commands of the conversation.
const ProjectCommands = ".inspan/commands"

// ProjectSchedules is the folder of a project's schedules.
const ProjectSchedules = "schedules"

// ProjectFormulas is the folder of a project's formulas.
const ProjectFormulas = "formulas"

// DefaultStore is the folder of a station where none is named.
const DefaultStore = ".inspan"

// App is what the commands of one invocation share.
type App struct {
	Printer
	Settings
	In io.Reader
	// Keys is what a person types.
	Keys    *lineedit.Keyboard
	Server  string
	Creds   string
	Station string
	// ContextFlag is the name that --context gives, Context what is used of it or of the one that was chosen.
	ContextFlag string
	Context     Context
	// Local does without NATS: the station is a local store in Folder.
	Local    bool
	Folder   string
	Wait     time.Duration
	LogLevel string
	// Stream shows text as it comes instead of a tree.
	Stream bool
	// Signals gives each Ctrl+C until stop is called, where it does not end the program.
	Signals func() (breaks <-chan os.Signal, stop func())
	// Cmd is the command of this invocation.
	Cmd *cobra.Command
	// Record is how the station was found, where the project has one that runs.
	Record station.Record
	// OwnStore is the folder of a station that this process started for one run, or that was kept of one.
	OwnStore string
	// Shared is a connection that commands use instead of one of their own, where a conversation runs them.
	Shared *client.Client
	Finders
}

// Finders are what commands look up through others. Nil finds nothing.
type Finders struct {
	// Kept finds the store that was kept of a run which had a station of its own. Commands ask KeptOf.
	Kept func(ctx context.Context, ref string) (k KeptRun, ok bool)
	// Builtin is the folder of the agent of this program for the directory; empty where no model is set.
	Builtin func() (dir string, err error)
}

// Logger writes the log of a station in this process to standard error.
func (a *App) Logger() (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(a.LogLevel)
	if err != nil {
		return zerolog.Nop(), Usage("--log: %w", err)
	}
	plain := !terminal.ScreenOf(a.Err).Colour()
	return zerolog.New(zerolog.ConsoleWriter{Out: a.Err, NoColor: plain,
		TimeFormat: "15:04:05"}).Level(level).With().Timestamp().Logger(), nil
}
