package toolrunner

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// images stores the pictures of a result. What a tool says of them is not believed: they are read again. note says which
// are left out, and why.
func (r *Role) images(ctx context.Context, all []tool.Image) (kept []events.Image, note string, err error) {
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
		ref, err := r.cfg.Blobs.Put(ctx, "image", i.Data)
		if err != nil {
			return nil, "", fmt.Errorf("store an image: %w", err)
		}
		kept = append(kept, events.Image{Ref: ref, MediaType: i.MediaType, Width: i.Width, Height: i.Height})
	}
	return kept, note, nil
}
