package toolrunner

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

func TestCapture(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-9 what is too large for the log is stored, and secrets are in neither", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		text := "open sesame " + strings.Repeat("x", events.MaxInlineOutput)
		got, err := b.role.capture.results.Store(t.Context(), tool.Result{Output: text}, time.Second)
		if err != nil || got.Ref == nil || len(got.Output) > events.MaxInlineOutput || strings.Contains(got.Output, "sesame") || !got.Success {
			t.Fatalf("got %d bytes, %+v, %v", len(got.Output), got.Ref, err)
		}
		whole, err := b.Station.Blobs().Get(t.Context(), *got.Ref)
		if err != nil || strings.Contains(string(whole), "sesame") || len(whole) < events.MaxInlineOutput {
			t.Errorf("stored %d bytes, %v", len(whole), err)
		}
	})
	t.Run("a picture that is none is left out, and the result says so", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		got, err := b.role.capture.results.Store(t.Context(), tool.Result{Output: "see", Images: []tool.Image{{Data: []byte("no picture")}}}, time.Second)
		if err != nil || len(got.Images) != 0 || !strings.Contains(got.Output, "omitted") {
			t.Errorf("got %q, %d images, %v", got.Output, len(got.Images), err)
		}
	})
}
