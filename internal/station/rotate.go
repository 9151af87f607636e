package station

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/pkg/events"
)

// rotateWait is how long a rotation waits for another one of the same key.
const rotateWait = 5 * time.Second

// Errors of rotations. Each comes with what to do.
var (
	// ErrNoKey means that there is no file of a key.
	ErrNoKey = errors.New("there is no key of anchors")
	// ErrPending means that an earlier rotation is not in force yet.
	ErrPending = errors.New("an earlier rotation is not in force yet")
	// ErrNotLost means that a key was to be replaced as lost that is there.
	ErrNotLost = errors.New("it is not lost")
	// ErrOtherName means that a store is of a station of another name.
	ErrOtherName = errors.New("the store is of another station")
)

// KeyRotation says how the key of anchors is replaced.
type KeyRotation struct {
	// Station whose log the key is for.
	Station string
	// Store of a station of inspan up; File is that of the key where it is in no store.
	Store, File string
	// Reason is one of events.KeyWasRotated, KeyHasLeaked and KeyIsLost. NotAfter goes with a key that leaked.
	Reason   string
	NotAfter uint64
	// Chain are the keys that the log is known to have: links of the file that are among them are in force.
	Chain []keychain.Link
	// DryRun changes nothing.
	DryRun bool
	Now    func() time.Time
	// cut ends a rotation after a step; tests stop it there.
	cut func(step string) error
}

// RotatedKey is a key of anchors that was replaced in its file.
type RotatedKey struct {
	File string `json:"file"`
	// Old and New name the keys as anchors do; Old is empty where it is lost, New where nothing was changed.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Public is the new key, as 64 hex digits, for those who verify.
	Public string `json:"public_key,omitempty"`
	Reason string `json:"reason"`
	// InForce says that the log has it: the old key signs nothing any more.
	InForce bool `json:"in_force"`
}

// path of the file of the key.
func (k KeyRotation) path() string {
	if k.File != "" {
		return k.File
	}
	return filepath.Join(k.Store, KeyFile)
}

// RotateKey replaces the key of anchors in its file by a new one, which the old one certifies. That file is replaced at
// once and whole; whoever signs takes the rest from it, after a crash as well. The store of a station that does not run
// is taken meanwhile.
func RotateKey(ctx context.Context, k KeyRotation) (RotatedKey, error) {
	path := k.path()
	out := RotatedKey{File: path, Reason: k.Reason}
	lock, err := disk.WaitLock(keychain.LockOf(path), rotateWait)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return out, fmt.Errorf("%s: %w: %w", path, ErrNoKey, err)
	case errors.Is(err, disk.ErrLocked):
		return out, fmt.Errorf("%s: another rotation goes on: %w", path, err)
	case err != nil:
		return out, fmt.Errorf("key of anchors: %w", err)
	}
	defer func() { _ = lock.Close() }() // it ends with this process at the latest
	old, err := k.old(path)
	if err != nil {
		return out, err
	}
	if old.Private != nil {
		out.Old = keychain.ID(old.Public())
	}
	if k.DryRun {
		return out, nil
	}
	_, next, err := ed25519.GenerateKey(nil)
	if err != nil {
		return out, fmt.Errorf("make a key: %w", err)
	}
	link := keychain.Replace(k.Station, k.Reason, old.Private, next, k.NotAfter, k.Now())
	file := keychain.File{Private: next, Links: append(old.Links, link)}
	if err := k.forgetDigest(ctx); err != nil {
		return out, err
	}
	if err := k.reach("digest"); err != nil {
		return out, err
	}
	if err := disk.Replace(path, file.Format(), 0o600); err != nil {
		return out, fmt.Errorf("replace the key of anchors: %w", err)
	}
	out.Public, out.New = file.Public(), keychain.ID(file.Public())
	return out, k.reach("file")
}

func (k KeyRotation) reach(step string) error {
	if k.cut == nil {
		return nil
	}
	return k.cut(step)
}

// old is the file as it is. Of a key that is lost it need not be one.
func (k KeyRotation) old(path string) (keychain.File, error) {
	b, err := disk.ReadAtMost(path, keychain.MaxFile)
	if errors.Is(err, fs.ErrNotExist) && k.Reason == events.KeyIsLost {
		return keychain.File{}, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return keychain.File{}, fmt.Errorf("%s: %w: a station makes one at its first start; where it is lost, --lost makes another", path, ErrNoKey)
	}
	if err != nil {
		return keychain.File{}, fmt.Errorf("read the key of anchors: %w", err)
	}
	f, err := keychain.ParseFile(string(b))
	if err != nil && k.Reason == events.KeyIsLost {
		return keychain.File{}, nil //nolint:nilerr // that is why it is replaced
	}
	if err != nil {
		return f, fmt.Errorf("key of anchors %s: %w: bring it back from where you keep it, or, where it is lost, --lost makes another", path, err)
	}
	if k.Reason == events.KeyIsLost {
		return f, fmt.Errorf("key of anchors %s: %w: leave --lost out, so that it certifies the new key", path, ErrNotLost)
	}
	known := map[string]bool{}
	for _, l := range k.Chain {
		known[l.New] = true
	}
	for _, l := range f.Links {
		if !known[l.New] {
			return f, fmt.Errorf("key of anchors %s: %w: key %s of %s: start the station, or its persister, which takes it up",
				path, ErrPending, keychain.ID(l.New), l.At)
		}
	}
	f.Links = nil
	return f, nil
}

// forgetDigest takes the store of a station that does not run and has its marks forget the digest of the key: what
// changed in a store that was stopped is taken for damage otherwise. Before the change, so that a crash between them
// costs nothing.
func (k KeyRotation) forgetDigest(ctx context.Context) error {
	if k.File != "" {
		return nil
	}
	held, err := hold(k.Store)
	if errors.Is(err, ErrHeld) {
		if _, runs := alive(ctx, k.Store); runs {
			return nil // it marks the file itself
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }() // it ends with this process at the latest
	marks, _, err := storecheck.Load(k.Store)
	switch {
	case errors.Is(err, storecheck.ErrMarks), err == nil && marks == nil:
		return nil // nothing is compared
	case err != nil:
		return fmt.Errorf("marks of the store: %w", err)
	case marks.Station != k.Station:
		return fmt.Errorf("%w: %s is of station %s: name it with --station", ErrOtherName, k.Store, marks.Station)
	}
	delete(marks.Files, KeyFile)
	return marks.Save(k.Store)
}

// KeyInForce reports whether the one who signs has taken up the file of a key of a station that runs.
func KeyInForce(store string) (bool, error) {
	b, err := disk.ReadAtMost(filepath.Join(store, KeyFile), keychain.MaxFile)
	if err != nil {
		return false, fmt.Errorf("read the key of anchors: %w", err)
	}
	f, err := keychain.ParseFile(string(b))
	return err == nil && len(f.Links) == 0, err
}
