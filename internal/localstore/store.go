package localstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// schemaVersion of the file, kept as user_version.
const schemaVersion = 1

// schema of a new file. Times are nanoseconds since 1970.
const schema = `
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE branches(id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, fork INTEGER NOT NULL, status TEXT NOT NULL,
	reason TEXT NOT NULL DEFAULT '', told INTEGER NOT NULL DEFAULT 0, opened INTEGER NOT NULL, closed INTEGER NOT NULL DEFAULT 0);
CREATE INDEX branches_run ON branches(run, id);
CREATE TABLE facts(seq INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, kind TEXT NOT NULL, at INTEGER NOT NULL, bytes BLOB NOT NULL, whole INTEGER NOT NULL,
	branch INTEGER REFERENCES branches(id), home INTEGER NOT NULL DEFAULT 0);
CREATE INDEX facts_run ON facts(run, seq);
CREATE INDEX facts_branch ON facts(branch, seq);
CREATE TABLE pending(role TEXT NOT NULL, fact INTEGER NOT NULL REFERENCES facts(seq), PRIMARY KEY(fact, role)) WITHOUT ROWID;
CREATE TABLE inputs(seq INTEGER PRIMARY KEY AUTOINCREMENT, subject TEXT NOT NULL, data BLOB NOT NULL, header TEXT NOT NULL, at INTEGER NOT NULL);
CREATE TABLE timers(name TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE blobs(sha256 TEXT PRIMARY KEY, kind TEXT NOT NULL, data BLOB NOT NULL);
CREATE TABLE shelf(bucket TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, revision INTEGER NOT NULL, PRIMARY KEY(bucket, key)) WITHOUT ROWID;
CREATE TABLE revisions(n INTEGER PRIMARY KEY AUTOINCREMENT);
CREATE TABLE dead(seq INTEGER PRIMARY KEY AUTOINCREMENT, by TEXT NOT NULL, letter TEXT NOT NULL);
`

// ErrInUse means that another process has the file open.
var ErrInUse = errors.New("another process has this store open: stop it, or name another folder")

// ackDelay is how long words that may be lost, such as an ack, wait for a write that takes them along.
const ackDelay = 100 * time.Millisecond

// store is the file. It has one connection: SQLite gives the file to one at a time anyway.
type store struct {
	db *sql.DB
	// mu is held while something is written.
	mu sync.Mutex
	// casual are writes that may be lost, and soon is when they are made at the latest; both are guarded by mu.
	casual []statement
	soon   *time.Timer
	closed bool
}

type statement struct {
	query string
	args  []any
}

// open opens or makes a file for a station.
func open(path, station string) (*store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("local store: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("local store: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite would let everybody read it
	if err != nil {
		return nil, fmt.Errorf("local store: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("local store: %w", err)
	}
	options := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(1000)", "locking_mode(EXCLUSIVE)",
		"journal_mode(WAL)", "synchronous(FULL)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: filepath.ToSlash(path),
		RawQuery: options.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("local store %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	s := &store{db: db}
	if err := s.prepare(station); err != nil {
		return nil, errors.Join(fmt.Errorf("local store %s: %w", path, err), db.Close())
	}
	return s, nil
}

// prepare makes the tables of a new file, and refuses the file of another version or station.
func (s *store) prepare(station string) error {
	return s.write(context.Background(), func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		if version == 0 {
			if _, err := tx.Exec(schema + fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
				return err
			}
			_, err := tx.Exec("INSERT INTO meta VALUES('station', ?)", station)
			return err
		}
		if version != schemaVersion {
			return fmt.Errorf("it has version %d, this program reads version %d: upgrade the program", version, schemaVersion)
		}
		var owner string
		if err := tx.QueryRow("SELECT value FROM meta WHERE key = 'station'").Scan(&owner); err != nil {
			return err
		}
		if owner != station {
			return fmt.Errorf("it is the store of station %q, not of %q: name another folder", owner, station)
		}
		return nil
	})
}

// write makes changes that are on the disk when it returns nil. An error leaves open whether they are, unless it is of
// f itself: then nothing was changed.
func (s *store) write(ctx context.Context, f func(tx *sql.Tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commit(f)
}

// commit is write with mu held. It is not cut short: the disk is near, and half a wait would leave the outcome open.
func (s *store) commit(f func(tx *sql.Tx) error) error {
	tx, err := s.db.Begin()
	if err != nil {
		return explain(err)
	}
	for _, c := range s.casual {
		if _, err := tx.Exec(c.query, c.args...); err != nil {
			return errors.Join(explain(err), tx.Rollback())
		}
	}
	if err := f(tx); err != nil {
		return errors.Join(explain(err), tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return explain(err)
	}
	s.casual = nil
	return nil
}

// explain names what SQLite says with a number where a person can do something.
func explain(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == sqlite3.SQLITE_BUSY {
		return fmt.Errorf("%w (%w)", ErrInUse, err)
	}
	return err
}

func isFull(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_FULL
}

// deferWrite makes a change with the next write, or soon. It may be lost with the process.
func (s *store) deferWrite(query string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.casual = append(s.casual, statement{query, args})
	if s.soon == nil {
		s.soon = time.AfterFunc(ackDelay, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.soon = nil
			if !s.closed && len(s.casual) > 0 {
				_ = s.commit(func(*sql.Tx) error { return nil }) // they stay for the next write
			}
		})
	}
}

// close writes what may be lost, and lets go of the file.
func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.soon != nil {
		s.soon.Stop()
	}
	var err error
	if len(s.casual) > 0 {
		err = s.commit(func(*sql.Tx) error { return nil })
	}
	return errors.Join(err, s.db.Close())
}

// each calls f for each row of a query.
func (s *store) each(ctx context.Context, f func(scan func(...any) error) error, query string,
	args ...any) (err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
