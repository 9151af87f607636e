package localstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/pkg/events"
)

// Conversion takes what an older store held. It is used by deploy/oldstore alone.
type Conversion struct {
	s *store
	// check is set when what was put is put again, to be compared.
	check bool
	// rest are changes that were not written yet, of so many bytes.
	rest []func(putter) error
	size int
	// keys counts those that were compared.
	keys map[bucket]int
}

// conversionBatch is how much is written in one transaction, in bytes.
const conversionBatch = 4 << 20

// Convert makes a file of what fill puts into it, and calls fill again to compare with what is there then. There is no
// file unless all of it is in it.
func Convert(path, station string, fill func(*Conversion) error) (err error) {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("convert: there is a store %s already, %w", path, err)
	}
	part := filepath.Join(filepath.Dir(path), ".part-"+filepath.Base(path)) // of an earlier try, or none
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("convert: %w", err)
	}
	s, err := open(part, station, true)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	c := &Conversion{s: s, keys: map[bucket]int{}}
	if err = fill(c); err == nil {
		err = c.flush()
	}
	if err == nil {
		c.check = true
		err = fill(c)
	}
	if err == nil {
		err = c.complete()
	}
	if err = errors.Join(err, s.close()); err == nil {
		err = errors.Join(verify(part), os.Rename(part, path), syncDir(filepath.Dir(path)))
	}
	if err != nil {
		return fmt.Errorf("convert: %w", errors.Join(err, os.RemoveAll(part)))
	}
	return nil
}

// comparison compares what is put with what is there.
type comparison struct {
	t    *tx
	keys map[bucket]int
}

func (c comparison) put(b bucket, key, value []byte) error {
	there, err := c.t.get(b, key)
	if err == nil && (there == nil || !bytes.Equal(there, value)) {
		err = fmt.Errorf("key %.80q of bucket %s is not as it was put", key, b)
	}
	c.keys[b]++
	return err
}

func (c *Conversion) take(size int, f func(putter) error) error {
	if c.check {
		return c.s.view(context.Background(), func(t *tx) error { return f(comparison{t, c.keys}) })
	}
	c.rest, c.size = append(c.rest, f), c.size+size
	if c.size < conversionBatch && len(c.rest) < batch {
		return nil
	}
	return c.flush()
}

func (c *Conversion) flush() error {
	rest := c.rest
	c.rest, c.size = nil, 0
	return c.s.write(context.Background(), func(t *tx) error {
		for _, f := range rest {
			if err := f(t); err != nil {
				return err
			}
		}
		return nil
	})
}

// complete looks whether there is more than was compared.
func (c *Conversion) complete() error {
	c.keys[metaBucket] += 2 // version and station
	return c.s.view(context.Background(), func(t *tx) error {
		for _, b := range allBuckets {
			n := 0
			if err := t.scan(b, nil, nil, func([]byte, []byte) error { n++; return nil }); err != nil {
				return err
			}
			if n != c.keys[b] {
				return fmt.Errorf("bucket %s has %d keys, %d were put", b, n, c.keys[b])
			}
		}
		return nil
	})
}

// ConvertedEvent is an event of an older store. Branch is 0 for one of the station's own log, Home where it is not
// known to be in the primary log.
type ConvertedEvent struct {
	Seq, Whole, Branch, Home uint64
	Key                      string
	Kind                     events.Kind
	At                       int64
	Bytes                    []byte
}

// Event puts an event.
func (c *Conversion) Event(e ConvertedEvent) error {
	return c.take(len(e.Bytes), func(t putter) error {
		head := eventHead{Key: e.Key, Kind: e.Kind, At: e.At, Whole: e.Whole, Branch: e.Branch}
		if err := putEvent(t, e.Seq, head, e.Bytes); err != nil || e.Home == 0 {
			return err
		}
		return t.put(homeBucket, number(e.Seq), number(e.Home))
	})
}

// Pending puts that a role must still receive an event.
func (c *Conversion) Pending(seq uint64, role string) error {
	return c.take(0, func(t putter) error { return t.put(pendingBucket, append(number(seq), role...), nil) })
}

// ConvertedBranch is a branch of an older store. Reported is whether nothing has to be reported of it any more.
type ConvertedBranch struct {
	ID, Fork       uint64
	Run, Reason    string
	Status         Status
	Opened, Closed int64
	Reported       bool
}

// Branch puts a branch.
func (c *Conversion) Branch(b ConvertedBranch) error {
	return c.take(0, func(t putter) error {
		row := branchRow{Run: b.Run, Fork: b.Fork, Status: b.Status, Reason: b.Reason, Opened: b.Opened, Closed: b.Closed}
		return putBranch(t, b.ID, row, b.Status == BranchRefused && !b.Reported)
	})
}

// Input puts the message of an outsider.
func (c *Conversion) Input(seq uint64, subject string, header map[string]string, at int64, data []byte) error {
	return c.take(len(data), func(t putter) error {
		return putInput(t, seq, inputHead{Subject: subject, Header: header, At: at}, data)
	})
}

// Timer puts a timer.
func (c *Conversion) Timer(name string, at int64) error {
	return c.take(0, func(t putter) error { return t.put(timersBucket, []byte(name), number(uint64(at))) })
}

// Object puts an object.
func (c *Conversion) Object(sha256, kind string, data []byte) error {
	return c.take(len(data), func(t putter) error { return putObject(t, sha256, kind, data) })
}

// Value puts a value of a key-value store.
func (c *Conversion) Value(store, key string, value []byte, revision uint64) error {
	return c.take(len(value), func(t putter) error { return kv{bucket: store}.putAt(t, key, value, revision) })
}

// Dead puts a dead letter, of the message at a position.
func (c *Conversion) Dead(seq uint64, by events.Service, of uint64, letter []byte) error {
	return c.take(len(letter), func(t putter) error { return putDead(t, seq, by, of, letter) })
}

// Numbers are the last ones that an older store gave, 0 where it gave none.
type Numbers struct{ Events, Branches, Inputs, Values, Dead uint64 }

// Numbers puts the last numbers that were given.
func (c *Conversion) Numbers(n Numbers) error {
	return c.take(0, func(t putter) error {
		for _, of := range []struct {
			b    bucket
			last uint64
		}{{eventsBucket, n.Events}, {branchesBucket, n.Branches}, {inputsBucket, n.Inputs}, {valuesBucket, n.Values},
			{deadBucket, n.Dead}} {
			if of.last == 0 {
				continue
			}
			if err := t.put(metaBucket, lastKey(of.b), number(of.last)); err != nil {
				return err
			}
		}
		return nil
	})
}
