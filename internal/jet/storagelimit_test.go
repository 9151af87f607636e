package jet_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
)

func TestNoRoom(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-14 a server with less storage than a station sets aside says how much that is, and what to do", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.MaxStore = 8 << 20 })
		err := jettest.Connect(t, s, jet.Config{}).Setup().Apply(within(t), "s1", jet.ApplyOptions{Replicas: 1})
		if err == nil || !strings.Contains(err.Error(), "sets ") || !strings.Contains(err.Error(), "MiB aside") || !strings.Contains(err.Error(), "larger disk") {
			t.Errorf("%v", err)
		}
	})
}
