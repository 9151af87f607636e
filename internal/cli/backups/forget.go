package backups

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

// forgetCommand is inspan forget.
type forgetCommand struct {
	App *app.App
	cfg backup.ForgetConfig
}

// Forget makes inspan forget.
func Forget(a *app.App) *cobra.Command {
	c := &forgetCommand{App: a}
	cmd := &cobra.Command{
		Use: "forget BACKUP DIR", Short: "Copy a backup without the content of runs, sessions or people, to delete it",
		Long: `Answers a request to delete: copies BACKUP, the folder of an inspan backup, to DIR, and leaves out the content that is named:

  --run      a run with its whole tree of children, and the forks and retries that began with what it had
  --session  a session: its conversation and settings, and all runs that worked in it
  --person   all runs that somebody dispatched under this name, and the sessions of which all runs are theirs

With it go the snapshots of their workspaces, their artifacts, and the objects that only they refer to. One event stands for
each run and each session: it says how the run ended and what it cost, and that its content was deleted; inspan audit follows
the chain through it, and the id starts no second run. A session of that name begins with nothing.

It deletes nothing in BACKUP and nothing in the station: the content is gone once the station was filled from DIR, and the old
store and all older backups are gone or were copied in the same way. The output has these steps. Refused, with nothing
written, are open runs, and what something that stays has a part of. Work items, schedules, mailboxes and merge queues stay
as they are; those that name what was deleted are listed, as their texts may repeat it. See docs/deletion.md.`,
		Example: "  inspan forget /mnt/b/friday /mnt/b/without --run fix-login\n" +
			"  inspan forget /mnt/b/friday /mnt/b/without --session desk --reason \"request 2026-17\"\n" +
			"  inspan forget /mnt/b/2025 /mnt/b/2025-without --person anna --allow-missing\n" +
			"  inspan forget /mnt/b/friday /mnt/b/without --person anna --json | jq .stays",
		Args: app.Args(2),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1]) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&c.cfg.Runs, "run", nil, "run whose content is left out, with its tree, forks and retries; may be repeated")
	f.StringArrayVar(&c.cfg.Sessions, "session", nil, "session whose content is left out, with its runs; may be repeated")
	f.StringArrayVar(&c.cfg.People, "person", nil, "name under which runs were dispatched that are left out; may be repeated")
	f.StringVar(&c.cfg.Reason, "reason", "",
		"which request this answers; it is stored with what stands for the runs, so it must not repeat content")
	f.BoolVar(&c.cfg.Missing, "allow-missing", false, "pass over names that BACKUP has nothing of, as an older backup may")
	return cmd
}

func (c *forgetCommand) run(ctx context.Context, from, to string) error {
	names := append(append(append([]string{}, c.cfg.Runs...), c.cfg.Sessions...), c.cfg.People...)
	switch {
	case len(names) == 0:
		return app.Usage("name what is to be deleted: --run, --session or --person, for example --run fix-login")
	case len(c.cfg.Reason) > events.MaxForgetReason:
		return app.Usage("the reason has %d bytes, the limit is %d: name the request, for example --reason \"request 2026-17\"",
			len(c.cfg.Reason), events.MaxForgetReason)
	}
	for _, name := range names {
		if strings.TrimSpace(name) == "" {
			return app.Usage("a name is empty: every --run, --session and --person needs one")
		}
	}
	began := time.Now()
	c.cfg.CopyConfig = copyOf(c.App, from, to)
	done, err := backup.Forget(ctx, c.cfg)
	switch {
	case errors.Is(err, backup.ErrExists):
		return app.Usage("%w", err)
	case errors.Is(err, backup.ErrUnknown):
		return app.Exit(app.ExitUnknown, fmt.Errorf("%w, and nothing was written; inspan runs and inspan session list show what the station has; --allow-missing passes over what an older backup does not have, and over people who dispatched no run",
			err))
	case errors.Is(err, backup.ErrBound):
		return app.Exit(app.ExitRefused, err)
	case err != nil:
		return restoreFault(err)
	}
	steps := c.steps(from, to, done)
	if c.App.JSON {
		return c.App.PrintJSON(struct {
			backup.Forgot
			Steps []string `json:"steps"`
		}{done, steps})
	}
	c.print(done, time.Since(began), to, steps)
	return nil
}

// steps are what is left to do until the content is gone.
func (c *forgetCommand) steps(from, to string, done backup.Forgot) []string {
	again := "inspan forget OLDER COPY --station " + done.Of.Station
	for _, n := range []struct {
		flag  string
		names []string
	}{{"run", c.cfg.Runs}, {"session", c.cfg.Sessions}, {"person", c.cfg.People}} {
		for _, name := range n.names {
			again += fmt.Sprintf(" --%s %s", n.flag, quoted(name))
		}
	}
	steps := []string{
		fmt.Sprintf("fill an empty station from the copy: inspan restore %s --station %s --store NEW", to, done.Of.Station),
		fmt.Sprintf("delete the backup that was read, once the new station was checked: rm -r %s", filepath.Clean(from)),
		"delete the old store, or the streams and buckets of the old station at its servers, with its archive folder and workspaces",
		"delete every older backup, or copy it in the same way and then delete it: " + again + " --allow-missing",
		"delete what else left the station: branches at git remotes, exported bundles, logs of services, what providers of models keep",
	}
	if len(done.Elsewhere) > 0 {
		steps = append(steps, fmt.Sprintf("the events of %s are in older backups, which inspan inspect RUN names: do the same to those",
			strings.Join(done.Elsewhere, ", ")))
	}
	return steps
}

// quoted is a name as a shell reads it.
func quoted(name string) string {
	if events.ValidID(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

func (c *forgetCommand) print(done backup.Forgot, took time.Duration, to string, steps []string) {
	say := func(format string, args ...any) {
		text := strings.TrimLeft(format, " ")
		fmt.Fprintln(c.App.Out, format[:len(format)-len(text)]+terminal.Sanitize(fmt.Sprintf(text, args...)))
	}
	before, after := done.Of, done.Copy
	say("Left out the content of %s, %s and %s: %s of %s, %s of %s, in %s: %s", view.Plural(len(done.Runs), "run"),
		view.Plural(len(done.Sessions), "session"), view.Plural(len(done.Workspaces), "workspace"),
		view.Count(int(after.Log)), view.Plural(int(before.Log), "event"), //nolint:gosec // far below the limit
		view.Bytes(after.Bytes), view.Bytes(before.Bytes), took.Round(time.Millisecond), to)
	for _, part := range []struct {
		what  string
		names []string
	}{{"Runs", done.Runs}, {"Sessions", done.Sessions}, {"Workspaces", done.Workspaces},
		{"Deleted before", done.Already}, {"Left in an older backup, to make room", done.Elsewhere},
		{"Not in this backup", done.Missing}} {
		if len(part.names) > 0 {
			say("%s: %s", part.what, strings.Join(part.names, ", "))
		}
	}
	if done.Shared > 0 {
		say("%s stay that something else names, too", view.Plural(done.Shared, "object"))
	}
	if done.Unnamed > 0 {
		say("%s were left out that nothing names", view.Plural(done.Unnamed, "object"))
	}
	if len(done.Stays) > 0 {
		say("These stay as they are, mail too, and name what was deleted; their texts may repeat it, so look at them:")
		for _, s := range done.Stays {
			say("  %s: events that name a run or session %d, a person %d", s.Log, s.Names, s.People)
		}
	}
	say("What is left to do, as the content is still in the station and in its backups:")
	for i, step := range steps {
		say("  %d. %s", i+1, step)
	}
}
