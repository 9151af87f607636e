package toolrunner

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

func TestFailure(t *testing.T) {
	t.Parallel()
	same := func(s string) string { return s }
	busy := tool.Fail(tool.Transient, "wait a little", errors.New("the line is busy"))
	for _, tc := range []struct {
		name  string
		cause error
		want  call.Failure
	}{
		{"a class and a hint are said once, each in its place", busy, call.Failure{Error: "the line is busy", Class: "transient", Hint: "wait a little", Transient: true, Took: time.Second}},
		{"one in the middle of a text stays there", fmt.Errorf("dial: %w", busy),
			call.Failure{Error: "dial: transient: the line is busy (wait a little)", Class: "transient", Hint: "wait a little", Transient: true, Took: time.Second}},
		{"anything else will fail again", errors.New("no such thing"), call.Failure{Error: "no such thing", Class: "permanent", Took: time.Second}},
		{"a class without a cause", &tool.Error{Class: tool.Timeout}, call.Failure{Error: "timeout: <nil>", Class: "timeout", Took: time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := failure(tc.cause, time.Second, same); got.Error != tc.want.Error || got.Class != tc.want.Class || got.Hint != tc.want.Hint || got.Transient != tc.want.Transient || got.Took != tc.want.Took {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestCapture(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-9 what is too large for the log is stored, and secrets are in neither", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		text := "open sesame " + strings.Repeat("x", events.MaxInlineOutput)
		got, err := b.role.capture.output(t.Context(), tool.Result{Output: text}, time.Second)
		if err != nil || got.Ref == nil || len(got.Output) > events.MaxInlineOutput || strings.Contains(got.Output, "sesame") || !got.Success {
			t.Fatalf("got %d bytes, %+v, %v", len(got.Output), got.Ref, err)
		}
		whole, err := b.st.Blobs().Get(t.Context(), *got.Ref)
		if err != nil || strings.Contains(string(whole), "sesame") || len(whole) < events.MaxInlineOutput {
			t.Errorf("stored %d bytes, %v", len(whole), err)
		}
	})
	t.Run("a picture that is none is left out, and the result says so", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		got, err := b.role.capture.output(t.Context(), tool.Result{Output: "see", Images: []tool.Image{{Data: []byte("no picture")}}}, time.Second)
		if err != nil || len(got.Images) != 0 || !strings.Contains(got.Output, "left out") {
			t.Errorf("got %q, %d images, %v", got.Output, len(got.Images), err)
		}
	})
}
