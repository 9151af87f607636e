package harness

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

func TestUnsettled(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{}`)
	begun := State{}
	begun.Status, begun.Epoch = events.HarnessIsOpen, 1
	begun.Begun = []events.HarnessBegun{{Number: 1, Settled: true}, {Number: 2}}
	t.Run("SDK-21 SAFE-7 no step is recorded and no harness ends while an effect of it has no outcome", func(t *testing.T) {
		t.Parallel()
		if _, err := stepped(begun, &events.HarnessSteppedData{Epoch: 1, HarnessStep: events.HarnessStep{Number: 1, Input: raw, Output: raw}}, time.Time{}); err == nil || !strings.Contains(err.Error(), "effect 2 has no outcome") {
			t.Error(err)
		}
		if _, err := ended(begun, &events.HarnessEndedData{Epoch: 1}, time.Time{}); err == nil || !strings.Contains(err.Error(), "effect 2 has no outcome") {
			t.Error(err)
		}
		done := begun
		done.Begun = begun.Begun[:1]
		if s, err := stepped(done, &events.HarnessSteppedData{Epoch: 1, HarnessStep: events.HarnessStep{Number: 1, Input: raw, Output: raw}}, time.Time{}); err != nil || s.Steps != 1 || len(s.Begun) > 0 {
			t.Error(s, err)
		}
	})
}
