package station

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/station/userlist"
	"github.com/inspan/inspan/internal/topology"
)

func TestListOfUsers(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	up := func() *Station {
		t.Helper()
		s, err := Up(t.Context(), Config{Listen: "127.0.0.1:0", StoreDir: store, LazySync: true, Sandbox: "host", Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	down := func(s *Station) {
		t.Helper()
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	guests := func(s *Station, want error) {
		t.Helper()
		nc, err := nats.Connect(s.URL(), nats.NoReconnect())
		if err == nil {
			nc.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("without a key: %v, want %v", err, want)
		}
	}
	s := up()
	guests(s, nil)
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := userlist.Change(store, func(l userlist.List) (userlist.List, error) {
		return l.With(userlist.User{Name: "ada", Key: key, May: []topology.Right{topology.MayWatch}})
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.takeUp(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(store, userlist.File)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("PLUS-22 a list that is broken or gone lets nobody else in while the station runs", func(t *testing.T) {
		guests(s, nats.ErrAuthorization)
		for name, spoil := range map[string]func() error{
			"broken": func() error { return os.WriteFile(file, []byte(`{"users":`), 0o600) },
			"gone":   func() error { return os.Remove(file) },
		} {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			if err := s.takeUp(); err == nil {
				t.Errorf("%s: it was taken up", name)
			}
			guests(s, nats.ErrAuthorization)
			if names, closed := s.Users(); !closed || len(names) != 1 {
				t.Errorf("%s: %v, closed %v", name, names, closed)
			}
			if err := os.WriteFile(file, good, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.takeUp(); err != nil {
			t.Error(err)
		}
	})
	t.Run("PLUS-22 an administrator who acts in between takes no user away and lets no guest in", func(t *testing.T) {
		if err := s.users.dismiss(); err != nil {
			t.Fatal(err)
		}
		guests(s, nats.ErrAuthorization)
	})
	down(s)
	t.Run("PLUS-22 a station that starts with a list is closed, one with a broken list does not start, one without is open", func(t *testing.T) {
		s := up()
		guests(s, nats.ErrAuthorization)
		down(s)
		if err := os.WriteFile(file, []byte("[]"), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := Up(t.Context(), Config{Listen: "127.0.0.1:0", StoreDir: store, LazySync: true, Sandbox: "host", Log: zerolog.Nop()}); err == nil {
			down(s)
			t.Error("it started with a broken list")
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		s = up()
		guests(s, nil)
		down(s)
	})
}
