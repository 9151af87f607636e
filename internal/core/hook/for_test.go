package hook

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestFor(t *testing.T) {
	t.Parallel()
	t.Run("GUARD-12 SAFE-12 a hook that is asked about edits is asked about patches", func(t *testing.T) {
		t.Parallel()
		agent := []events.Hook{{ID: "edits", On: events.OnPreTool, Tool: "edit"}, {ID: "writes", On: events.OnPreTool, Tool: "wri*"}, {ID: "reads", On: events.OnPreTool, Tool: "read"}}
		for tool, want := range map[string]int{"apply_patch": 2, "edit": 1, "write": 1, "read": 1, "bash": 0} {
			if due := For(nil, agent, events.OnPreTool, tool); len(due) != want {
				t.Errorf("%s: asked %+v, want %d", tool, due, want)
			}
		}
	})
}
