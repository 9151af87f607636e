// Package userlist keeps who may reach a station of inspan up over its port.
//
// Promises: the list has public keys and no secret. A change of it is whole or not there, and of two at the same time
// none is lost. A station without a list lets in whoever reaches its port; one with a list lets in whoever is in it and
// no one else, also where that is no one.
package userlist

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/jet/userkey"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
)

const (
	// File is the list in the store of a station, lockFile what is locked while it is changed.
	File     = "users.json"
	lockFile = "users.lock"
	// MaxUsers bounds a list, maxBytes its file.
	MaxUsers = 1000
	maxBytes = 1 << 20
	// lockWait is how long a change waits for another one.
	lockWait = 5 * time.Second
)

// Rights are those that a user may be given.
var Rights = []topology.Right{topology.MayDispatch, topology.MayWatch, topology.MayApprove, topology.MayRecord,
	topology.MayHalt, topology.MayBudget, topology.MayBackup}

var (
	// ErrThere means that a list has a user of that name or key.
	ErrThere = errors.New("the list has that user")
	// ErrUnknown means that it has no such user.
	ErrUnknown = errors.New("the list has no such user")
)

// User of a station.
type User struct {
	// Name is also the name in which the user answers gates, and no other.
	Name string `json:"name"`
	// Key is the public key of an NKey of a user: U and 55 more characters.
	Key   string           `json:"key"`
	May   []topology.Right `json:"may"`
	Added time.Time        `json:"added"`
}

// List of the users of a station. The zero value is that of a station without a list.
type List struct {
	Users []User `json:"users"`
	// Closed says that there is a list.
	Closed bool `json:"-"`
}

// Check returns what is wrong with a user.
func (u User) Check() error {
	if err := events.CheckID("name of the user", u.Name); err != nil {
		return err
	}
	if u.Name == events.Gateway {
		return fmt.Errorf("user %s: it is the name of the gateway's own user: take another", u.Name)
	}
	if !userkey.Valid(u.Key) {
		return fmt.Errorf("user %s: %q is no public key of a user: want U and 55 more characters, as nk -gen user prints it",
			u.Name, u.Key)
	}
	if len(u.May) == 0 {
		return fmt.Errorf("user %s: may do nothing: name some of %v", u.Name, Rights)
	}
	for i, r := range u.May {
		if !slices.Contains(Rights, r) || slices.Contains(u.May[:i], r) {
			return fmt.Errorf("user %s: right %q: each of %v once at most", u.Name, r, Rights)
		}
	}
	return nil
}

// check returns what is wrong with a list.
func (l List) check() error {
	if len(l.Users) > MaxUsers {
		return fmt.Errorf("%d users, the limit is %d", len(l.Users), MaxUsers)
	}
	for i, u := range l.Users {
		if err := u.Check(); err != nil {
			return err
		}
		if slices.ContainsFunc(l.Users[:i], func(v User) bool { return v.Name == u.Name || v.Key == u.Key }) {
			return fmt.Errorf("user %s: %w", u.Name, ErrThere)
		}
	}
	return nil
}

// With is the list with one more user.
func (l List) With(u User) (List, error) {
	return List{Users: append(slices.Clone(l.Users), u), Closed: true}, nil
}

// Without is the list without a user.
func (l List) Without(name string) (List, error) {
	i := slices.IndexFunc(l.Users, func(u User) bool { return u.Name == name })
	if i < 0 {
		return l, fmt.Errorf("user %s: %w", name, ErrUnknown)
	}
	return List{Users: slices.Delete(slices.Clone(l.Users), i, i+1), Closed: true}, nil
}

// WithKey is the list in which a user has another key. One that the user has already changes nothing.
func (l List) WithKey(name, key string) (List, error) {
	i := slices.IndexFunc(l.Users, func(u User) bool { return u.Name == name })
	if i < 0 {
		return l, fmt.Errorf("user %s: %w", name, ErrUnknown)
	}
	users := slices.Clone(l.Users)
	users[i].Key = key
	return List{Users: users, Closed: true}, nil
}

// Names are those of the users.
func (l List) Names() []string {
	var names []string
	for _, u := range l.Users {
		names = append(names, u.Name)
	}
	return names
}

// Digest identifies a list; "" is that of a station without one.
func (l List) Digest() string {
	if !l.Closed {
		return ""
	}
	sum := sha256.Sum256(l.encode())
	return hex.EncodeToString(sum[:])
}

func (l List) encode() []byte {
	l.Users = append([]User{}, l.Users...) // never null
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		panic(err) // it is made of texts and times
	}
	return append(b, '\n')
}

// Read reads the list in a store. What is no list is an error: no one is let in by mistake.
func Read(store string) (List, error) {
	path := filepath.Join(store, File)
	b, err := disk.ReadAtMost(path, maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return List{}, nil
	}
	l := List{Closed: true}
	if err == nil {
		err = ce.Strict(b, &l)
	}
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return List{}, fmt.Errorf("list of users %s: %w", path, err)
	}
	return l, nil
}

// Change changes the list in a store, and returns what it is then. It waits for a change of another process.
func Change(store string, to func(List) (List, error)) (List, error) {
	if err := os.MkdirAll(store, 0o755); err != nil {
		return List{}, fmt.Errorf("folder of the station: %w", err)
	}
	lock, err := disk.WaitLock(filepath.Join(store, lockFile), lockWait)
	if err != nil {
		return List{}, fmt.Errorf("lock of the list of users: %w", err)
	}
	defer func() { _ = lock.Close() }() // it ends with this process at the latest
	l, err := Read(store)
	if err != nil {
		return l, err
	}
	if l, err = to(l); err != nil {
		return l, err
	}
	if !l.Closed {
		return l, os.Remove(filepath.Join(store, File))
	}
	if err := l.check(); err != nil {
		return l, err
	}
	return l, disk.Replace(filepath.Join(store, File), l.encode(), 0o600)
}
