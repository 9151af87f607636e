//go:build slow

package e2e

import "testing"

func TestWorkRaceOfHundred(t *testing.T) {
	t.Parallel()
	t.Run("WORK-3 WORK-7 PROP-21 of a hundred dispatchers of a hundred items exactly one wins each, while planners die", func(t *testing.T) {
		t.Parallel()
		race(t, 100, 100)
	})
}
