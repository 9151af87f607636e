// Package runtime drives agents that are programs of others: it reads what a project says of them and is the port to
// the protocols that they speak.
//
// Promises: a program is a stranger. What it prints is bounded in bytes and in lines, and is data; what it asks to do
// is handed to whoever started it, and answered only with what that decided. A program that does not end when it is
// asked to is signalled and then killed, with all that it started. Secrets are looked up by their names and nowhere
// written.
package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
)

// Errors that callers tell apart.
var (
	// ErrFlood means that a program printed more than it may.
	ErrFlood = errors.New("the program printed more than it may")
	// ErrEnded means that a program ended in the middle of a conversation.
	ErrEnded = errors.New("the program has ended")
	// ErrProtocol means that a program does not speak the protocol that it was registered with.
	ErrProtocol = errors.New("the program does not follow its protocol")
	// ErrStuck means that a program is silent for longer than its runtime says, although it is at no call and waits for
	// no answer.
	ErrStuck = errors.New("the program was silent, and at nothing that it had told of,")
	// ErrCannotResume means that a session cannot be gone on with.
	ErrCannotResume = errors.New("the session cannot be gone on with")
)

// Kind of an update.
type Kind int

// The kinds of updates.
const (
	// Text and Thought are pieces of what the program says.
	Text Kind = iota + 1
	Thought
	// ToolCall is something that the program does inside, or what became of it.
	ToolCall
	// Tokens are what the program says that it used.
	Tokens
)

// Update is one thing that a program tells about its work.
type Update struct {
	Kind  Kind
	Text  string
	Tool  Tool
	Usage Usage
}

// Tool is one thing that a program does inside.
type Tool struct {
	// ID is the program's own name of it.
	ID string
	// Name is one of events.InnerTools, Title what the program calls it.
	Name, Title string
	// Input are the arguments that the program reports.
	Input json.RawMessage
	// Paths are the files that it is about, as far as the program says.
	Paths []string
	// Ended is true once it came to an end; Failed and Output say how.
	Ended, Failed bool
	Output        string
}

// Usage is what a program says that it used, so far in the conversation.
type Usage struct{ Input, Output, Cached int }

// Host is whoever a program works for. It is called from several goroutines.
type Host interface {
	// Session is called once a session is known by its name, and before its first prompt where that is possible.
	Session(ctx context.Context, id string) error
	// Update is called in the order in which the program tells.
	Update(Update)
	// Permit is asked before the program does something, and returns once that is decided. With an error the program is
	// refused.
	Permit(ctx context.Context, t Tool) (Permission, error)
}

// Permission is the answer to a program that asks.
type Permission struct {
	Allowed bool
	// Reason of a refusal, which the program is told where its protocol has a place for it.
	Reason string
}

// Spec is a program that is to be started.
type Spec struct {
	Runtime events.Runtime
	Sandbox sandbox.Sandbox
	// Secrets are those of the toolrunner, by name.
	Secrets map[string]secret.Value
	// Env are further variables, which take the place of those of the runtime.
	Env []string
	// Session is the name of a new session where the protocol lets the client choose one. Resume is that of one to go
	// on with; empty begins a new one.
	Session, Resume string
	Host            Host
	// Most is what the program may print in all, in bytes; 0 means MaxPrinted.
	Most int
}

// Driver speaks one protocol.
type Driver interface {
	// Start starts a program and begins or resumes a session. It returns ErrCannotResume where the session is lost.
	Start(ctx context.Context, s Spec) (Conversation, error)
}

// Conversation is a program that runs. Its methods are called by one goroutine.
type Conversation interface {
	// Prompt sends a text and returns when the program has done with it. Where ctx ends the program is asked to stop, and
	// the error is that of ctx.
	Prompt(ctx context.Context, text string) (Reply, error)
	// Close ends the program and waits for it.
	Close()
}

// Reply is how a program ended its work on a prompt.
type Reply struct {
	// Text is all that it said, at most MaxText bytes of it.
	Text string
	// Failed is true where the program says that it did not do it; Reason says why.
	Failed bool
	Reason string
	Usage  Usage
}

// MaxText is how much of what a program says is kept, in bytes: the end, where it sums up.
const MaxText = 1 << 20

// Words are what a program says in one prompt. The zero value is ready.
type Words struct {
	b   strings.Builder
	cut bool
}

// Add adds a piece.
func (w *Words) Add(text string) {
	if w.b.Len()+len(text) <= MaxText {
		w.b.WriteString(text)
		return
	}
	all := w.b.String() + text
	w.b.Reset()
	w.b.WriteString(strings.ToValidUTF8(all[max(0, len(all)-MaxText/2):], ""))
	w.cut = true
}

// String is what was said.
func (w *Words) String() string {
	if w.cut {
		return "[what was said before is left out]\n" + w.b.String()
	}
	return w.b.String()
}

// Isolates reports whether a sandbox keeps commands from the machine, so that a program may act without asking.
func Isolates(m sandbox.Mode) bool { return m.Strength() > 0 }
