package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

const bashOutputSchema = `{"type":"object","additionalProperties":false,"properties":{
"bash_id":{"type":"string","minLength":1,"maxLength":256,"description":"handle that bash returned; if absent, the commands of this step are listed"},
"filter":{"type":"string","minLength":1,"maxLength":1024,"description":"regular expression (RE2): only lines that match are shown, the others are discarded"},
"wait_ms":{"type":"integer","minimum":0,"maximum":60000,"description":"milliseconds to wait for new output or for the end of the command"}}}`

const killShellSchema = `{"type":"object","additionalProperties":false,"required":["shell_id"],"properties":{
"shell_id":{"type":"string","minLength":1,"maxLength":256,"description":"handle that bash returned"}}}`

// maxTitle is the most bytes shown of a command's text.
const maxTitle = 120

type bashOutputArgs struct {
	ID     string `json:"bash_id"`
	Filter string
	WaitMS int64 `json:"wait_ms"`
}

type killShellArgs struct {
	ID string `json:"shell_id"`
}

type (
	bashOutput struct{ builtin[bashOutputArgs] }
	killShell  struct{ builtin[killShellArgs] }
)

var (
	_               tool.Timed      = bashOutput{}
	_, _            tool.Continuing = bashOutput{}, killShell{}
	errNoBackground                 = errors.New("this agent cannot run commands in the background")
)

// TimeoutFor implements tool.Timed.
func (bashOutput) TimeoutFor(input json.RawMessage) time.Duration {
	a, err := decode[bashOutputArgs](input)
	if err != nil {
		return tool.DefaultTimeout
	}
	return tool.DefaultTimeout + time.Duration(min(max(a.WaitMS, 0), 60_000))*time.Millisecond
}

// Continues implements tool.Continuing.
func (bashOutput) Continues(input json.RawMessage) (string, bool) {
	a, err := decode[bashOutputArgs](input)
	return a.ID, err == nil
}

// Continues implements tool.Continuing.
func (killShell) Continues(input json.RawMessage) (string, bool) {
	a, err := decode[killShellArgs](input)
	return a.ID, err == nil
}

// background is what runs commands in the background.
func background(env tool.Env) (tool.Background, error) {
	if env.Background == nil {
		return nil, tool.Fail(tool.Denied, "run the command without run_in_background; background commands need the tools bash, bash_output and kill_shell in the agent's file", errNoBackground)
	}
	return env.Background, nil
}

// startJob starts a shell text in the folder that the step's shells are in, and leaves it running.
func startJob(ctx context.Context, a bashArgs, env tool.Env) (tool.Result, error) {
	b, err := background(env)
	if err != nil {
		return tool.Result{}, err
	}
	dir, gone, err := startDir(env)
	if err != nil {
		return tool.Result{}, err
	}
	limit := tool.MaxBackground
	if a.TimeoutMS > 0 {
		limit = time.Duration(a.TimeoutMS) * time.Millisecond
	}
	argv := []string{"bash", "-c", a.Command}
	if sandbox.Outlives(env.Sandbox) {
		argv = []string{"bash", "-c", jobFrame, "bash", a.Command}
	}
	handle, err := b.Start(ctx, tool.BackgroundCommand{Args: argv, Dir: dir, Text: a.Command, Limit: limit})
	if err != nil {
		return tool.Result{}, err
	}
	text := fmt.Sprintf("Started in the background as %s. bash_output reads its output, kill_shell ends it; it ends with this step, or after %s.", handle, limit)
	if gone != "" {
		text += fmt.Sprintf("\n[the folder %s is missing: the command runs in the workspace]", oneLine(gone))
	}
	return tool.Result{Output: text, Background: &tool.BackgroundShown{Handle: handle, Started: true}}, nil
}

func runBashOutput(ctx context.Context, a bashOutputArgs, env tool.Env) (tool.Result, error) {
	b, err := background(env)
	if err != nil {
		return tool.Result{}, err
	}
	if a.ID == "" {
		return listJobs(ctx, b, env)
	}
	var filter *regexp.Regexp
	if a.Filter != "" {
		if filter, err = regexp.Compile(a.Filter); err != nil {
			return failed("bash_output: invalid regular expression %q: %v", a.Filter, err), nil
		}
	}
	after := b.Shown(a.ID)
	look, err := b.Look(ctx, a.ID, after, time.Duration(a.WaitMS)*time.Millisecond)
	if err != nil {
		return tool.Result{}, err
	}
	look = wholeText(look)
	r := tool.Show(env, title(look)+"\n"+news(look, after, filter))
	r.Failed = look.Lost
	if !look.Lost {
		r.Background = &tool.BackgroundShown{Handle: look.Handle, At: look.To}
	}
	return r, nil
}

// wholeText holds back the first bytes of a character that is cut at the end of an output.
func wholeText(l tool.BackgroundLook) tool.BackgroundLook {
	for back := 1; l.Running && back < utf8.UTFMax && back <= len(l.Output); back++ {
		if at := len(l.Output) - back; utf8.RuneStart(l.Output[at]) {
			if !utf8.FullRune(l.Output[at:]) {
				l.Output, l.To = l.Output[:at], l.To-int64(back)
			}
			break
		}
	}
	return l
}

// news returns the part of an output that is shown.
func news(l tool.BackgroundLook, after int64, filter *regexp.Regexp) string {
	var b strings.Builder
	if lost := l.From - after; lost > 0 {
		fmt.Fprintf(&b, "... %d earlier bytes are no longer retained ...\n", lost)
	}
	if len(l.Output) == 0 {
		b.WriteString("(no new output)")
		return b.String()
	}
	if filter == nil {
		b.Write(l.Output)
		return b.String()
	}
	shown, all := 0, 0
	for line := range strings.Lines(string(l.Output)) {
		if all++; filter.MatchString(line[:min(len(line), maxMatched)]) {
			b.WriteString(line)
			shown++
		}
	}
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "(%d of %d new lines match)", shown, all)
	return b.String()
}

// title is one line with a command and its state.
func title(l tool.BackgroundLook) string {
	text := l.Text
	if len(text) > maxTitle {
		text = strings.ToValidUTF8(text[:maxTitle], "") + "..."
	}
	took := l.Took.Round(100 * time.Millisecond)
	switch {
	case l.Lost:
		return fmt.Sprintf("[%s is no longer running and its output is lost: %s]", oneLine(l.Handle), l.End)
	case l.Running:
		return fmt.Sprintf("[%s has been running for %s, %d bytes written: %s]", oneLine(l.Handle), took, l.Total,
			oneLine(text))
	}
	return fmt.Sprintf("[%s ended after %s, %s, %d bytes written: %s]", oneLine(l.Handle), took, l.End, l.Total,
		oneLine(text))
}

func listJobs(ctx context.Context, b tool.Background, env tool.Env) (tool.Result, error) {
	all, err := b.List(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	if len(all) == 0 {
		return tool.Result{Output: "this step has started no background commands"}, nil
	}
	var lines []string
	for _, l := range all {
		line := title(l)
		if unread := l.Total - b.Shown(l.Handle); unread > 0 && !l.Lost {
			line += fmt.Sprintf(" %d bytes unread", unread)
		}
		lines = append(lines, line)
	}
	return tool.Show(env, strings.Join(lines, "\n")), nil
}

func runKillShell(ctx context.Context, a killShellArgs, env tool.Env) (tool.Result, error) {
	b, err := background(env)
	if err != nil {
		return tool.Result{}, err
	}
	look, err := b.Kill(ctx, a.ID)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Show(env, title(look)), nil
}
