package userlist_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/jet/userkey"
	"github.com/inspan/inspan/internal/station/userlist"
	"github.com/inspan/inspan/internal/topology"
)

func user(t *testing.T, name string, may ...topology.Right) userlist.User {
	t.Helper()
	_, key, err := userkey.New()
	if err != nil {
		t.Fatal(err)
	}
	return userlist.User{Name: name, Key: key, May: append(may, topology.MayWatch)}
}

func add(u userlist.User) func(userlist.List) (userlist.List, error) {
	return func(l userlist.List) (userlist.List, error) { return l.With(u) }
}

func TestList(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-22 a list is there from its first user on, and stays when the last one goes", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		none, err := userlist.Read(dir)
		if err != nil || none.Closed || none.Digest() != "" {
			t.Fatalf("%+v, %v", none, err)
		}
		ada := user(t, "ada", topology.MayApprove)
		one, err := userlist.Change(dir, add(ada))
		if err != nil || !one.Closed || len(one.Users) != 1 {
			t.Fatalf("%+v, %v", one, err)
		}
		if read, err := userlist.Read(dir); err != nil || read.Digest() != one.Digest() {
			t.Errorf("%+v, %v", read, err)
		}
		info, err := os.Stat(filepath.Join(dir, userlist.File))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		last, err := userlist.Change(dir, func(l userlist.List) (userlist.List, error) { return l.Without("ada") })
		if err != nil || !last.Closed || len(last.Users) != 0 || last.Digest() == one.Digest() || last.Digest() == "" {
			t.Errorf("%+v, %v", last, err)
		}
		if _, err := userlist.Change(dir, func(l userlist.List) (userlist.List, error) { return l.Without("ada") }); !errors.Is(err, userlist.ErrUnknown) {
			t.Errorf("removed twice: %v", err)
		}
	})
	t.Run("PLUS-22 users that are added at the same time are all there", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		var wg sync.WaitGroup
		for n := range 10 {
			u := user(t, "u"+string(rune('a'+n)))
			wg.Go(func() {
				if _, err := userlist.Change(dir, add(u)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if l, err := userlist.Read(dir); err != nil || len(l.Users) != 10 {
			t.Errorf("%d users, %v", len(l.Users), err)
		}
	})
	t.Run("SAFE-12 what is no list lets no one in: it is an error, and a change leaves it as it is", func(t *testing.T) {
		t.Parallel()
		ada := user(t, "ada")
		line := `{"name":"ada","key":"` + ada.Key + `","may":["watch"],"added":"2026-01-01T00:00:00Z"}`
		for name, text := range map[string]string{
			"empty": "", "cut": `{"users":[` + line, "an unknown key": `{"users":[],"open":true}`, "a key twice": `{"users":[],"users":[]}`,
			"the same name twice": `{"users":[` + line + "," + line + `]}`, "no key": `{"users":[` + strings.Replace(line, ada.Key, "", 1) + `]}`,
			"a seed for a key":   `{"users":[` + strings.Replace(line, ada.Key, "SU"+ada.Key[2:], 1) + `]}`,
			"a right of a role":  `{"users":[` + strings.Replace(line, "watch", "serve", 1) + `]}`,
			"the gateway":        `{"users":[` + strings.Replace(line, `"ada"`, `"gateway"`, 1) + `]}`,
			"no right":           `{"users":[` + strings.Replace(line, `"watch"`, "", 1) + `]}`,
			"a name with a dot":  `{"users":[` + strings.Replace(line, `"ada"`, `"a.*"`, 1) + `]}`,
			"a name with a line": `{"users":[` + strings.Replace(line, `"ada"`, `"a\nb"`, 1) + `]}`,
			"too large":          `{"users":[` + strings.Repeat(" ", 1<<20) + `]}`,
		} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, userlist.File), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if l, err := userlist.Read(dir); err == nil || l.Closed {
				t.Errorf("%s: %+v, %v", name, l, err)
			}
			if _, err := userlist.Change(dir, add(user(t, "ben"))); err == nil {
				t.Errorf("%s: it was changed", name)
			}
			if b, err := os.ReadFile(filepath.Join(dir, userlist.File)); err != nil || string(b) != text {
				t.Errorf("%s: the file is %q, %v", name, b, err)
			}
		}
	})
	t.Run("PLUS-22 a list has a limit, and a user must not be there twice", func(t *testing.T) {
		t.Parallel()
		dir, ada := t.TempDir(), user(t, "ada")
		if _, err := userlist.Change(dir, add(ada)); err != nil {
			t.Fatal(err)
		}
		same := user(t, "ben")
		same.Key = ada.Key
		for _, u := range []userlist.User{user(t, "ada"), same} {
			if _, err := userlist.Change(dir, add(u)); !errors.Is(err, userlist.ErrThere) {
				t.Errorf("%s: %v", u.Name, err)
			}
		}
		if _, err := userlist.Change(dir, func(l userlist.List) (userlist.List, error) {
			for range userlist.MaxUsers {
				l.Users = append(l.Users, ada)
			}
			return l, nil
		}); err == nil || !strings.Contains(err.Error(), "the limit is") {
			t.Errorf("%v", err)
		}
	})
}
