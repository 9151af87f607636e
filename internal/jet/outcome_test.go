package jet_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func as(user, password, inbox string) jet.Config {
	return jet.Config{User: user, Password: secret.New(password), InboxPrefix: inbox}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	entry := func(head uint64, size int) kernel.Entry {
		return kernel.Entry{ID: "r1", Kind: events.RunCreated, Head: head, Bytes: []byte(strings.Repeat("x", size))}
	}
	t.Run("SAFE-4 SAFE-14 a full log refuses clearly, keeps what it has, and takes events again with a higher limit", func(t *testing.T) {
		t.Parallel()
		c := jettest.Connect(t, jettest.Server(t), jet.Config{})
		st := jettest.Station(t, c, "s1", jet.ApplyOptions{Limits: topology.Limits{LogBytes: 64 << 10}})
		j, head, stored := st.Journal(), uint64(0), 0
		var ack kernel.Ack
		for range 100 {
			if ack = j.Append(within(t), entry(head, 4<<10)); ack.Outcome != kernel.Stored {
				break
			}
			head, stored = ack.Seq, stored+1
		}
		if ack.Outcome != kernel.Full || stored == 0 || stored > 16 {
			t.Fatalf("after %d events of 4 KiB in 64 KiB: got %s (%v), want full", stored, ack.Outcome, ack.Err)
		}
		if evs, _, err := j.Read(within(t), "r1", 0); err != nil || len(evs) != stored {
			t.Errorf("read: got %d events, %v; want %d", len(evs), err, stored)
		}
		jettest.Station(t, c, "s1", jet.ApplyOptions{Limits: topology.Limits{LogBytes: 1 << 20}})
		if ack := j.Append(within(t), entry(head, 4<<10)); ack.Outcome != kernel.Stored {
			t.Errorf("with a higher limit: got %s (%v), want stored", ack.Outcome, ack.Err)
		}
	})
	t.Run("SAFE-4 SAFE-6 what a user may not say is denied at once, not a timeout", func(t *testing.T) {
		t.Parallel()
		publish, subscribe := topology.Permissions("s1", events.Executor)
		s := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Users = []natsserver.User{{Name: "admin", Password: "a"}, {Name: "executor", Password: "e", Publish: publish, Subscribe: subscribe}}
		})
		jettest.Station(t, jettest.Connect(t, s, as("admin", "a", "")), "s1", jet.ApplyOptions{})
		c := jettest.Connect(t, s, as("executor", "e", topology.InboxPrefix("s1", events.Executor)))
		st, err := c.Station("s1")
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range events.Registry() {
			begin := time.Now()
			ack := st.Journal().Append(within(t), kernel.Entry{ID: "run-" + strings.ReplaceAll(string(w.Kind), ".", "-"), Kind: w.Kind, Bytes: []byte("x")})
			want := kernel.Denied
			if w.Author == events.Executor {
				want = kernel.Stored
			}
			if ack.Outcome != want || time.Since(begin) >= 5*time.Second {
				t.Errorf("%s: got %s (%v) after %s, want %s at once", w.Kind, ack.Outcome, ack.Err, time.Since(begin), want)
			}
		}
	})
	t.Run("SAFE-4 while the server is away the outcome is unknown, and afterwards the same append is stored", func(t *testing.T) {
		t.Parallel()
		cfg := natsserver.Config{StoreDir: t.TempDir(), Name: "n"}
		p := &swap{}
		s, err := natsserver.Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		p.set(s)
		c, err := jet.Connect(within(t), jet.Config{InProcess: p})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		st := jettest.Station(t, c, "s1", jet.ApplyOptions{})
		head := appendOne(t, st.Journal(), "r1", events.RunCreated, 0)
		s.Shutdown()
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if ack := st.Journal().Append(short, entry(head, 10)); ack.Outcome != kernel.Unknown || ack.Err == nil {
			t.Errorf("without a server: got %s (%v), want unknown with a reason", ack.Outcome, ack.Err)
		}
		if _, _, err := st.Journal().Last(short, "r1"); err == nil {
			t.Error("last without a server: got no error")
		}
		if _, _, err := st.Journal().Read(short, "r1", 0); err == nil {
			t.Error("read without a server: got no error")
		}
		st.Live().Publish("r1", []byte("dropped, and does not wait"))
		if s, err = natsserver.Start(cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		p.set(s)
		if ack := st.Journal().Append(within(t), entry(head, 10)); ack.Outcome != kernel.Stored {
			t.Errorf("after the restart: got %s (%v), want stored", ack.Outcome, ack.Err)
		}
	})
	t.Run("SAFE-4 a station that is not set up is unknown, not lost", func(t *testing.T) {
		t.Parallel()
		c := jettest.Connect(t, jettest.Server(t), jet.Config{})
		st, err := c.Station("none")
		if err != nil {
			t.Fatal(err)
		}
		if ack := st.Journal().Append(within(t), entry(0, 10)); ack.Outcome != kernel.Unknown {
			t.Errorf("got %s (%v), want unknown", ack.Outcome, ack.Err)
		}
	})
	t.Run("SAFE-4 wrong credentials are said at once and name no secret", func(t *testing.T) {
		t.Parallel()
		s := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Port, cfg.Users = -1, []natsserver.User{{Name: "admin", Password: "a"}}
		})
		over := as("admin", "canary-secret", "")
		over.URL = strings.Replace(s.URL(), "://", "://canary-secret@", 1)
		_, err := s.Connect(within(t), as("admin", "canary-secret", ""))
		_, errTCP := jet.Connect(within(t), over)
		for _, err := range []error{err, errTCP} {
			if !errors.Is(err, jet.ErrUnauthorized) || strings.Contains(err.Error(), "canary-secret") {
				t.Errorf("got %v, want ErrUnauthorized without the password", err)
			}
		}
	})
}
