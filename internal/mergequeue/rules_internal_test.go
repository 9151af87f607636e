package mergequeue

import (
	"testing"

	"github.com/inspan/inspan/internal/kernel/kerneltest"
)

func TestRules(t *testing.T) {
	t.Parallel()
	t.Run("EVT-1 EVT-13 each event type of a merge queue has one fold rule", func(t *testing.T) {
		t.Parallel()
		for _, gap := range kerneltest.Registration(Aggregate(), rules) {
			t.Error(gap)
		}
		if got := kerneltest.Registration(Aggregate(), rules[1:]); len(got) != 1 {
			t.Errorf("without the rule of queue.created: %q", got)
		}
	})
}
