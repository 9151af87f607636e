package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// captured is an executed call with what is recorded of it: its end, and what it made. All that is too large for the log is stored.
type captured struct {
	executed
	// end is what the attempt came to, for a state in which it is the current one.
	end func(s run.State, now time.Time) []events.Payload
	// shown says that the agent will see the output, with the news of its workspace.
	shown bool
	look  *capture.Look
}

// capturer stores what calls answer and make, and asks the hooks about it.
type capturer struct {
	blobs     kernel.Blobs
	artifacts *capture.Calls
	hooks     *hooks.Asker
	tools     tools
	instance  string
	mask      func(string) string
}

// capture stores the output of a call, asks the hooks about it, and stores what it made in its workspace.
func (c capturer) capture(ctx context.Context, x executed) captured {
	if x.err == nil {
		done, err := c.output(ctx, x.result, x.took)
		if err == nil {
			return c.judge(ctx, x, done)
		}
		x.err = err
	}
	a, f := x.attempt, failure(x.err, x.took, c.mask)
	f.Usage = x.usage
	if call.Last(x.state, a, f) {
		f.Hooks = c.hooks.AfterCall(ctx, x.state, a.Call, x.input, hooks.Outcome{Error: f.Error, Took: x.took})
	}
	return captured{executed: x, look: c.made(ctx, x),
		end: func(s run.State, now time.Time) []events.Payload { return call.Fail(s, a, f, now) }}
}

// judge asks the hooks about a result and looks for what the call made.
func (c capturer) judge(ctx context.Context, x executed, done call.Result) captured {
	a := x.attempt
	done.Notes, done.Usage = x.notes, x.usage
	full := done.Output
	done = call.Judged(done, c.hooks.AfterCall(ctx, x.state, a.Call, x.input, hooks.Outcome{Output: full, Success: done.Success, Took: done.Took}))
	look := c.made(ctx, x)
	if done.Ref != nil {
		c.artifacts.AddLog(look, x.state, a.Call, *done.Ref, time.Now())
	}
	return captured{executed: x, look: look, shown: done.Output == full, // else a hook held it back
		end: func(s run.State, _ time.Time) []events.Payload { return call.Finish(s, a, done) }}
}

// lost is an attempt of which it is not known what came of it; what it left in the workspace is kept.
func (c capturer) lost(ctx context.Context, at acquired) captured {
	d := at.duty
	x := executed{started: &started{acquired: at, attempt: call.Attempt{Call: d.Call, Fence: d.Call.Fence}}, changes: capture.Anything()}
	return captured{executed: x, look: c.made(ctx, x), end: func(s run.State, _ time.Time) []events.Payload { return call.Lost(s, d) }}
}

// made finds and stores what a call made.
func (c capturer) made(ctx context.Context, x executed) *capture.Look {
	t, _ := c.tools.find(x.state, x.attempt.Call)
	_, continuing := t.(tool.Continuing)
	return c.artifacts.Look(ctx, x.state, x.attempt.Call, x.Dir, x.changes, continuing)
}

// output stores what is too large for the log and returns the rest.
func (c capturer) output(ctx context.Context, res tool.Result, took time.Duration) (call.Result, error) {
	if res.Full != nil {
		res.Full = []byte(c.mask(string(res.Full)))
	}
	images, note, err := c.images(ctx, res.Images)
	if err != nil {
		return call.Result{}, err
	}
	res.Output = c.mask(res.Output) + note
	out := call.Result{Images: images, Output: strings.ToValidUTF8(res.Output, "\uFFFD"), Success: !res.Failed, ExitCode: res.ExitCode, Took: took, Dir: res.Dir}
	if b := res.Background; b != nil {
		out.Background = &events.Background{ID: b.Handle, At: b.At}
		if b.Started {
			out.Background.Runner = c.instance
		}
	}
	full := res.Full
	if len(out.Output) > events.MaxInlineOutput {
		if full == nil {
			full = []byte(res.Output)
		}
		out.Output = strings.ToValidUTF8(out.Output[:events.MaxInlineOutput/2], "") + fmt.Sprintf("\n... truncated: %d bytes in all, the whole is stored", len(full))
	}
	if full != nil {
		ref, err := c.blobs.Put(ctx, "output", full)
		if err != nil {
			return call.Result{}, fmt.Errorf("store the output: %w", err)
		}
		out.Ref = &ref
	}
	return out, nil
}

// images stores the pictures of a result. What a tool says of them is not believed: they are read again. note says which
// are left out, and why.
func (c capturer) images(ctx context.Context, all []tool.Image) (kept []events.Image, note string, err error) {
	for n, given := range all {
		if n == tool.MaxImages {
			note += fmt.Sprintf("\n(%d more images are left out: a result has at most %d.)", len(all)-n, tool.MaxImages)
			break
		}
		i, err := tool.ReadImage(given.Data)
		if err != nil {
			note += fmt.Sprintf("\n(Image %d is left out: %s.)", n+1, call.ClipError(err.Error()))
			continue
		}
		ref, err := c.blobs.Put(ctx, "image", i.Data)
		if err != nil {
			return nil, "", fmt.Errorf("store an image: %w", err)
		}
		kept = append(kept, events.Image{Ref: ref, MediaType: i.MediaType, Width: i.Width, Height: i.Height})
	}
	return kept, note, nil
}

// failure is what is recorded of a failed attempt: its class and its hint have places of their own.
func failure(cause error, took time.Duration, mask func(string) string) call.Failure {
	f := call.Failure{Class: string(tool.ClassOf(cause)), Took: took}
	f.Transient = f.Class == string(tool.Transient)
	if e, ok := errors.AsType[*tool.Error](cause); ok {
		f.Hint, f.RetryAfter = mask(e.Hint), e.RetryAfter
		if e == cause && e.Err != nil { //nolint:errorlint // wrapped in another, they stand in the middle of a text
			cause = e.Err
		}
	}
	f.Error = call.ClipError(mask(cause.Error()))
	return f
}
