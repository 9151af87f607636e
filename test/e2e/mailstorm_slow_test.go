//go:build slow

package e2e

import (
	"flag"
	"testing"
)

var stormFlag = flag.Int("storm", 1000, "TestMailOfThousandRuns: how many runs")

func TestMailOfThousandRuns(t *testing.T) {
	t.Parallel()
	t.Run("MSG-2 MSG-4 MSG-6 MSG-15 SAFE-3 in 1,000 runs of 10 agents no message is lost and none is given twice, while services die", func(t *testing.T) {
		t.Parallel()
		storm(t, 10, *stormFlag)
	})
}
