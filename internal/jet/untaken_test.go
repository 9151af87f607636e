package jet_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
)

// absent takes the stream of a bucket away and gives it back, empty, once n publishes to it found no responder.
func absent(t *testing.T, s *natsserver.Server, bucket string, n int64) (refused *atomic.Int64) {
	t.Helper()
	nc, js := raw(t, s)
	stream, err := js.Stream(within(t), topology.KVStream(bucket))
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	if err := js.DeleteStream(within(t), cfg.Name); err != nil {
		t.Fatal(err)
	}
	refused = new(atomic.Int64)
	ctx := context.WithoutCancel(t.Context())
	_, err = nc.Subscribe("$KV."+bucket+".>", func(m *nats.Msg) {
		if refused.Add(1) == n {
			if err := m.Sub.Unsubscribe(); err != nil {
				t.Error(err)
			}
			if _, err := js.CreateStream(ctx, cfg); err != nil {
				t.Error(err)
			}
		}
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"503"}}}) // as a server does without a responder
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return refused
}

func TestUntakenWrites(t *testing.T) {
	t.Parallel()
	// more than the client library tries by itself
	const tries = 5
	writes := map[string]func(kernel.KV) error{
		"put":    func(kv kernel.KV) error { return kv.Put(within(t), "k", []byte("v")) },
		"create": func(kv kernel.KV) error { return kv.Create(within(t), "k", []byte("v")) },
		"swap": func(kv kernel.KV) error {
			_, err := kv.Swap(within(t), "k", []byte("v"), 0)
			return err
		},
		"delete": func(kv kernel.KV) error {
			return errors.Join(kv.Delete(within(t), "k"), kv.Put(within(t), "k", []byte("v")))
		},
	}
	for name, write := range writes {
		t.Run("DEPL-7 SAFE-5 a "+name+" that finds no responder at the start of a service is made again", func(t *testing.T) {
			t.Parallel()
			s := jettest.Server(t)
			kv := jettest.Station(t, jettest.Connect(t, s, jet.Config{}), "s1", jet.ApplyOptions{}).KV(topology.ConfigBucket)
			if _, err := kv.Get(within(t), "k"); !errors.Is(err, kernel.ErrNotFound) {
				t.Fatalf("got %v, want ErrNotFound", err)
			}
			refused := absent(t, s, topology.ConfigBucket, tries)
			if err := write(kv); err != nil {
				t.Fatal(err)
			}
			if n := refused.Load(); n != tries {
				t.Errorf("%d writes found no responder, want %d", n, tries)
			}
			if value, err := kv.Get(within(t), "k"); err != nil || string(value) != "v" {
				t.Errorf("got %q, %v", value, err)
			}
		})
	}
}
