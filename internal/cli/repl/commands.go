package repl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// command is a command of the conversation.
type command struct {
	name, arg, doc string
	run            func(ctx context.Context, r *repl, arg string) error
}

// commands of the conversation, in the order of /help (SESS-17). An argument in brackets may be left out.
func commands() []command {
	return []command{
		{"/help", "", "what can be typed", onHelp},
		{"/model", "[NAME]", "the model of the next inputs, provider/name", onModel},
		{"/context", "", "how full the model's context window is, and with what", onContext},
		{"/compact", "[HINTS]", "have the agent sum the conversation up and go on from the summary", onCompact},
		{"/cost", "", "tokens and money of this session", onCost},
		{"/show", "[N]", "the whole result of call N of the last input; without N the list of them", onShow},
		{"/diff", "", "what the session changed in its copy", onDiff},
		{"/merge", "", "bring what the session changed into your files, without a commit", onMerge},
		{"/undo", "", "take what /merge brought out of your files again; with --in-place, what the last input changed",
			onUndo},
		{"/retry", "", "send the last input again", onRetry},
		{"/why", "", "what the last input waits for, or how it ended", onWhy},
		{"/permissions", "", "what the agent may do, and what was allowed for later", onPermissions},
		{"/tools", "", "the tools of the agent", onTools},
		{"/agents", "", "the agents of the station", onAgents},
		{"/sessions", "", "the sessions of the station", onSessions},
		{"/history", "", "the messages of the session", onHistory},
		{"/save", "", "where the session is stored: it is saved after every input", onSave},
		{"/load", "SESSION", "go on with another session", onLoad},
		{"/export", "[FILE]", "write the conversation to a file: .json, else Markdown; SESSION.md if not given", onExport},
		{"/drop", "", "leave the output of a ! command out of the next input", onDrop},
		{"/clear", "", "forget the conversation; files stay", onClear},
		{"/exit", "", "leave; so do Ctrl+C and Ctrl+D at an empty prompt", onExit},
	}
}

// all are the commands of the program, and those that a person or a project made.
func (r *repl) all() []command { return append(commands(), r.own...) }

// inputError has an input sent in place of a command.
type inputError struct {
	text string
	// then, if not nil, is called once the input's run was completed, in place of what goes with an input of a person.
	then func(ctx context.Context) error
}

func (*inputError) Error() string { return "an input" }

// runCommand carries one out.
func (r *repl) runCommand(ctx context.Context, text string) error {
	name, arg, _ := strings.Cut(text, " ")
	arg = strings.TrimSpace(arg)
	var known []string
	for _, w := range r.all() {
		if w.name != name {
			known = append(known, w.name)
			continue
		}
		switch {
		case w.arg == "" && arg != "":
			return app.Usage("%s takes nothing behind it", name)
		case w.arg != "" && arg == "" && !strings.HasPrefix(w.arg, "["):
			return app.Usage("%s wants more: %s %s", name, name, w.arg)
		}
		wait, cancel := context.WithTimeout(ctx, r.app.Wait)
		defer cancel()
		return w.run(wait, r, arg)
	}
	if near := didyoumean.Word(name, known); near != "" {
		return app.Usage("there is no command %s; did you mean %s?", name, near)
	}
	return app.Usage("there is no command %s; /help lists them. A line that should begin with / needs a space before it",
		name)
}

// banner prints what the conversation is (SESS-16).
func (r *repl) banner(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, r.app.Wait)
	defer cancel()
	s, err := r.c.Sessions().Get(wait, r.flags.Session)
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return err
	}
	p, out := r.app.Paint(), r.app.Out
	if !r.input.Interactive() {
		return nil // a script wants the answers alone
	}
	most := r.flags.MaxSteps
	if most == 0 {
		most = r.agent.MaxSteps
	}
	if most == 0 {
		most = events.DefaultOptions().MaxSteps
	}
	fmt.Fprintf(out, "%s  %s\n", p.Bold(r.agent.Name), p.Dim(cmp.Or(r.flags.Model, r.agent.Model)))
	steps := fmt.Sprintf("0 of %d steps used", most)
	if r.last.Sequence > 0 {
		steps = fmt.Sprintf("%d of %d steps used", r.last.Turns().Len(), most)
	}
	about := "a new one"
	if s.Runs > 0 {
		about = fmt.Sprintf("%s so far, %s tokens in, %s out", view.Plural(s.Runs, "input"), view.Count(s.InputTokens),
			view.Count(s.OutputTokens))
	}
	fmt.Fprintf(out, "%s\n", p.Dim("session "+r.flags.Session+" · "+about+" · "+steps+" · /help"))
	if s.Stale(time.Now()) {
		fmt.Fprintln(out, p.Yellow(staleNote(s)))
	}
	for _, h := range s.Holders {
		fmt.Fprintln(out, p.Yellow(fmt.Sprintf("run %s of %s works in this session: an input waits for its end, or stop it with: inspan stop %s", h.Run, view.Clip(h.Agent, 60), h.Run)))
	}
	return nil
}

func staleNote(s events.Session) string {
	return fmt.Sprintf("This session was last used %s ago: what it knows of the files may be out of date.",
		view.Since(s.UsedAt, time.Now()))
}

func onHelp(_ context.Context, r *repl, _ string) error {
	p, wide := r.app.Paint(), 0
	for _, w := range r.all() {
		wide = max(wide, len(w.name+w.arg))
	}
	for _, w := range r.all() {
		gap := strings.Repeat(" ", wide-len(w.name+w.arg))
		fmt.Fprintf(r.app.Out, "  %s %s%s  %s\n", p.Bold(w.name), w.arg, gap, p.Dim(view.Clip(w.doc, 200)))
	}
	for _, line := range []string{
		"Anything else is a task. Ctrl+C stops the task under way and keeps what was said.",
		`A line that ends with \ goes on on the next, so does Alt+Enter; what is pasted is one input. Ctrl+R searches earlier inputs.`,
		"@FILE attaches a file of this directory as data. !COMMAND runs one in your own shell; its output goes with the next input.",
		"Commands of your own are Markdown files in " + ownDir() + ", those of a project in " + app.ProjectCommands +
			" once inspan trust accepted them."} {
		for part := range strings.SplitSeq(r.app.Wrapped(line, 2), "\n") {
			fmt.Fprintf(r.app.Out, "  %s\n", p.Dim(part))
		}
	}
	return nil
}

func onTools(_ context.Context, r *repl, _ string) error {
	if len(r.agent.Tools) == 0 {
		fmt.Fprintf(r.app.Out, "  %s has no tools\n", r.agent.Name)
	}
	for _, t := range r.agent.Tools {
		fmt.Fprintf(r.app.Out, "  %s\n", view.Clip(t, 80))
	}
	return nil
}

// messages are those of the session, none where it is new.
func (r *repl) messages(ctx context.Context) ([]events.Message, error) {
	h, err := r.c.Sessions().History(ctx, r.flags.Session)
	if errors.Is(err, client.ErrNotFound) {
		return nil, nil
	}
	return h.Messages, err
}

func onHistory(ctx context.Context, r *repl, _ string) error {
	all, err := r.messages(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(r.app.Out, "  the session has no messages yet")
	}
	p := r.app.Paint()
	for _, m := range all {
		switch m.Role {
		case events.RoleUser:
			fmt.Fprintf(r.app.Out, "%s%s\n", p.Bold(inputPrompt), p.Bold(view.Clip(m.Content, 400)))
		case events.RoleAssistant:
			if m.Content != "" {
				fmt.Fprintf(r.app.Out, "  %s\n", view.Clip(m.Content, 400))
			}
			for _, c := range m.Calls {
				fmt.Fprintf(r.app.Out, "  %s %s\n", p.Cyan(view.Clip(c.Name, 40)), view.Input(c.Input))
			}
		case events.RoleTool:
			for _, res := range m.Results {
				fmt.Fprintf(r.app.Out, "    %s\n", p.Dim(view.Gist(res.Output, true)))
			}
		}
	}
	return nil
}

func onSave(ctx context.Context, r *repl, _ string) error {
	s, err := r.c.Sessions().Get(ctx, r.flags.Session)
	if errors.Is(err, client.ErrNotFound) {
		fmt.Fprintln(r.app.Out, "  nothing to save yet: the session begins with the first input")
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(r.app.Out, "  saved: %s in session %s of station %s\n  go on with: inspan repl %s --session %s\n",
		view.Plural(s.Messages, "message"), s.ID, r.c.Station(), r.agent.Name, s.ID)
	return nil
}

func onLoad(ctx context.Context, r *repl, name string) error {
	if err := events.CheckID("session", name); err != nil {
		return err
	}
	if _, err := r.c.Sessions().Get(ctx, name); err != nil {
		if errors.Is(err, client.ErrNotFound) {
			return app.Exit(app.ExitUnknown,
				fmt.Errorf("there is no session %q; inspan session list shows them, and a new one begins with: inspan repl %s --session %s", name, r.agent.Name, name))
		}
		return err
	}
	r.flags.Session = name
	return r.banner(ctx)
}

func onClear(ctx context.Context, r *repl, _ string) error {
	_, err := r.c.Sessions().Control(ctx, r.flags.Session, events.SessionControl{Action: "clear", By: r.app.Me(),
		Reason: "cleared at the prompt"})
	if errors.Is(err, client.ErrNotFound) {
		err = nil // nothing was said
	}
	if err == nil {
		fmt.Fprintln(r.app.Out, "  forgotten; the files of the session stay")
	}
	return err
}

func onExit(context.Context, *repl, string) error { return errLeave }

// onExport writes the conversation to a file that is not there yet.
func onExport(ctx context.Context, r *repl, path string) error {
	path = cmp.Or(path, r.flags.Session+".md")
	all, err := r.messages(ctx)
	if err != nil {
		return err
	}
	var b []byte
	if filepath.Ext(path) == ".json" {
		if b, err = json.MarshalIndent(map[string]any{"session_id": r.flags.Session, "agent": r.agent.Name, "messages": all},
			"", "  "); err != nil {
			return err
		}
	} else {
		b = []byte(markdown(r.flags.Session, all))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return app.Usage("%s is there already: name another file", path)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	fmt.Fprintf(r.app.Out, "  %s written to %s\n", view.Plural(len(all), "message"), path)
	return nil
}

// markdown is a conversation for reading. Messages are quoted, so that they cannot look like anything else.
func markdown(session string, all []events.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Session %s\n", session)
	fence := func(text string) {
		marks := "```"
		for strings.Contains(text, marks) {
			marks += "`"
		}
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n", marks, strings.TrimRight(view.Whole(text), "\n"), marks)
	}
	for _, m := range all {
		switch m.Role {
		case events.RoleUser:
			b.WriteString("\n## Input\n")
			fence(m.Content)
		case events.RoleAssistant:
			fmt.Fprintf(&b, "\n## %s\n", cmp.Or(m.Metadata.Agent, "Agent"))
			if m.Content != "" {
				fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(view.Whole(m.Content)))
			}
			for _, c := range m.Calls {
				fmt.Fprintf(&b, "\nCall of %s:\n", view.Clip(c.Name, 80))
				fence(string(c.Input))
			}
		case events.RoleTool:
			for _, res := range m.Results {
				fmt.Fprintf(&b, "\nResult of %s:\n", view.Clip(res.Name, 80))
				fence(res.Output)
			}
		}
	}
	return b.String()
}
