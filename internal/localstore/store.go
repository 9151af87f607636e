package localstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// formVersion is the version of what is in the buckets.
const formVersion = 1

// Keys of the bucket meta.
var (
	versionKey = []byte("version")
	stationKey = []byte("station")
)

// ErrInUse means that another process has the file open.
var ErrInUse = errors.New("another process has this store open: stop it, or name another folder")

// ErrDamaged means that the file is not as it was written.
var ErrDamaged = errors.New("the local store is damaged: restore the file from a backup, or move it away to begin with an empty store")

// errShut is returned to those who ask a station that has been closed.
var errShut = errors.New("the local store is closed")

const (
	// ackDelay is how long changes that may be lost, such as an ack, wait for a write that takes them along.
	ackDelay = 100 * time.Millisecond
	// lockWait is how long another process may take to let go of the file.
	lockWait = time.Second
)

// store is the file. Readers see the last transaction and wait for no writer; writers that come while a transaction is
// being synced share the next one.
type store struct {
	db *bolt.DB

	// line guards waiting, the changes that no transaction has taken yet.
	line    sync.Mutex
	waiting []*change

	// mu is held while something is written. What follows is guarded by it, as are the outcomes of changes.
	mu sync.Mutex
	// casual are changes that may be lost, and soon is when they are made at the latest.
	casual []func(*tx) error
	soon   *time.Timer
	closed bool
}

// change is one that somebody waits for.
type change struct {
	f    func(*tx) error
	done bool
	err  error
}

// open opens or makes a file for a station. spare is whether the store of an earlier version may be passed over.
func open(path, station string, spare bool) (*store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("local store: %w", err)
	}
	s, err := openFile(path, station, spare)
	if err != nil {
		return nil, fmt.Errorf("local store %s: %w", path, err)
	}
	return s, nil
}

func openFile(path, station string, spare bool) (*store, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	fresh := errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0
	if fresh && !spare {
		if err := earlier(path); err != nil {
			return nil, err
		}
	}
	s := &store{}
	if s.db, err = openBolt(path); err != nil {
		return nil, err
	}
	if err = verify(path); err == nil {
		err = s.prepare(station)
	}
	if err == nil && fresh {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(err, guarded(s.db.Close))
	}
	return s, nil
}

// openBolt opens the file and takes its lock.
func openBolt(path string) (db *bolt.DB, err error) {
	var file *os.File
	err = guarded(func() error {
		db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait, NoStatistics: true,
			OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
				file, err = os.OpenFile(name, flag, mode)
				return file, err
			}})
		return err
	})
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, ErrDamaged): // the file stays mapped, and so locked unless that is undone
		_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
		if why := verify(path); why != nil {
			err = why // which names the place
		}
		return nil, errors.Join(err, file.Close())
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrInUse
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return nil, err
	}
	return nil, fmt.Errorf("%w (or it is no local store: name another folder): %w", ErrDamaged, err)
}

// syncDir makes the name of a new file durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// prepare makes the buckets of a new file, and refuses the file of another version or station.
func (s *store) prepare(station string) error {
	return s.write(context.Background(), func(t *tx) error {
		if first, _ := t.bolt.Cursor().First(); first == nil {
			for _, b := range allBuckets {
				if _, err := t.bolt.CreateBucket([]byte(b)); err != nil {
					return err
				}
			}
			if err := t.put(metaBucket, versionKey, strconv.AppendInt(nil, formVersion, 10)); err != nil {
				return err
			}
			return t.put(metaBucket, stationKey, []byte(station))
		}
		version, err := t.get(metaBucket, versionKey)
		if err != nil {
			return err
		}
		if string(version) != strconv.Itoa(formVersion) {
			return fmt.Errorf("it has version %s, this program reads version %d: upgrade the program", version, formVersion)
		}
		owner, err := t.get(metaBucket, stationKey)
		if err != nil {
			return err
		}
		if string(owner) != station {
			return fmt.Errorf("it is the store of station %q, not of %q: name another folder", owner, station)
		}
		for _, b := range allBuckets {
			if _, err := t.bucket(b); err != nil {
				return err
			}
		}
		return nil
	})
}

// guarded calls f and makes an error of what a damaged file has bbolt do: it panics, or reads where nothing is.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	return f()
}

// view reads what the last transaction left.
func (s *store) view(ctx context.Context, f func(t *tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return explain(guarded(func() error {
		return s.db.View(func(b *bolt.Tx) error { return f(&tx{bolt: b}) })
	}))
}

// write makes changes that are on the disk when it returns nil. An error leaves open whether they are, unless it is of
// f itself: then nothing was changed. f may be called again, when a change that shares its transaction fails.
func (s *store) write(ctx context.Context, f func(t *tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c := &change{f: f}
	s.line.Lock()
	s.waiting = append(s.waiting, c)
	s.line.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.done { // else whoever had mu before made it
		s.line.Lock()
		all := s.waiting
		s.waiting = nil
		s.line.Unlock()
		s.commit(all)
	}
	return c.err
}

// errNothing ends a transaction that changes nothing, and need not be synced.
var errNothing = errors.New("nothing to write")

// commit makes changes in one transaction, with mu held. It is not cut short: the disk is near, and half a wait would
// leave the outcome open. A change that fails after it changed something is undone with the transaction, which is made
// again without it.
func (s *store) commit(all []*change) error {
	for _, c := range all {
		c.done = true
	}
	for {
		failed := -1
		err := s.transact(all, &failed)
		if failed >= 0 {
			all = append(append([]*change{}, all[:failed]...), all[failed+1:]...)
			continue
		}
		if errors.Is(err, errNothing) {
			return nil
		}
		if err == nil {
			s.casual = nil
			return nil
		}
		for _, c := range all {
			if c.err == nil {
				c.err = err
			}
		}
		return err
	}
}

// transact makes one transaction. failed is set to the index of a change that must be left out.
func (s *store) transact(all []*change, failed *int) error {
	if s.closed {
		return errShut
	}
	return explain(guarded(func() error {
		return s.db.Update(func(b *bolt.Tx) error {
			t := &tx{bolt: b}
			for _, f := range s.casual {
				if err := f(t); err != nil {
					return err
				}
			}
			for i, c := range all {
				before := t.changes
				if c.err = explain(c.f(t)); c.err != nil && t.changes > before {
					*failed = i
					return c.err
				}
			}
			if t.changes == 0 {
				return errNothing
			}
			return nil
		})
	}))
}

// explain puts our words for what bbolt says where a person can do something.
func explain(err error) error {
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return errShut
	}
	return err
}

// isFull reports whether there is no room for a write: on the disk, in the quota, or below a limit for files.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// deferWrite makes a change with the next write, or soon. It may be lost with the process.
func (s *store) deferWrite(f func(*tx) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.casual = append(s.casual, f)
	if s.soon == nil {
		s.soon = time.AfterFunc(ackDelay, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.soon = nil
			if !s.closed && len(s.casual) > 0 {
				_ = s.commit(nil) // they stay for the next write
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
	if s.soon != nil {
		s.soon.Stop()
	}
	var err error
	if len(s.casual) > 0 {
		err = s.commit(nil)
	}
	s.closed = true
	return errors.Join(err, guarded(s.db.Close))
}
