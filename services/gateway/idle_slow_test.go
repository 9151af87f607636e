//go:build slow

package gateway_test

import "testing"

func TestIdle(t *testing.T) {
	t.Parallel()
	t.Run("TRIG-3 two thousand idle connections keep no one out", func(t *testing.T) {
		t.Parallel()
		idle(t, newWorld(t).open(t, nil), 2000)
	})
}
