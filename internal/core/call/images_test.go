package call

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestImages(t *testing.T) {
	t.Parallel()
	seen := Result{Output: "a picture", Success: true, Images: []events.Image{{MediaType: "image/png", Width: 1, Height: 1}}}
	t.Run("PLUS-2 a hook that holds a result back holds its pictures back", func(t *testing.T) {
		t.Parallel()
		if r := Judged(seen, []events.HookAnswer{{Hook: "h", On: events.OnPostTool, Answer: events.HookBlock, Message: "no"}}); len(r.Images) != 0 || r.Success {
			t.Errorf("got %+v", r)
		}
		if r := Judged(seen, []events.HookAnswer{{Hook: "h", On: events.OnPostTool, Answer: events.HookContinue}}); len(r.Images) != 1 || !r.Success {
			t.Errorf("got %+v", r)
		}
	})
}
