package capture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// Results stores what calls answer.
type Results struct {
	Blobs kernel.Blobs
	// Mask takes the secrets out of a text.
	Mask func(string) string
	// Instance is the toolrunner that jobs belong to.
	Instance string
}

// Store stores what is too large for the log and returns the rest.
func (k Results) Store(ctx context.Context, res tool.Result, took time.Duration) (call.Result, error) {
	if res.Full != nil {
		res.Full = []byte(k.Mask(string(res.Full)))
	}
	images, note, err := k.images(ctx, res.Images)
	if err != nil {
		return call.Result{}, err
	}
	res.Output = k.Mask(res.Output) + note
	out := call.Result{Images: images, Output: strings.ToValidUTF8(res.Output, "\uFFFD"), Success: !res.Failed,
		ExitCode: res.ExitCode, Took: took, Dir: res.Dir}
	if b := res.Background; b != nil {
		out.Background = &events.Background{ID: b.Handle, At: b.At}
		if b.Started {
			out.Background.Runner = k.Instance
		}
	}
	full := res.Full
	if len(out.Output) > events.MaxInlineOutput {
		if full == nil {
			full = []byte(res.Output)
		}
		out.Output = strings.ToValidUTF8(out.Output[:events.MaxInlineOutput/2], "") +
			fmt.Sprintf("\n... truncated: %d bytes in total, the full output is stored", len(full))
	}
	if full != nil {
		ref, err := k.Blobs.Put(ctx, "output", full)
		if err != nil {
			return call.Result{}, fmt.Errorf("store the output: %w", err)
		}
		out.Ref = &ref
	}
	return out, nil
}

// images stores the pictures of a result. What a tool says of them is not believed: they are read again. note says
// which are left out, and why.
func (k Results) images(ctx context.Context, all []tool.Image) (kept []events.Image, note string, err error) {
	for n, given := range all {
		if n == tool.MaxImages {
			note += fmt.Sprintf("\n(%d more images are omitted: a result has at most %d.)", len(all)-n, tool.MaxImages)
			break
		}
		i, err := tool.ReadImage(given.Data)
		if err != nil {
			note += fmt.Sprintf("\n(Image %d is omitted: %s.)", n+1, call.ClipError(err.Error()))
			continue
		}
		ref, err := k.Blobs.Put(ctx, "image", i.Data)
		if err != nil {
			return nil, "", fmt.Errorf("store an image: %w", err)
		}
		kept = append(kept, events.Image{Ref: ref, MediaType: i.MediaType, Width: i.Width, Height: i.Height})
	}
	return kept, note, nil
}

// Failure is what is recorded of a failed attempt: its class and its hint have places of their own.
func (k Results) Failure(cause error, took time.Duration) call.Failure {
	f := call.Failure{Class: string(tool.ClassOf(cause)), Took: took}
	f.Transient = f.Class == string(tool.Transient)
	if e, ok := errors.AsType[*tool.Error](cause); ok {
		f.Hint, f.RetryAfter = k.Mask(e.Hint), e.RetryAfter
		if e == cause && e.Err != nil { //nolint:errorlint // wrapped in another, they stand in the middle of a text
			cause = e.Err
		}
	}
	f.Error = call.ClipError(k.Mask(cause.Error()))
	return f
}
