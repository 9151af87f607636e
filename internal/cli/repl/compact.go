package repl

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Texts of /compact.
const (
	askSummary = "Sum up this conversation so that you can go on from your summary alone: what is wanted, what was decided " +
		"and why, the state of files and commands, what failed, and what is open. Keep names, paths and numbers as they " +
		"are. Call no tool and answer with the summary alone."
	summedUp = "Sum up our conversation so far. What was said before your summary is not shown any more."
)

// onCompact has the conversation summed up by an input of its own, whose answer then takes the place of all messages.
// Where anything goes wrong in between, the conversation is as it was, and longer by that input.
func onCompact(ctx context.Context, r *repl, hints string) error {
	before, err := r.c.Sessions().Get(ctx, r.flags.Session)
	if errors.Is(err, client.ErrNotFound) || err == nil && before.History == nil {
		fmt.Fprintln(r.app.Out, "  there is nothing to sum up yet")
		return nil
	}
	if err != nil {
		return err
	}
	text := askSummary
	if hints != "" {
		text += "\n\nThe person adds: " + hints
	}
	return &inputError{text: text, then: func(ctx context.Context) error { return r.compact(ctx, before) }}
}

// instead sends an input in place of a command.
func (r *repl) instead(ctx context.Context, in *inputError) error {
	if in.then == nil {
		return r.send(ctx, in.text)
	}
	r.last.Result = nil
	if err := r.turn(ctx, in.text); err != nil {
		return err
	}
	if r.last.Result == nil || !r.last.Result.Success {
		return nil // which was shown
	}
	return in.then(ctx)
}

// compact puts the last answer in the place of the conversation that it sums up: one control, which the station refuses
// where anything was said meanwhile.
func (r *repl) compact(ctx context.Context, before events.Session) error {
	ctx, cancel := context.WithTimeout(ctx, r.app.Wait)
	defer cancel()
	now, err := r.c.Sessions().Get(ctx, r.flags.Session)
	if err != nil {
		return err
	}
	all, err := r.messages(ctx)
	if err != nil {
		return err
	}
	var last events.Message
	if len(all) > 0 {
		last = all[len(all)-1]
	}
	switch {
	case now.History == nil || now.Runs != before.Runs+1:
		return app.Exit(app.ExitRefused, errors.New("the conversation stays as it is: another input came between, which the summary may not have; /compact tries again"))
	case last.Role != events.RoleAssistant || last.Content == "" || last.ContentRef != nil:
		return app.Exit(app.ExitRefused, errors.New("the conversation stays as it is: the answer is no summary, or too long for one; /compact HINTS asks for a shorter one"))
	}
	_, err = r.c.Sessions().Control(ctx, r.flags.Session, events.SessionControl{Action: "compact", Of: now.History.SHA256,
		Messages: []events.Message{{Role: events.RoleUser, Content: summedUp},
			{Role: events.RoleAssistant, Content: last.Content}},
		By: r.app.Me(), Reason: "summed up at the prompt"})
	if err == nil {
		fmt.Fprintf(r.app.Out, "  the next input begins with this summary in place of %s; the log keeps them\n",
			view.Plural(len(all), "message"))
	}
	return err
}
