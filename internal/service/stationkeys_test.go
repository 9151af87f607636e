package service

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
)

func TestStationKeys(t *testing.T) {
	t.Parallel()
	st, err := mem.New("s", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	config := st.KV(topology.ConfigBucket)
	in := &Instance{Ports: Ports{Config: config, Entropy: rand.Reader}, host: &Host{}}
	in.host.ports = in.Ports
	ctx := t.Context()
	old, err := in.StationKeys(ctx, secret.New("setting"))
	if err != nil {
		t.Fatal(err)
	}
	next, err := keychain.Ring{Keys: []keychain.RingKey{{}}}.With("second", time.Now())
	if err == nil {
		err = config.Put(ctx, topology.StationKeyKey, next)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Run("PLUS-20b a toolrunner that knows no newer key makes a call again with the one that it began with elsewhere", func(t *testing.T) {
		if n := old.Newest(); n != 0 {
			t.Errorf("calls begin with key %d", n)
		}
		for number, want := range []string{"setting", "second"} {
			if got, err := old.Key(ctx, number); err != nil || !bytes.Equal(got, []byte(want)) {
				t.Errorf("key %d is %s, %v", number, got, err)
			}
		}
		if _, err := old.Key(ctx, 2); !errors.Is(err, keychain.ErrNoNumber) {
			t.Errorf("key 2: %v", err)
		}
		if all := old.Secrets(); len(all) != 2 {
			t.Errorf("%d secrets are masked", len(all))
		}
	})
}
