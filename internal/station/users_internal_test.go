package station

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/jet/userkey"
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
		if _, err := jettest.Login(t, s.URL(), "", func() {}); !errors.Is(err, want) {
			t.Errorf("without a key: %v, want %v", err, want)
		}
	}
	s := up()
	guests(s, nil)
	_, key, err := userkey.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := userlist.Change(store, func(l userlist.List) (userlist.List, error) {
		return l.With(userlist.User{Name: "ada", Key: key, May: []topology.Right{topology.MayWatch}})
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.users.takeUp(s.record); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(store, userlist.File)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("PLUS-22 a list that is broken or gone lets no one else in while the station runs", func(t *testing.T) {
		guests(s, jet.ErrUnauthorized)
		for name, spoil := range map[string]func() error{
			"broken": func() error { return os.WriteFile(file, []byte(`{"users":`), 0o600) },
			"gone":   func() error { return os.Remove(file) },
		} {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			if err := s.users.takeUp(s.record); err == nil {
				t.Errorf("%s: it was taken up", name)
			}
			guests(s, jet.ErrUnauthorized)
			if list := s.users.list; !list.Closed || len(list.Users) != 1 {
				t.Errorf("%s: %+v", name, list)
			}
			if err := os.WriteFile(file, good, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.users.takeUp(s.record); err != nil {
			t.Error(err)
		}
	})
	t.Run("PLUS-22 an administrator who acts in between takes no user away and lets no guest in", func(t *testing.T) {
		if err := s.users.dismiss(); err != nil {
			t.Fatal(err)
		}
		guests(s, jet.ErrUnauthorized)
	})
	down(s)
	t.Run("PLUS-22 a station that starts with a list is closed, one with a broken list does not start, one without is open", func(t *testing.T) {
		s := up()
		guests(s, jet.ErrUnauthorized)
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
