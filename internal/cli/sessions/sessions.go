// Package sessions has inspan session: list, inspect, steer, import and clean up sessions.
package sessions

import (
	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
)

// Command makes inspan session and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "session", Short: "List, look at and steer sessions: directories with a conversation that goes on",
		Long: `A session is a directory and a conversation that inputs have in common: each run that names it goes on where the one
before it stopped, in another process and on another day. One run works in it at a time, unless it is parallel. It lives
until it is deleted.`,
		Example: "  inspan run fixer \"create the parser\" --session parser\n  inspan session list\n  inspan session info parser\n  inspan session unlock parser --stop\n  inspan session cleanup --older-than 30d --dry-run",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddGroup(&cobra.Group{ID: "look", Title: "Look:"}, &cobra.Group{ID: "decide", Title: "Steer:"})
	look, steer := []*cobra.Command{listCmd(a), infoCmd(a), historyCmd(a)}, []*cobra.Command{
		setCmd(a, "start", "Make a session, or open one again",
			"  inspan session start parser\n  inspan session start parser --mode parallel --branch fix/parser"),
		setCmd(a, "set", "Change the settings of a session",
			"  inspan session set parser --mode sequential\n  inspan session set parser --model anthropic/claude-sonnet-5-5\n  inspan session set parser --model -"),
		steerCmd(a, "pause", "Pause a session and the runs in it: it takes no inputs until it resumes", false),
		steerCmd(a, "resume", "Let a paused session and its runs go on", false),
		steerCmd(a, "end", "Let go of a session; its files and its conversation are kept for the next input", true),
		steerCmd(a, "unlock", "Take the lock of a session away from whoever holds it", true),
		steerCmd(a, "clear", "Forget the conversation of a session; its files stay", false),
		steerCmd(a, "delete", "Delete a session: its name is free, its conversation is forgotten, its files go", true),
		importCmd(a), cleanupCmd(a),
	}
	for _, c := range look {
		c.GroupID = "look"
	}
	for _, c := range steer {
		c.GroupID = "decide"
	}
	cmd.AddCommand(append(look, steer...)...)
	return cmd
}
