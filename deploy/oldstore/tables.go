package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	_ "modernc.org/sqlite" // the driver

	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/pkg/events"
)

// version of the tables.
const version = 1

// counts says what was converted.
type counts struct {
	station                                                          string
	events, pending, branches, inputs, timers, objects, values, dead int
}

func (c counts) String() string {
	return fmt.Sprintf("%d events (%d to be received), %d branches, %d messages, %d timers, %d objects, %d values and %d dead letters",
		c.events, c.pending, c.branches, c.inputs, c.timers, c.objects, c.values, c.dead)
}

// tables is an old store.
type tables struct {
	db *sql.DB
	counts
}

// convert makes a new file from an old one.
func convert(old, path string) (c counts, err error) {
	copied, err := copied(old)
	if err != nil {
		return c, err
	}
	defer os.RemoveAll(filepath.Dir(copied)) //nolint:errcheck // a temporary folder
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: filepath.ToSlash(copied)}).String())
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	t := &tables{db: db}
	var is int
	if err := db.QueryRow("PRAGMA user_version").Scan(&is); err != nil {
		return c, err
	}
	if is != version {
		return c, fmt.Errorf("it has version %d, want %d: it is no local store of inspan", is, version)
	}
	var sound string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
		return c, fmt.Errorf("it is damaged: %s, %w", sound, err)
	}
	if err := db.QueryRow("SELECT value FROM meta WHERE key = 'station'").Scan(&t.station); err != nil {
		return c, err
	}
	err = localstore.Convert(path, t.station, t.fill)
	return t.counts, err
}

// copied copies a store with its log, which has what a program that was killed had not yet moved into the file.
func copied(old string) (path string, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(old), ".part-old-*") // where there was room for it before
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	path = filepath.Join(dir, "old.db")
	if err := copyFile(path, old); err != nil {
		return "", err
	}
	if err := copyFile(path+"-wal", old+"-wal"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return path, nil
}

// lockBytes are those that SQLite locks in a file that is open.
const lockBytes, lockLength = 0x40000000, 512

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: lockBytes, Len: lockLength}
	if err := syscall.FcntlFlock(in.Fd(), syscall.F_GETLK, &lock); err != nil {
		return err
	}
	if lock.Type != syscall.F_UNLCK {
		return localstore.ErrInUse
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// fill puts all tables into a new store.
func (t *tables) fill(c *localstore.Conversion) error {
	t.counts = counts{station: t.station}
	for _, table := range []func(*localstore.Conversion) error{t.allEvents, t.allPending, t.allBranches, t.allInputs,
		t.allTimers, t.allObjects, t.allValues, t.allDead, t.numbers} {
		if err := table(c); err != nil {
			return err
		}
	}
	return nil
}

// each calls f for each row of a query, and counts them.
func (t *tables) each(n *int, f func(scan func(...any) error) error, query string) (err error) {
	rows, err := t.db.Query(query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		*n++
	}
	return rows.Err()
}

func (t *tables) allEvents(c *localstore.Conversion) error {
	return t.each(&t.events, func(scan func(...any) error) error {
		var e localstore.ConvertedEvent
		if err := scan(&e.Seq, &e.Key, &e.Kind, &e.At, &e.Bytes, &e.Whole, &e.Branch, &e.Home); err != nil {
			return err
		}
		return c.Event(e)
	}, "SELECT seq, run, kind, at, bytes, whole, coalesce(branch, 0), home FROM facts ORDER BY seq")
}

func (t *tables) allPending(c *localstore.Conversion) error {
	return t.each(&t.pending, func(scan func(...any) error) error {
		var seq uint64
		var role string
		if err := scan(&seq, &role); err != nil {
			return err
		}
		return c.Pending(seq, role)
	}, "SELECT fact, role FROM pending ORDER BY fact")
}

func (t *tables) allBranches(c *localstore.Conversion) error {
	return t.each(&t.branches, func(scan func(...any) error) error {
		var b localstore.ConvertedBranch
		if err := scan(&b.ID, &b.Run, &b.Fork, &b.Status, &b.Reason, &b.Reported, &b.Opened, &b.Closed); err != nil {
			return err
		}
		return c.Branch(b)
	}, "SELECT id, run, fork, status, reason, told, opened, closed FROM branches ORDER BY id")
}

func (t *tables) allInputs(c *localstore.Conversion) error {
	return t.each(&t.inputs, func(scan func(...any) error) error {
		var seq uint64
		var subject, header string
		var data []byte
		var at int64
		if err := scan(&seq, &subject, &data, &header, &at); err != nil {
			return err
		}
		var h map[string]string
		if err := json.Unmarshal([]byte(header), &h); err != nil {
			return err
		}
		return c.Input(seq, subject, h, at, data)
	}, "SELECT seq, subject, data, header, at FROM inputs ORDER BY seq")
}

func (t *tables) allTimers(c *localstore.Conversion) error {
	return t.each(&t.timers, func(scan func(...any) error) error {
		var name string
		var at int64
		if err := scan(&name, &at); err != nil {
			return err
		}
		return c.Timer(name, at)
	}, "SELECT name, at FROM timers ORDER BY name")
}

func (t *tables) allObjects(c *localstore.Conversion) error {
	return t.each(&t.objects, func(scan func(...any) error) error {
		var sum, kind string
		var data []byte
		if err := scan(&sum, &kind, &data); err != nil {
			return err
		}
		return c.Object(sum, kind, data)
	}, "SELECT sha256, kind, data FROM blobs ORDER BY sha256")
}

func (t *tables) allValues(c *localstore.Conversion) error {
	return t.each(&t.values, func(scan func(...any) error) error {
		var store, key string
		var value []byte
		var revision uint64
		if err := scan(&store, &key, &value, &revision); err != nil {
			return err
		}
		return c.Value(store, key, value, revision)
	}, "SELECT bucket, key, value, revision FROM shelf ORDER BY bucket, key")
}

func (t *tables) allDead(c *localstore.Conversion) error {
	return t.each(&t.dead, func(scan func(...any) error) error {
		var seq, of uint64
		var by, letter string
		if err := scan(&seq, &by, &letter, &of); err != nil {
			return err
		}
		return c.Dead(seq, events.Service(by), of, []byte(letter))
	}, "SELECT seq, by, letter, coalesce(letter ->> '$.seq', 0) FROM dead ORDER BY seq")
}

// numbers reads the last numbers that were given.
func (t *tables) numbers(c *localstore.Conversion) error {
	var n localstore.Numbers
	of := map[string]*uint64{"facts": &n.Events, "branches": &n.Branches, "inputs": &n.Inputs, "revisions": &n.Values,
		"dead": &n.Dead}
	rows := 0
	err := t.each(&rows, func(scan func(...any) error) error {
		var table string
		var last uint64
		if err := scan(&table, &last); err != nil {
			return err
		}
		if of[table] == nil {
			return fmt.Errorf("table %s is not known", table)
		}
		*of[table] = last
		return nil
	}, "SELECT name, seq FROM sqlite_sequence")
	if err != nil {
		return err
	}
	return c.Numbers(n)
}
