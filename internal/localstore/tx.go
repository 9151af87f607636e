package localstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// bucket is an ordered set of keys in the file.
type bucket string

// The buckets. A number in a key has eight bytes, the highest first, so that keys have the order of the numbers. What
// is between two parts of a key is a zero byte, which no part before it has. Times are nanoseconds since 1970.
const (
	// metaBucket has the version of the form and the station, and the last number that was given of each kind.
	metaBucket bucket = "meta"
	// eventsBucket has the events by position; an eventHead, then the bytes.
	eventsBucket bucket = "events"
	// logsBucket has the positions of the events of an aggregate: its kernel.Key, position.
	logsBucket bucket = "logs"
	// branchesBucket has the branches by number; a branchRow.
	branchesBucket bucket = "branches"
	// branchedBucket has the positions of the events of a branch: number, position.
	branchedBucket bucket = "branched"
	// openBucket has the number of the open branch of a run.
	openBucket bucket = "open"
	// reportBucket has the numbers of the refused branches that no dead letter reports yet.
	reportBucket bucket = "report"
	// homeBucket has the position in the primary log of an event that is there, by its position here.
	homeBucket bucket = "home"
	// pendingBucket has who must still receive an event: position, role.
	pendingBucket bucket = "pending"
	// inputsBucket has the messages of outsiders by number; an inputHead, then the data.
	inputsBucket bucket = "inputs"
	// timersBucket has the times of the timers by name.
	timersBucket bucket = "timers"
	// objectsBucket has the objects by their SHA-256; an objectHead, then the data.
	objectsBucket bucket = "objects"
	// valuesBucket has the values of the key-value stores, each after its revision: store, key.
	valuesBucket bucket = "values"
	// deadBucket has the dead letters by number; who refused, a zero byte, and the letter.
	deadBucket bucket = "dead"
	// refusedBucket has the numbers of dead letters: who refused, position of the message, number.
	refusedBucket bucket = "refused"
)

// allBuckets are those of each file. The sequential ones grow at their end only, where half-full pages would be left.
var (
	allBuckets = []bucket{metaBucket, eventsBucket, logsBucket, branchesBucket, branchedBucket, openBucket, reportBucket,
		homeBucket, pendingBucket, inputsBucket, timersBucket, objectsBucket, valuesBucket, deadBucket, refusedBucket}
	sequential = map[bucket]bool{eventsBucket: true, branchesBucket: true, branchedBucket: true, homeBucket: true,
		pendingBucket: true, inputsBucket: true, deadBucket: true}
)

// number is one as part of a key.
func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// numberAt reads the number that a key or value begins with.
func numberAt(b []byte) (uint64, error) {
	if len(b) < 8 {
		return 0, fmt.Errorf("%w: %d bytes where a number is expected", ErrDamaged, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// group is the beginning of the keys of what belongs to a name.
func group(name string) []byte { return append([]byte(name), 0) }

// sumSize is the length of the checksum that each value begins with.
const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sums are the checksums of the names of the buckets, each with a zero byte.
var sums = func() map[bucket]uint32 {
	all := map[bucket]uint32{}
	for _, b := range allBuckets {
		all[b] = crc32.Checksum(group(string(b)), castagnoli)
	}
	return all
}()

// sum is the checksum of a value. It covers where the value stands, so that a key that was damaged is noticed too.
func sum(b bucket, key, value []byte) uint32 {
	return crc32.Update(crc32.Update(sums[b], castagnoli, key), castagnoli, value)
}

// seal puts the checksum before a value.
func seal(b bucket, key, value []byte) []byte {
	sealed := make([]byte, 0, sumSize+len(value))
	return append(binary.BigEndian.AppendUint32(sealed, sum(b, key, value)), value...)
}

// unseal returns the value behind a checksum that holds.
func unseal(b bucket, key, sealed []byte) ([]byte, error) {
	if len(sealed) < sumSize || binary.BigEndian.Uint32(sealed) != sum(b, key, sealed[sumSize:]) {
		return nil, fmt.Errorf("%w: the checksum of key %.80q in bucket %s does not hold", ErrDamaged, key, b)
	}
	return sealed[sumSize:], nil
}

// tx is a transaction. The bytes that it hands out are those of the file: they are valid until it ends, and must not be
// changed.
type tx struct {
	bolt *bolt.Tx
	// changes that were made so far.
	changes int
}

func (t *tx) bucket(b bucket) (*bolt.Bucket, error) {
	found := t.bolt.Bucket([]byte(b))
	if found == nil {
		return nil, fmt.Errorf("%w: bucket %s is missing", ErrDamaged, b)
	}
	if sequential[b] {
		found.FillPercent = 0.95
	}
	return found, nil
}

// putter takes a key and its value: a transaction, or whoever compares with what was put before.
type putter interface {
	put(b bucket, key, value []byte) error
}

// get returns the value of a key, and nil where there is none.
func (t *tx) get(b bucket, key []byte) ([]byte, error) {
	in, err := t.bucket(b)
	if err != nil {
		return nil, err
	}
	sealed := in.Get(key)
	if sealed == nil {
		return nil, nil
	}
	return unseal(b, key, sealed)
}

// has reports whether there is a key.
func (t *tx) has(b bucket, key []byte) (bool, error) {
	value, err := t.get(b, key)
	return value != nil, err
}

// put sets the value of a key.
func (t *tx) put(b bucket, key, value []byte) error {
	in, err := t.bucket(b)
	if err != nil {
		return err
	}
	t.changes++
	return in.Put(key, seal(b, key, value))
}

// remove removes a key. One that is not there is removed already.
func (t *tx) remove(b bucket, key []byte) error {
	in, err := t.bucket(b)
	if err != nil || in.Get(key) == nil {
		return err
	}
	t.changes++
	return in.Delete(key)
}

// next returns a number of a bucket that is greater than all that were given before, also those of removed keys.
func (t *tx) next(b bucket) (uint64, error) {
	last, err := t.get(metaBucket, lastKey(b))
	if err != nil {
		return 0, err
	}
	n := uint64(0)
	if last != nil {
		if n, err = numberAt(last); err != nil {
			return 0, err
		}
	}
	n++
	return n, t.put(metaBucket, lastKey(b), number(n))
}

// lastKey is where the last number of a bucket stands.
func lastKey(b bucket) []byte { return append([]byte("last "), b...) }

// errEnough ends a scan early.
var errEnough = errors.New("enough")

// scan calls f for each key from one on that begins with a prefix, in order, until f returns errEnough. f must not
// change the bucket.
func (t *tx) scan(b bucket, prefix, from []byte, f func(key, value []byte) error) error {
	in, err := t.bucket(b)
	if err != nil {
		return err
	}
	c := in.Cursor()
	if bytes.Compare(from, prefix) < 0 {
		from = prefix
	}
	for key, sealed := c.Seek(from); key != nil && bytes.HasPrefix(key, prefix); key, sealed = c.Next() {
		value, err := unseal(b, key, sealed)
		if err != nil {
			return err
		}
		if err := f(key, value); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// last returns the last of the numbers that keys have after a prefix, 0 where there is none.
func (t *tx) last(b bucket, prefix []byte) (uint64, error) {
	in, err := t.bucket(b)
	if err != nil {
		return 0, err
	}
	c := in.Cursor()
	key, sealed := c.Seek(append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, 9)...)) // behind all of them
	if key == nil {
		key, sealed = c.Last()
	} else {
		key, sealed = c.Prev()
	}
	if key == nil || !bytes.HasPrefix(key, prefix) {
		return 0, nil
	}
	if _, err := unseal(b, key, sealed); err != nil {
		return 0, err
	}
	return numberAt(key[len(prefix):])
}

// removeAll removes the keys that begin with a prefix.
func (t *tx) removeAll(b bucket, prefix []byte) error {
	var keys [][]byte
	err := t.scan(b, prefix, nil, func(key, _ []byte) error {
		keys = append(keys, bytes.Clone(key))
		return nil
	})
	for _, key := range keys {
		err = errors.Join(err, t.remove(b, key))
	}
	return err
}

// join makes a value of a head and the bytes after it. The JSON of a head has no line feed.
func join(head any, body []byte) ([]byte, error) {
	b, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	return append(append(b, '\n'), body...), nil
}

// split undoes join. The body is a copy.
func split(value []byte, head any) (body []byte, err error) {
	first, rest, ok := bytes.Cut(value, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("%w: a value has no head", ErrDamaged)
	}
	if err := json.Unmarshal(first, head); err != nil {
		return nil, fmt.Errorf("%w: head of a value: %w", ErrDamaged, err)
	}
	return append([]byte{}, rest...), nil
}
