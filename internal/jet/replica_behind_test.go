package jet_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
)

// halfBehind is a server on which half of the direct reads of a bucket come to a replica that has nothing yet.
func halfBehind(t *testing.T, bucket string) (s *natsserver.Server, answered *atomic.Int64) {
	t.Helper()
	reads := "$JS.API.DIRECT.GET." + topology.KVStream(bucket) + ".>"
	s = jettest.Server(t, func(cfg *natsserver.Config) {
		cfg.Guest = "all"
		cfg.Accounts = fmt.Sprintf(`accounts {A: {jetstream: enabled, users: [{user: all, password: "x"}],
			mappings: {%q: [{destination: %q, weight: 50%%}, {destination: "behind.>", weight: 50%%}]}}}`, reads, reads)
	})
	answered = new(atomic.Int64)
	nc, _ := raw(t, s)
	_, err := nc.Subscribe("behind.>", func(m *nats.Msg) {
		answered.Add(1)
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return s, answered
}

func TestReplicaBehind(t *testing.T) {
	t.Parallel()
	for _, bucket := range []string{topology.ConfigBucket, topology.SessionBucket, topology.TreeBucket} {
		t.Run("SAFE-4 DEPL-7 a key of "+bucket+" that was just written is found although a replica lacks it", func(t *testing.T) {
			t.Parallel()
			s, answered := halfBehind(t, bucket)
			kv := jettest.Station(t, jettest.Connect(t, s, jet.Config{}), "s1", jet.ApplyOptions{}).KV(bucket)
			for i := range 40 {
				key := fmt.Sprintf("key.k%d", i)
				if err := kv.Create(within(t), key, []byte("v")); err != nil {
					t.Fatal(err)
				}
				if value, err := kv.Get(within(t), key); err != nil || string(value) != "v" {
					t.Fatalf("%s: got %q, %v", key, value, err)
				}
			}
			if keys, err := kv.Keys(within(t), "key."); err != nil || len(keys) != 40 || !slices.Contains(keys, "key.k7") {
				t.Errorf("got %d keys, %v", len(keys), err)
			}
			if answered.Load() == 0 {
				t.Error("no read met the replica that is behind")
			}
		})
	}
	t.Run("SAFE-4 what was never there, or was deleted, is not found without a wait", func(t *testing.T) {
		t.Parallel()
		kv := jettest.Station(t, jettest.Connect(t, jettest.Server(t), jet.Config{}), "s1", jet.ApplyOptions{}).KV(topology.ConfigBucket)
		if err := errors.Join(kv.Put(within(t), "gone", []byte("v")), kv.Delete(within(t), "gone")); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"never", "gone"} {
			if _, err := kv.Get(within(t), key); !errors.Is(err, kernel.ErrNotFound) {
				t.Errorf("%s: got %v, want ErrNotFound", key, err)
			}
		}
	})
}
