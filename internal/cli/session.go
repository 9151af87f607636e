package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func (a *app) sessionCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "session", Short: "List, look at and steer sessions: directories with a conversation that goes on",
		Long: `A session is a directory and a conversation that inputs have in common: each run that names it goes on where the one
before it stopped, in another process and on another day. One run works in it at a time, unless it is parallel. It lives
until it is deleted.`,
		Example: "  inspan run fixer \"create the parser\" --session parser\n  inspan session list\n  inspan session info parser\n  inspan session unlock parser --stop\n  inspan session cleanup --older-than 30d --dry-run",
		Args:    cobra.ArbitraryArgs, RunE: group,
	}
	cmd.AddGroup(&cobra.Group{ID: "look", Title: "Look:"}, &cobra.Group{ID: "decide", Title: "Steer:"})
	look, steer := []*cobra.Command{a.sessionListCmd(), a.sessionInfoCmd(), a.sessionHistoryCmd()}, []*cobra.Command{
		a.sessionSetCmd("start", "Make a session, or open one again", "  inspan session start parser\n  inspan session start parser --mode parallel --branch fix/parser"),
		a.sessionSetCmd("set", "Change the settings of a session", "  inspan session set parser --mode sequential\n  inspan session set parser --model anthropic/claude-sonnet-4-5\n  inspan session set parser --model -"),
		a.sessionSteerCmd("pause", "Pause a session and the runs in it: it takes no inputs until it resumes", false),
		a.sessionSteerCmd("resume", "Let a paused session and its runs go on", false),
		a.sessionSteerCmd("end", "Let go of a session; its files and its conversation are kept for the next input", true),
		a.sessionSteerCmd("unlock", "Take the lock of a session away from whoever holds it", true),
		a.sessionSteerCmd("clear", "Forget the conversation of a session; its files stay", false),
		a.sessionSteerCmd("delete", "Delete a session: its name is free, its conversation is forgotten, its files go", true),
		a.sessionImportCmd(), a.sessionCleanupCmd(),
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

func (a *app) sessionListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the sessions, those used last first", Example: "  inspan session list\n  inspan session list --json", Args: args(0),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.Sessions(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(all)
			}
			if len(all) == 0 {
				fmt.Fprintln(a.out, `No sessions. Start one with: inspan run AGENT "TASK" --session NAME`)
				return nil
			}
			var rows [][]string
			var stale []string
			for _, e := range all {
				if e.Stale(time.Now()) {
					stale = append(stale, e.ID)
				}
				rows = append(rows, []string{e.ID, a.sessionState(e), string(e.Mode), age(e.UsedAt), fmt.Sprint(e.Runs), fmt.Sprint(e.Messages),
					view.Count(e.InputTokens + e.OutputTokens), holders(e), view.Clip(e.Branch, 40)})
			}
			a.table([]string{"NAME", "STATUS", "MODE", ">USED", ">RUNS", ">MESSAGES", ">TOKENS", "LOCKED BY", "BRANCH"}, rows)
			if len(stale) > 0 {
				fmt.Fprintf(a.err, "inspan: %s not used for %s: what is in them may be out of date; inspan session cleanup --older-than %s deletes them\n",
					view.Plural(len(stale), "session"), days(events.StaleAfter), days(events.StaleAfter))
			}
			return nil
		}),
	}
}

// sessionState is the status that a list shows: a stale one says so.
func (a *app) sessionState(e events.Session) string {
	p := a.paint()
	switch {
	case len(e.Holders) > 0 && e.Status == events.SessionOpen:
		return p.yellow("locked")
	case e.Stale(time.Now()):
		return p.yellow(string(e.Status) + ", stale")
	}
	return string(e.Status)
}

func holders(e events.Session) string {
	var ids []string
	for _, h := range e.Holders {
		ids = append(ids, h.Run)
	}
	return view.Clip(strings.Join(ids, " "), 60)
}

func days(d time.Duration) string { return fmt.Sprintf("%dd", int(d/(24*time.Hour))) }

func (a *app) sessionInfoCmd() *cobra.Command {
	return &cobra.Command{
		Use: "info NAME", Short: "Show where a session stands: its lock, settings, conversation and runs",
		Example: "  inspan session info parser\n  inspan session info parser --json | jq .holders", Args: args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			e, err := c.Session(ctx, args[0])
			if err != nil {
				return noSession(err)
			}
			infos, err := c.Runs(ctx)
			if err != nil {
				return err
			}
			runs := []string{}
			for _, i := range infos {
				if i.SessionID == e.ID {
					runs = append(runs, i.HarnessID)
				}
			}
			if a.json {
				return a.printJSON(struct {
					events.Session
					Stale bool     `json:"stale"`
					RunID []string `json:"runs"`
				}{e, e.Stale(time.Now()), runs})
			}
			at := func(t time.Time) string {
				if t.IsZero() {
					return ""
				}
				return t.In(a.zone()).Format("2006-01-02 15:04:05") + a.paint().dim(", "+age(t)+" ago")
			}
			var locks []string
			for _, h := range e.Holders {
				l := fmt.Sprintf("run %s of %s since %s (fence %d)", h.Run, h.Agent, h.Since.In(a.zone()).Format("15:04:05"), h.Fence)
				if !h.Until.IsZero() {
					l += ", at the latest until " + h.Until.In(a.zone()).Format("2006-01-02 15:04:05")
				}
				locks = append(locks, l)
			}
			a.pairs([][2]string{
				{"Session", a.paint().bold(e.ID) + "  " + a.sessionState(e)}, {"Mode", string(e.Mode)}, {"Locked by", strings.Join(locks, "; ")},
				{"Created", at(e.CreatedAt)}, {"Last used", at(e.UsedAt)}, {"Workspace", "session/" + e.ID}, {"Branch", view.Clip(e.Branch, 200)}, {"Model", view.Clip(e.Model, 200)},
				{"System prompt", view.Clip(e.Prompt, 200)}, {"Conversation", fmt.Sprintf("%s of %s", view.Plural(e.Messages, "message"), view.Plural(e.Parts, "input"))},
				{"Tokens", fmt.Sprintf("%s in, %s out", view.Count(e.InputTokens), view.Count(e.OutputTokens))}, {"Runs", fmt.Sprint(e.Runs)}, {"", view.Clip(strings.Join(runs, " "), 400)},
			})
			a.warnStale(e)
			return nil
		}),
	}
}

func noSession(err error) error {
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%w; inspan session list lists those of the station", err)
	}
	return err
}

// warnStale warns of a session that nobody used for long (SESS-14).
func (a *app) warnStale(e events.Session) {
	if e.Stale(time.Now()) {
		fmt.Fprintf(a.err, "inspan: session %s was last used %s ago: its files and its conversation may be out of date\n", e.ID, age(e.UsedAt))
	}
}

// warnSession warns where a run is about to use a stale session. What can not be learned is no reason to wait.
func (a *app) warnSession(ctx context.Context, c *client.Client, id string) {
	if id == "" {
		return
	}
	if e, err := c.Session(ctx, id); err == nil {
		a.warnStale(e)
	}
}

// settleWait bounds how long a command stays after the end of its run until the session has its conversation.
const settleWait = 2 * time.Second

// settled lets whoever comes next find the session as the run left it. Where that takes long, it comes about all the same.
func (a *app) settled(ctx context.Context, c *client.Client, last run.State) {
	if last.Created == nil || last.Created.SessionFence == 0 || !last.Status.Ended() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	_ = c.Settled(ctx, last.Created.Session, last.HarnessID)
}

func (a *app) sessionHistoryCmd() *cobra.Command {
	return &cobra.Command{
		Use: "history NAME", Short: "Print what was said in a session", Example: "  inspan session history parser\n  inspan session history parser --json > parser.json", Args: args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			talk, err := c.History(ctx, args[0])
			if err != nil {
				return noSession(err)
			}
			if a.json {
				return a.printJSON(talk)
			}
			a.talk(talk)
			return nil
		}),
	}
}

// exportTalk prints the result of a run with its whole conversation (LOOP-12); of one that goes on, what was said so far.
func (a *app) exportTalk(ctx context.Context, c *client.Client, id string) error {
	out, err := c.Outcome(ctx, id)
	if errors.Is(err, client.ErrOpen) {
		out.Conversation, err = c.Conversation(ctx, id)
	}
	if errors.Is(err, client.ErrNotFound) {
		return noRun(id)
	}
	if err != nil {
		return err
	}
	return a.printJSON(out)
}

// talk prints a conversation for people.
func (a *app) talk(talk client.Conversation) {
	p := a.paint()
	for _, m := range talk.Messages {
		head := m.Role
		if m.Role == events.RoleAssistant && m.Metadata.Agent != "" {
			head = m.Metadata.Agent
		}
		if !m.At.IsZero() {
			head += "  " + p.dim(m.At.In(a.zone()).Format("2006-01-02 15:04:05"))
		}
		if m.Role != events.RoleTool {
			fmt.Fprintf(a.out, "%s\n", p.bold(head))
		}
		if m.Content != "" {
			fmt.Fprintf(a.out, "%s\n", harmless(m.Content))
		}
		for _, call := range m.Calls {
			fmt.Fprintf(a.out, "%s\n", p.dim("  "+view.Clip(call.Name+" "+string(call.Input), 200)))
		}
		for _, r := range m.Results {
			word := "ok"
			if r.Failed {
				word = "failed"
			}
			fmt.Fprintf(a.out, "%s\n", p.dim("  "+r.Name+" "+word+": "+view.Clip(r.Output, 200)))
		}
		if m.Role != events.RoleAssistant || len(m.Calls) == 0 {
			fmt.Fprintln(a.out)
		}
	}
	fmt.Fprintf(a.out, "%s\n", p.dim(view.Plural(len(talk.Messages), "message")+", "+view.Count(talk.TotalTokens)+" tokens"))
}

func (a *app) sessionSetCmd(action, title, example string) *cobra.Command {
	ctl := events.SessionControl{Action: action}
	var mode string
	cmd := &cobra.Command{
		Use: action + " NAME", Short: title, Example: example, Args: args(1),
		Long: title + ". A setting that is not given stays as it is, \"-\" takes it away.",
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			ctl.Mode = events.SessionMode(mode)
			return a.steerSession(ctx, c, args[0], ctl)
		}),
	}
	cmd.Flags().StringVar(&mode, "mode", "", "sequential (one run at a time) or parallel")
	cmd.Flags().StringVar(&ctl.Branch, "branch", "", "working branch")
	cmd.Flags().StringVar(&ctl.Model, "model", "", "model of its runs, provider/name")
	cmd.Flags().StringVar(&ctl.Prompt, "system", "", "instructions behind those of its agents")
	cmd.Flags().StringVar(&ctl.By, "by", a.me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

func (a *app) sessionSteerCmd(action, title string, stops bool) *cobra.Command {
	ctl := events.SessionControl{Action: action}
	cmd := &cobra.Command{
		Use: action + " NAME", Short: title, Example: "  inspan session " + action + " parser", Args: args(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.steerSession(ctx, c, args[0], ctl)
		}),
	}
	if stops {
		cmd.Flags().BoolVar(&ctl.Stop, "stop", false, "stop the runs that work in it; without it they are in the way")
		cmd.Example += "\n  inspan session " + action + " parser --stop"
	}
	cmd.Flags().StringVar(&ctl.Reason, "reason", "", "why; recorded in the runs that are stopped or paused")
	cmd.Flags().StringVar(&ctl.By, "by", a.me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

var sessionDone = map[string]string{"start": "is open", "set": "is set", "pause": "is paused", "resume": "goes on", "end": "has ended, and is kept",
	"unlock": "is free", "clear": "has no history any more", "delete": "is deleted"}

func (a *app) steerSession(ctx context.Context, c *client.Client, id string, ctl events.SessionControl) error {
	ctx, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	e, err := c.Steer(ctx, id, ctl)
	if err != nil {
		return err
	}
	if ctl.Action == "delete" {
		if err := c.Sweep(ctx, id); err != nil {
			fmt.Fprintf(a.err, "inspan: the files of session %s stay until its name is used again: %v\n", id, err)
		}
	}
	if a.json {
		return a.printJSON(e)
	}
	fmt.Fprintf(a.out, "Session %s %s.\n", id, sessionDone[ctl.Action])
	return nil
}

func (a *app) sessionCleanupCmd() *cobra.Command {
	var older string
	var dry bool
	cmd := &cobra.Command{
		Use: "cleanup", Short: "Delete the sessions that nobody used for long", Args: args(0),
		Long:    "Deletes the sessions that were not used for as long as --older-than says. One that a run works in is never among them.",
		Example: "  inspan session cleanup --older-than 7d --dry-run\n  inspan session cleanup --older-than 720h",
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			d, err := spanOf(older)
			if err != nil {
				return usage("--older-than: %w", err)
			}
			before := time.Now().Add(-d).UTC()
			all, err := c.Sessions(ctx)
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(e events.Session) bool { return len(e.Holders) > 0 || e.UsedAt.After(before) })
			gone := []string{}
			for _, e := range all {
				if !dry {
					err := a.steerQuietly(ctx, c, e.ID, events.SessionControl{Action: "delete", Before: &before, By: a.me()})
					if r, ok := errors.AsType[*client.RefusedError](err); ok {
						fmt.Fprintf(a.err, "inspan: %s is kept: %s\n", e.ID, r.Reason)
						continue
					}
					if err != nil {
						return err
					}
				}
				gone = append(gone, e.ID)
				if !a.json {
					fmt.Fprintf(a.out, "%s  %s\n", e.ID, a.paint().dim("last used "+age(e.UsedAt)+" ago"))
				}
			}
			if a.json {
				return a.printJSON(map[string]any{"sessions": gone, "deleted": !dry, "older_than": d.String()})
			}
			word := "Deleted"
			if dry {
				word = "Would delete"
			}
			fmt.Fprintf(a.out, "%s %s.\n", word, view.Plural(len(gone), "session"))
			return nil
		}),
	}
	cmd.Flags().StringVar(&older, "older-than", days(events.StaleAfter), "how long a session must have lain unused, such as 7d or 36h")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say which would be deleted")
	return cmd
}

// steerQuietly deletes one session among several.
func (a *app) steerQuietly(ctx context.Context, c *client.Client, id string, ctl events.SessionControl) error {
	ctx, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	if _, err := c.Steer(ctx, id, ctl); err != nil {
		return err
	}
	if err := c.Sweep(ctx, id); err != nil {
		fmt.Fprintf(a.err, "inspan: the files of session %s stay until its name is used again: %v\n", id, err)
	}
	return nil
}

// spanOf reads a length of time, in days too.
func spanOf(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if n, isDays := strings.CutSuffix(text, "d"); isDays {
		var whole int
		whole, err = strconv.Atoi(n)
		d = time.Duration(whole) * 24 * time.Hour
		if whole > 36500 {
			err = strconv.ErrRange
		}
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a length of time such as 7d or 36h", text)
	}
	return d, nil
}
