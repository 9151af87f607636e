package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/disk"
)

// Accepted is what a person accepted at a path.
type Accepted struct {
	Kind   string    `json:"kind"`
	Digest string    `json:"digest"`
	At     time.Time `json:"at"`
	// Files are the SHA-256 of each file, Runs what the person was shown, line by line.
	Files map[string]string `json:"files,omitempty"`
	Runs  []string          `json:"runs,omitempty"`
}

// Record is the file of all that was accepted, by path.
type Record struct {
	// dir is the folder of the record and of the copies.
	dir string
}

const (
	recordFile = "trust.json"
	lockFile   = "trust.lock"
	pinnedDir  = "pinned"
	version    = 1
	// maxRecord bounds the file, in bytes; lockWait how long another process may be waited for.
	maxRecord = 16 << 20
	lockWait  = 10 * time.Second
)

// ErrRecord means that the record cannot be believed.
var ErrRecord = errors.New("the record of what was accepted cannot be used")

// Home is the folder for what inspan keeps of this user on this machine, below XDG_STATE_HOME, else ~/.local/state.
func Home() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("folder of this user: %w (set XDG_STATE_HOME)", err)
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "inspan"), nil
}

// Open returns the record of this user. Nothing is read or written yet.
func Open() (*Record, error) {
	dir, err := Home()
	return &Record{dir: dir}, err
}

// Path is the file.
func (r *Record) Path() string { return filepath.Join(r.dir, recordFile) }

// Pinned is the folder of the copies.
func (r *Record) Pinned() string { return filepath.Join(r.dir, pinnedDir) }

// stored is the file's form.
type stored struct {
	Version  int                 `json:"version"`
	Accepted map[string]Accepted `json:"accepted"`
}

// All is everything that was accepted. ErrRecord where others could have written the file, or it cannot be read.
func (r *Record) All() (map[string]Accepted, error) {
	info, err := os.Lstat(r.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]Accepted{}, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || info.Size() > maxRecord {
		return nil, fmt.Errorf("%s: %w: want a file of at most %d MiB that only its owner can write (chmod 600, or remove it)",
			r.Path(), ErrRecord, maxRecord>>20)
	}
	b, err := os.ReadFile(r.Path())
	if err != nil {
		return nil, err
	}
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%s: %w: %w (remove it, and accept again)", r.Path(), ErrRecord, err)
	}
	if s.Version != version {
		return nil, fmt.Errorf("%s: %w: version %d, this program knows %d", r.Path(), ErrRecord, s.Version, version)
	}
	if s.Accepted == nil {
		s.Accepted = map[string]Accepted{}
	}
	return s.Accepted, nil
}

// Accept records parts, with the lines that say what each would run.
func (r *Record) Accept(at time.Time, parts []Part, runs func(Part) []string) error {
	return r.change(func(all map[string]Accepted) {
		for _, p := range parts {
			all[p.Path] = Accepted{Kind: p.Kind, Digest: p.Digest(), At: at.UTC(), Files: p.Hashes(), Runs: runs(p)}
		}
	})
}

// Revoke removes what was accepted at a path and below it, and returns the paths.
func (r *Record) Revoke(dir string) (removed []string, err error) {
	if real, err := realPath(dir); err == nil { // what is gone has the path that it had
		dir = real
	} else if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	err = r.change(func(all map[string]Accepted) {
		for at := range all {
			if Below(dir, at) {
				delete(all, at)
				removed = append(removed, at)
			}
		}
	})
	slices.Sort(removed)
	return removed, err
}

// change rewrites the record, one process after the other, and removes the copies that nothing in it names.
func (r *Record) change(do func(map[string]Accepted)) (err error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	lock, err := r.lock()
	if err != nil {
		return fmt.Errorf("record of what was accepted: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	all, err := r.All()
	if err != nil {
		return err
	}
	do(all)
	b, err := json.MarshalIndent(stored{Version: version, Accepted: all}, "", "  ")
	if err != nil {
		return err
	}
	if err := disk.Replace(r.Path(), append(b, '\n'), 0o600); err != nil {
		return err
	}
	return r.sweep(all)
}

func (r *Record) lock() (*disk.Lock, error) {
	return disk.WaitLock(filepath.Join(r.dir, lockFile), lockWait)
}

// keepPinned is how long a copy stays that the record does not name: a station that was started with it may run.
const keepPinned = 30 * 24 * time.Hour

func (r *Record) sweep(all map[string]Accepted) error {
	named := map[string]bool{}
	for a := range maps.Values(all) {
		named[a.Digest] = true
	}
	entries, err := os.ReadDir(r.Pinned())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if info, infoErr := e.Info(); infoErr == nil && !named[e.Name()] && time.Since(info.ModTime()) > keepPinned {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.Pinned(), e.Name())))
		}
	}
	return err
}
