package jet_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestReloadedAccounts(t *testing.T) {
	t.Parallel()
	t.Run("DEPL-7 SAFE-5 a service that reads and writes its keys while the server reloads its accounts does not fail", func(t *testing.T) {
		t.Parallel()
		accounts := func(admins ...topology.User) string {
			return topology.Accounts("s1", nil, func(string) string { return `"x"` }, admins...)
		}
		s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Accounts = accounts(topology.Setup("s1")) })
		jettest.Station(t, jettest.Connect(t, s, as(topology.SetupUser, "x", "")), "s1", jet.ApplyOptions{})
		kv := seenBy(t, s, string(events.Persister), inboxOf(events.Persister), "s1").KV(topology.StateBucket)
		const writers, rounds = 4, 4
		done := make(chan struct{})
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for n := 0; ; n++ {
					prefix := fmt.Sprintf("x%d.k%d.", w, n)
					key := prefix + "v"
					if err := kv.Create(t.Context(), key, []byte("v")); err != nil && !errors.Is(err, kernel.ErrExists) {
						t.Errorf("create: %v", err)
					}
					if b, err := kv.Get(t.Context(), key); err != nil || string(b) != "v" {
						t.Errorf("get: %q, %v", b, err)
					}
					if keys, err := kv.Keys(t.Context(), prefix); err != nil || len(keys) != 1 {
						t.Errorf("%d keys, want 1: %v", len(keys), err)
					}
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		for n := range rounds {
			admins := []topology.User{topology.Setup("s1")}
			if err := s.SetAccounts(accounts(admins[n%2:]...), ""); err != nil {
				t.Error(err)
			}
		}
		close(done)
		wg.Wait()
	})
}
