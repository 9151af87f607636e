package tool

import (
	"context"
	"encoding/json"
	"time"
)

// MaxBackground is how long a command may run beyond its call, where its step does not end before.
const MaxBackground = 4 * time.Hour

// Background is what the commands of a step do beyond the calls that started them. They end with the step, with their
// run, and with the toolrunner that started them, and are never started again. Its errors are *Error; a handle that is
// none of the step is one of class Invalid.
type Background interface {
	// Start runs a command in a sandbox of the step and returns its handle. It is ended at its time limit, which is
	// MaxBackground where limit is 0.
	Start(ctx context.Context, c BackgroundCommand) (handle string, err error)
	// Look returns what a command wrote behind the first after bytes. Where there is nothing yet and it runs, it waits
	// for more, at most wait and not longer than ctx.
	Look(ctx context.Context, handle string, after int64, wait time.Duration) (BackgroundLook, error)
	// List returns the commands of the step, the oldest first, without their output.
	List(ctx context.Context) ([]BackgroundLook, error)
	// Kill ends a command and all it started, and returns when it is gone. It may be called again.
	Kill(ctx context.Context, handle string) (BackgroundLook, error)
	// Shown is how many bytes of a command's output the results of earlier calls showed.
	Shown(handle string) int64
}

// BackgroundCommand is a command to be started.
type BackgroundCommand struct {
	Args []string
	// Dir is relative to the workspace; empty means its root.
	Dir string
	// Text is what people see of it.
	Text string
	// Limit is how long it may run.
	Limit time.Duration
}

// BackgroundLook is a command as it is at a moment.
type BackgroundLook struct {
	Handle string
	// Text as BackgroundCommand has it; hostile, as Output.
	Text string
	// Output is standard output and standard error as they came, of From to To bytes from the beginning. What was
	// between the place that was asked for and From is not kept any more.
	Output   []byte
	From, To int64
	// Total is how many bytes it wrote so far.
	Total int64
	// Running is false once it and all it started are gone. Then End says how: "exit status 0", "ended by signal
	// SIGSEGV", or why it was ended.
	Running bool
	End     string
	// ExitCode is nil where it did not end by itself.
	ExitCode *int
	// Lost is true where no one can say more of it: its toolrunner is gone, and it with that.
	Lost bool
	// Took is how long it ran until now.
	Took time.Duration
}

// Continuing is implemented by tools that go on with what earlier calls of their step left running: they are carried
// out where that is.
type Continuing interface {
	// Continues returns the handle that a call is about; empty for all of the step. ok is false where it is about none.
	Continues(input json.RawMessage) (handle string, ok bool)
}
