package jet_test

import (
	"context"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/topology"
)

// TestReadAbsent reads on a server that has no station.
func TestReadAbsent(t *testing.T) {
	t.Parallel()
	st, err := jettest.Connect(t, jettest.Server(t), jet.Config{}).Station("s1")
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(context.Context) error{
		"the log of a run": func(ctx context.Context) error {
			_, _, err := st.Journal().Read(ctx, "r1", 0)
			return err
		},
		"a key": func(ctx context.Context) error {
			_, err := st.KV(topology.StateBucket).Get(ctx, "run.r1")
			return err
		},
		"the names of keys": func(ctx context.Context) error {
			_, err := st.KV(topology.StateBucket).Keys(ctx, "run.")
			return err
		},
	} {
		t.Run("CLI-1 a station that is not on the server is said to be missing: "+name, func(t *testing.T) {
			t.Parallel()
			if err := read(within(t)); err == nil || !strings.Contains(err.Error(), "set up on this server") {
				t.Error(err)
			}
		})
	}
}
