package agentfile

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/events"
)

// MaxRendered is the most bytes of the two messages together.
const MaxRendered = 4 << 20

// RenderInput is all that a template can show.
type RenderInput struct {
	// Task is the value of userInput.
	Task string
	// Variables of the task, shown by {{x}} and {{input.x}}.
	Variables map[string]string
	// The rest is shown by the names in Builtins; an empty one shows as nothing.
	Station, Run, Step, StepDescription, Workspace string
}

// Rendered holds the first messages of a conversation. User is never blank unless the task is.
type Rendered struct{ System, User string }

// Builtins are the names that a template can always show, in order. A variable of the same name is reached by
// {{input.name}}.
func Builtins() []string {
	return []string{"agent", "run", "station", "step", "stepDescription", "tools", wordTask, "workspace"}
}

// Render fills an agent's template. It is a function of its arguments alone. The space around a message that the
// template wrote is trimmed, that of values is not. Where the template does not show the task at all, the task
// follows what it says to the user, and where it says nothing to the user, the task is the user's message. Errors
// are *Error: CodeTemplate, CodeVariable for a name without a value, CodeLimit above MaxRendered.
func Render(a events.Agent, in RenderInput) (Rendered, error) {
	file := a.Name + Ext
	pieces, err := parseTemplate(a.Prompt, 1)
	if err != nil {
		return Rendered{}, inBody(err, file)
	}
	var parts [2][]string
	total, tasked := len(in.Task), false
	trim(pieces)
	for _, p := range pieces {
		text := p.text
		if p.name != "" {
			v, ok := value(a, in, p.name)
			if !ok {
				return Rendered{}, inBody(unresolved(in, p), file)
			}
			text, tasked = v, tasked || p.name == wordTask
		}
		if total += len(text); total > MaxRendered {
			return Rendered{}, &Error{Code: CodeLimit, File: file, Message: "the rendered prompt is too large",
				Expected: fmt.Sprintf("at most %d bytes", MaxRendered), Hint: "shorten the task or its variables"}
		}
		parts[p.role] = append(parts[p.role], text)
	}
	out := Rendered{System: strings.Join(parts[system], ""), User: strings.Join(parts[user], "")}
	switch {
	case strings.TrimSpace(out.User) == "":
		out.User = in.Task
	case !tasked:
		out.User += "\n\n" + in.Task
	}
	return out, nil
}

// inBody gives an error its file. Lines of a pinned agent count from the body's first line, since its frontmatter is
// not kept.
func inBody(err error, file string) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	e.File = "body of " + file
	return e
}

func value(a events.Agent, in RenderInput, name string) (string, bool) {
	switch name {
	case wordTask:
		return in.Task, true
	case "agent":
		return a.Name, true
	case "tools":
		return strings.Join(a.Tools, ", "), true
	case "station":
		return in.Station, true
	case "run":
		return in.Run, true
	case "step":
		return in.Step, true
	case "stepDescription":
		return in.StepDescription, true
	case "workspace":
		return in.Workspace, true
	}
	v, ok := in.Variables[strings.TrimPrefix(name, "input.")]
	return v, ok
}

func unresolved(in RenderInput, p piece) *Error {
	known := Builtins()
	for k := range in.Variables {
		known = append(known, "input."+k)
	}
	sort.Strings(known)
	e := &Error{Code: CodeVariable, Line: p.line, Path: p.name, Message: "the variable has no value",
		Hint: "known: " + first(known, 64)}
	if near := didyoumean.Word(p.name, append(known, bare(in.Variables)...)); near != "" {
		e.Expected = near
	}
	return e
}

func bare(variables map[string]string) []string {
	out := make([]string, 0, len(variables))
	for k := range variables {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// first joins at most n words.
func first(words []string, n int) string {
	more := ""
	if len(words) > n {
		words, more = words[:n], ", ..."
	}
	for i, w := range words {
		if len(w) > 80 {
			words[i] = shown(w)
		}
	}
	return strings.Join(words, ", ") + more
}

// trim takes the space that the template wrote off both ends of each message.
func trim(pieces []piece) {
	for _, r := range []role{system, user} {
		for i := range pieces {
			if pieces[i].role == r {
				if pieces[i].name != "" {
					break
				}
				if pieces[i].text = strings.TrimLeft(pieces[i].text, " \t\r\n"); pieces[i].text != "" {
					break
				}
			}
		}
		for i := len(pieces) - 1; i >= 0; i-- {
			if pieces[i].role == r {
				if pieces[i].name != "" {
					break
				}
				if pieces[i].text = strings.TrimRight(pieces[i].text, " \t\r\n"); pieces[i].text != "" {
					break
				}
			}
		}
	}
}
