// Package hook decides who is asked at a point of a run's life, and what follows from the answers.
//
// Promises: who is asked depends on the declarations alone, in their order: those of the station first, then those of
// the agent, and no declaration takes another back. Block is stronger than interrupt, interrupt than continue. An
// answer that cannot be read is a block. Nothing is asked here.
package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/pkg/events"
)

// Limits of hooks.
const (
	// Most hooks of one layer.
	Most = 16
	// MaxArgs of a command, each of at most MaxArg bytes.
	MaxArgs, MaxArg = 64, 4 << 10
	// MaxAnswer is the longest answer, in bytes.
	MaxAnswer = 64 << 10
	// MaxMessage is the longest message that is kept of an answer, in bytes.
	MaxMessage = 1 << 10
	// DefaultTimeout and MaxTimeout of one question.
	DefaultTimeout, MaxTimeout = 5 * time.Second, time.Minute
)

// Layers of declarations.
const (
	Station = "station"
	Agent   = "agent"
)

// Faults: why there is no answer.
const (
	FaultTimeout     = "timeout"     // none came in time
	FaultCrash       = "crash"       // the program could not be started or ended badly
	FaultMalformed   = "rubbish"     // it cannot be read
	FaultFlood       = "flood"       // it is longer than MaxAnswer
	FaultNoResponder = "nobody"      // no one listens on the subject
	FaultUnavailable = "unavailable" // this service cannot ask it
)

// ErrHook is wrapped by every error about a declaration.
var ErrHook = errors.New("hook")

// ErrAnswer is wrapped by every error about an answer.
var ErrAnswer = errors.New("answer of a hook")

// Due is a hook that is to be asked.
type Due struct {
	// Layer is Station or Agent.
	Layer string
	Hook  events.Hook
}

// Name is the layer and the id; no two hooks of a run have the same.
func (d Due) Name() string { return d.Layer + ":" + d.Hook.ID }

// Timeout of one question.
func (d Due) Timeout() time.Duration {
	if d.Hook.TimeoutMS <= 0 {
		return DefaultTimeout
	}
	return min(time.Duration(d.Hook.TimeoutMS)*time.Millisecond, MaxTimeout)
}

// For returns who is asked at a point, in order. tool is empty where no call is meant.
func For(station, agent []events.Hook, on, tool string) []Due {
	var due []Due
	for _, layer := range []struct {
		name  string
		hooks []events.Hook
	}{{Station, station}, {Agent, agent}} {
		for _, h := range layer.hooks {
			if h.On == on && (h.Tool == "" || tool == "" || guard.Covers(h.Tool, tool)) {
				due = append(due, Due{Layer: layer.name, Hook: h})
			}
		}
	}
	return due
}

// Why is the reason of an answer, for people and for the agent.
func Why(a events.HookAnswer) string {
	text := a.Message
	if text == "" {
		text = "it gave no reason"
	}
	if a.Fault != "" {
		return fmt.Sprintf("hook %s gave no valid answer (%s): %s", a.Hook, a.Fault, text)
	}
	return fmt.Sprintf("hook %s: %s", a.Hook, text)
}

// Read reads what a hook answered: {"answer":"continue"}, or block or interrupt with a message. Other fields are
// ignored. Errors wrap ErrAnswer.
func Read(raw []byte) (answer, message string, err error) {
	var a struct {
		Answer  *string `json:"answer"`
		Message string  `json:"message"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&a); err != nil {
		return "", "", fmt.Errorf(`%w is not JSON; answer {"answer":"continue"}`, ErrAnswer)
	}
	if d.More() {
		return "", "", fmt.Errorf("%w: data after the JSON object; answer one JSON object", ErrAnswer)
	}
	if a.Answer == nil {
		return "", "", fmt.Errorf(`%w has no "answer"; say continue, block or interrupt`, ErrAnswer)
	}
	switch *a.Answer {
	case events.HookContinue, events.HookBlock, events.HookInterrupt:
		return *a.Answer, Clip(a.Message), nil
	}
	return "", "", fmt.Errorf("%w is none of continue, block and interrupt", ErrAnswer)
}

// Clip shortens a message to MaxMessage, never inside a character, and leaves out what is no text.
func Clip(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) > MaxMessage {
		s = strings.ToValidUTF8(s[:MaxMessage-3], "") + "..."
	}
	return s
}

// Check says what is wrong with the declarations of one layer. builtin reports whether there is a built-in hook of a
// name; nil takes any.
func Check(hooks []events.Hook, builtin func(string) bool) error {
	if len(hooks) > Most {
		return fmt.Errorf("%w: %d in one list, at most %d", ErrHook, len(hooks), Most)
	}
	seen := map[string]bool{}
	for _, h := range hooks {
		if !events.ValidID(h.ID) {
			return fmt.Errorf("%w: id %q; give it one of A-Z a-z 0-9 _ and -", ErrHook, Clip(h.ID))
		}
		if seen[h.ID] {
			return fmt.Errorf("%w %s: the id is used twice; rename one of the two", ErrHook, h.ID)
		}
		seen[h.ID] = true
		if fault := fault(h, builtin); fault != "" {
			return fmt.Errorf("%w %s: %s", ErrHook, h.ID, fault)
		}
	}
	return nil
}

func fault(h events.Hook, builtin func(string) bool) string {
	ways := 0
	for _, set := range []bool{len(h.Command) > 0, h.Subject != "", h.Builtin != ""} {
		if set {
			ways++
		}
	}
	switch {
	case ways != 1:
		return "give exactly one of command, subject and builtin"
	case h.Subject != "" && !events.ValidID(h.Subject):
		return "subject is the last token of station.{station}.hook.{subject}: A-Z a-z 0-9 _ and -"
	case h.Builtin != "" && builtin != nil && !builtin(h.Builtin):
		return fmt.Sprintf("unknown built-in hook %q", Clip(h.Builtin))
	case len(h.Command) > MaxArgs:
		return fmt.Sprintf("command has %d words, at most %d", len(h.Command), MaxArgs)
	case h.TimeoutMS < 0 || h.TimeoutMS > MaxTimeout.Milliseconds():
		return fmt.Sprintf("timeout is up to %s", MaxTimeout)
	}
	for _, word := range h.Command {
		if len(word) > MaxArg || strings.ContainsRune(word, 0) {
			return fmt.Sprintf("an argument of command is longer than %d bytes or contains a NUL byte", MaxArg)
		}
	}
	switch h.On {
	case events.OnPreTool, events.OnPostTool:
		if h.Tool == "" {
			return ""
		}
		if err := guard.CheckGlob(h.Tool); err != nil {
			return "tool: " + err.Error()
		}
		return ""
	case events.OnRunStart, events.OnTurn, events.OnRunStop:
		if h.Tool != "" {
			return "tool is allowed only with pre_tool and post_tool"
		}
		return ""
	}
	return "on is none of run_start, turn, pre_tool, post_tool and run_stop"
}
