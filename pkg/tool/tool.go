// Package tool is the port between the harness and the things an agent can do.
//
// Promises: a tool says what it is (Spec) and does one call at a time (Run). It never sees NATS, the run's log or
// a secret; everything it may touch comes in its Env. A tool's answer is a Result for the model to read, also when
// the thing it tried did not work ("exit status 1" is a result). It returns an error only when the call itself could
// not be carried out, and says with a Class whether trying again can help.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/inspan/inspan/pkg/tool/sandbox"
)

// Effect says what may happen when a call is carried out twice. The strictest, Once, is the default.
type Effect string

const (
	// Read has no effect: it may be run again freely.
	Read Effect = "read"
	// Idempotent has the same effect however often it runs with the same Key.
	Idempotent Effect = "idempotent"
	// Reconcilable can tell, through Verifier, whether an earlier attempt took effect.
	Reconcilable Effect = "reconcilable"
	// Once must never be run a second time by the machine.
	Once Effect = "once"
)

// DefaultTimeout bounds a call whose Spec does not say (TOOL-6).
const DefaultTimeout = 30 * time.Second

// Spec describes a tool to the model, the guards and the toolrunner.
type Spec struct {
	// Name is what the model calls: [a-z0-9_]{1,64}, or mcp__SERVER__TOOL of at most 64 characters of A-Z a-z 0-9 _ -
	// for a tool of an MCP server.
	Name string
	// Description is what the model reads, from the tool's x.md.
	Description string
	// Input is the JSON Schema of the arguments (type object).
	Input json.RawMessage
	// Effect class; empty means Once.
	Effect Effect
	// Timeout of one attempt; zero means DefaultTimeout.
	Timeout time.Duration
}

// EffectOf returns the effect class with its default applied.
func (s Spec) EffectOf() Effect {
	if s.Effect == "" {
		return Once
	}
	return s.Effect
}

// TimeoutOf returns the time limit of one attempt with its default applied.
func (s Spec) TimeoutOf() time.Duration {
	if s.Timeout <= 0 {
		return DefaultTimeout
	}
	return s.Timeout
}

// Tool is one thing an agent can do.
type Tool interface {
	Spec() Spec
	// Run carries out one attempt. ctx ends at the call's timeout or when the run is stopped; the tool must then
	// end everything it started before it returns.
	Run(ctx context.Context, c Call) (Result, error)
}

// Verifier is implemented by Reconcilable tools.
type Verifier interface {
	// Verify reports whether an earlier attempt of the same call took effect, and if so with what result.
	Verify(ctx context.Context, c Call) (done bool, r Result, err error)
}

// Timed is implemented by tools whose time limit depends on the arguments (for example bash with timeout_ms).
type Timed interface {
	TimeoutFor(input json.RawMessage) time.Duration
}

// Call is one attempt of one tool call.
type Call struct {
	// Run is the id of the run, ID that of the call, unique in its run.
	Run, ID string
	// Key is the idempotency key: the same for each attempt of the same call.
	Key string
	// Input holds the arguments, already checked against the tool's schema.
	Input json.RawMessage
	// Env is all the tool may touch.
	Env Env
}

// Env is the world of a call.
type Env struct {
	// Box runs commands and reads and writes files inside the run's workspace. Never nil.
	Sandbox sandbox.Sandbox
	// Progress takes output as it comes, for watchers; never nil, may be called from several goroutines.
	Progress func(stream string, chunk []byte)
	// MaxOutput is the most bytes of output the model is shown; above it the tool truncates and puts all of it in
	// Result.Full.
	MaxOutput int
	// Fetch sends one request to a host that the agent's file lets its calls reach, and follows no redirect; nil where
	// it lets them reach none. The answer is of strangers, and its body must be closed.
	Fetch func(*http.Request) (*http.Response, error)
	// Save keeps a file of the workspace as an artifact; nil where none are kept. Its error is a *Error.
	Save func(ctx context.Context, s Saving) (Saved, error)
	// Git works on the repository of the workspace; nil where the station does no git work.
	Git Git
	// Skill returns the text of a skill that was pinned with the agent; nil where nothing is pinned.
	Skill func(name string) (text string, ok bool)
	// Dir returns the folder of the workspace that a shell begins in, as the last Result with a Dir left it; nil, ""
	// and "." are the workspace. It may be gone.
	Dir func() string
	// Background runs commands beyond their call; nil where the agent may not.
	Background Background
	// Inner records what a program of others does inside of the call; nil for all tools but the one that drives such
	// programs.
	Inner Inner
	// Local serves requests of the commands of the call, until the call ends; base is the address that they reach it at.
	// ok is false where the sandbox has no such address. Nil serves none.
	Local func(h http.Handler) (base string, ok bool)
}

// Saving asks for a file of the workspace to be kept.
type Saving struct {
	// Path in the workspace.
	Path string
	// Type is file, log, report, screenshot or data, and Name what people see; empty means by the path.
	Type, Name string
}

// Saved is what was kept.
type Saved struct {
	Name, Type, ContentType string
	Size                    int64
}

// Result is what the model reads.
type Result struct {
	// Output is UTF-8 text, at most Env.MaxOutput bytes and a line that says what was left out.
	Output string
	// Full is the whole output where Output is truncated, otherwise nil. The toolrunner stores it as an object.
	Full []byte
	// Images are pictures that the model is shown with Output, at most MaxImages, each as ReadImage returns it.
	Images []Image
	// Failed is true where the thing tried did not work (file not found, non-zero exit): the model should know.
	Failed bool
	// ExitCode of a command, where there was one.
	ExitCode *int
	// Dir is the folder of the workspace, by its path in it, that the next shell begins in; empty where that stays.
	Dir string
	// Background is the command that the call left running, or whose output it shows; nil for none.
	Background *BackgroundShown
}

// BackgroundShown says which command runs on, and how many bytes of its output were shown with the result.
type BackgroundShown struct {
	Handle string
	At     int64
	// Started is true in the result of the call that started it.
	Started bool
}

// Class says what a failed attempt means for the next one.
type Class string

const (
	// Transient failures (network timeout, rate limit) may be tried again.
	Transient Class = "transient"
	// Permanent failures will fail again.
	Permanent Class = "permanent"
	// Invalid means the arguments are wrong: the model should fix them.
	Invalid Class = "invalid"
	// Timeout means the attempt was cancelled at its time limit.
	Timeout Class = "timeout"
	// Denied means a wall of the sandbox or workspace refused it.
	Denied Class = "denied"
	// Unknown means that what carried out the call was lost in the middle: no one knows whether it took effect. The
	// machine never makes the call again.
	Unknown Class = "outcome_unknown"
)

// Error is a failed attempt.
type Error struct {
	Class Class
	// Hint says what to do next; shown to the model.
	Hint string
	// RetryAfter is the least time to wait before another attempt, where the other side said so.
	RetryAfter time.Duration
	Err        error
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return fmt.Sprintf("%s: %v", e.Class, e.Err)
	}
	return fmt.Sprintf("%s: %v (%s)", e.Class, e.Err, e.Hint)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of an error; anything unclassified is Permanent, so that nothing is tried again by
// accident.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Timeout
	}
	return Permanent
}

// Fail makes an *Error.
func Fail(class Class, hint string, err error) error {
	return &Error{Class: class, Hint: hint, Err: err}
}
