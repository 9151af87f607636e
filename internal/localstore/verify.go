package localstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
)

// The form of a file of bbolt, version 2: pages, each with a header; the first two have one meta each, written by
// turns.
const (
	boltMagic, boltVersion = 0xED0CDAED, 2

	pageHead, elementSize, bucketHead = 16, 16, 16
	metaSummed, metaSize              = 56, 64

	branchPage, leafPage, freePage = 0x01, 0x02, 0x10
	bucketFlag                     = 0x01

	// manyFree in the header of the page of free pages: their count stands before them.
	manyFree = 0xffff
)

// verify reads each page that the file uses, and returns an error (ErrDamaged) where a bit that matters is not as it
// was written: both metas and each value must have their checksum, what is on a page must fill it without a gap, keys
// must ascend, and each page must be used once or be free. So no page of an earlier transaction is taken for one of the
// last. It reads the file and not the memory that it is mapped to, and trusts nothing that it has not checked.
func verify(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	v := &verification{file: f, size: info.Size()}
	if err := v.all(); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

type verification struct {
	file     io.ReaderAt
	size     int64
	pageSize uint64
	// used says of each page below the highest whether it was met.
	used []bool
	// in is the bucket that is read, empty for that of buckets. Its next key must be above last, unless that is nil, and
	// at or above least. Both are copies.
	in          bucket
	last, least []byte
	// pages are one for each level of a tree, and one that is at hand for the next level below.
	pages [][]byte
	level int
}

// meta is what matters of a meta page.
type meta struct{ pageSize, root, free, high, tx uint64 }

// order is that of the machine, in which bbolt writes.
var order = binary.NativeEndian

func (v *verification) all() error {
	first, err := v.meta(0)
	if err != nil {
		return err
	}
	v.pageSize = first.pageSize
	second, err := v.meta(1)
	if err != nil {
		return err
	}
	m := first
	if second.tx > first.tx {
		m = second
	}
	if need := int64(m.high * v.pageSize); m.pageSize != v.pageSize || v.size < need {
		return fmt.Errorf("the file has %d bytes of %d", v.size, need)
	}
	v.used = make([]bool, m.high)
	v.used[0], v.used[1] = true, true
	if m.tx > 1 || m.high > 4 { // else it was just made
		if err := v.bucket("", m.root); err != nil {
			return err
		}
	} else if err := v.use(m.root, 0); err != nil {
		return err
	}
	if err := v.free(m.free); err != nil {
		return err
	}
	if i := slices.Index(v.used, false); i >= 0 {
		return fmt.Errorf("page %d is neither used nor free", i)
	}
	return nil
}

// meta reads a meta page. After a crash both are whole: each is smaller than a sector, and is written after all else.
func (v *verification) meta(i uint64) (m meta, err error) {
	b := make([]byte, metaSize)
	if _, err := v.file.ReadAt(b, int64(i*v.pageSize+pageHead)); err != nil {
		return m, fmt.Errorf("meta page %d: %w", i, err)
	}
	digest := fnv.New64a()
	_, _ = digest.Write(b[:metaSummed]) // it never fails
	if order.Uint32(b) != boltMagic || order.Uint32(b[4:]) != boltVersion ||
		order.Uint64(b[metaSummed:]) != digest.Sum64() {
		return m, fmt.Errorf("the checksum of meta page %d does not hold", i)
	}
	return meta{pageSize: uint64(order.Uint32(b[8:])), root: order.Uint64(b[16:]), free: order.Uint64(b[32:]),
		high: order.Uint64(b[40:]), tx: order.Uint64(b[48:])}, nil
}

// use notes that a page and those that go on with it are used.
func (v *verification) use(id, more uint64) error {
	if high := uint64(len(v.used)); id >= high || more >= high-id {
		return fmt.Errorf("page %d is behind the last page", id)
	}
	for p := id; p <= id+more; p++ {
		if v.used[p] {
			return fmt.Errorf("page %d is used twice", p)
		}
		v.used[p] = true
	}
	return nil
}

// room returns memory for a page, valid until the next one of this level is read.
func (v *verification) room(size uint64) []byte {
	for len(v.pages) <= v.level {
		v.pages = append(v.pages, nil)
	}
	if b := v.pages[v.level]; uint64(cap(b)) >= size {
		return b[:size]
	}
	b := make([]byte, size)
	copy(b, v.pages[v.level])
	v.pages[v.level] = b
	return b
}

// page reads a page, and notes that it is used.
func (v *verification) page(id uint64) ([]byte, error) {
	if id >= uint64(len(v.used)) {
		return nil, fmt.Errorf("page %d is behind the last page", id)
	}
	b := v.room(v.pageSize)
	if _, err := v.file.ReadAt(b, int64(id*v.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	more := uint64(order.Uint32(b[12:]))
	if order.Uint64(b) != id {
		return nil, fmt.Errorf("page %d has another number", id)
	}
	if err := v.use(id, more); err != nil || more == 0 {
		return b, err
	}
	b = v.room((1 + more) * v.pageSize)
	if _, err := v.file.ReadAt(b[v.pageSize:], int64((id+1)*v.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return b, nil
}

// free notes the free pages.
func (v *verification) free(id uint64) error {
	b, err := v.page(id)
	if err != nil {
		return err
	}
	kind, count, ids := order.Uint16(b[8:]), uint64(order.Uint16(b[10:])), b[pageHead:]
	if kind == freePage && count == manyFree {
		count, ids = order.Uint64(ids), ids[8:]
	}
	if kind != freePage || count > uint64(len(ids)/8) {
		return fmt.Errorf("page %d is no list of free pages", id)
	}
	for ; count > 0; count, ids = count-1, ids[8:] {
		if err := v.use(order.Uint64(ids), 0); err != nil {
			return fmt.Errorf("list of free pages: %w", err)
		}
	}
	return nil
}

// bucket reads the pages of a bucket.
func (v *verification) bucket(name bucket, root uint64) error {
	v.in, v.last, v.least = name, nil, nil
	err := v.tree(root)
	if err != nil && name != "" {
		err = fmt.Errorf("bucket %s: %w", name, err)
	}
	return err
}

// tree reads a page and those below it.
func (v *verification) tree(id uint64) error {
	b, err := v.page(id)
	if err != nil {
		return err
	}
	switch kind := order.Uint16(b[8:]); kind {
	case leafPage:
		if order.Uint16(b[10:]) == 0 {
			return fmt.Errorf("page %d is empty", id)
		}
		_, err := v.leaf(b)
		return err
	case branchPage:
		return v.branches(b)
	default:
		return fmt.Errorf("page %d is of kind %#x", id, kind)
	}
}

// branches reads the pages below one.
func (v *verification) branches(b []byte) error {
	count := int(order.Uint16(b[10:]))
	if at := pageHead + count*elementSize; count == 0 || at > len(b) {
		return fmt.Errorf("a page has %d pages below it", count)
	}
	at := pageHead + count*elementSize
	for i := range count {
		element := pageHead + i*elementSize
		pos, size := uint64(order.Uint32(b[element:])), uint64(order.Uint32(b[element+4:]))
		if pos != uint64(at-element) || size > uint64(len(b)-at) {
			return fmt.Errorf("key %d of a page is not where it belongs", i)
		}
		key := b[at : at+int(size)]
		at += int(size)
		if v.last != nil && bytes.Compare(key, v.last) <= 0 {
			return fmt.Errorf("key %.80q of a page does not ascend", key)
		}
		v.least = append(v.least[:0], key...)
		v.level++
		if err := v.tree(order.Uint64(b[element+8:])); err != nil {
			return err
		}
		v.level--
	}
	return nil
}

// leaf reads keys and values of a page, and returns the length of what is on it.
func (v *verification) leaf(b []byte) (length int, err error) {
	count := int(order.Uint16(b[10:]))
	at := pageHead + count*elementSize
	if at > len(b) {
		return 0, fmt.Errorf("a page has %d keys", count)
	}
	type nested struct {
		name  bucket
		value []byte
	}
	var below []nested
	for i := range count {
		element := pageHead + i*elementSize
		flags, pos := order.Uint32(b[element:]), uint64(order.Uint32(b[element+4:]))
		keySize, size := uint64(order.Uint32(b[element+8:])), uint64(order.Uint32(b[element+12:]))
		if pos != uint64(at-element) || keySize+size > uint64(len(b)-at) {
			return 0, fmt.Errorf("key %d of a page is not where it belongs", i)
		}
		key := b[at : at+int(keySize)]
		value := b[at+int(keySize) : at+int(keySize+size)]
		at += int(keySize + size)
		if v.last != nil && bytes.Compare(key, v.last) <= 0 || bytes.Compare(key, v.least) < 0 {
			return 0, fmt.Errorf("key %.80q does not ascend", key)
		}
		v.last = append(v.last[:0], key...)
		if (flags == bucketFlag) != (v.in == "") {
			return 0, fmt.Errorf("key %.80q is of kind %#x", key, flags)
		}
		if v.in == "" {
			below = append(below, nested{bucket(key), value})
		} else if _, err := unseal(v.in, key, value); err != nil {
			return 0, err
		}
	}
	for _, n := range below {
		if err := v.nested(n.name, n.value); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// nested reads a bucket that the bucket of buckets has: the number of its page or, where it is small, the page itself.
func (v *verification) nested(name bucket, value []byte) error {
	outer := v.last
	v.level++ // the page that has the value is still needed
	defer func() { v.in, v.last, v.least, v.level = "", outer, nil, v.level-1 }()
	if len(value) < bucketHead || !slices.Contains(allBuckets, name) {
		return fmt.Errorf("bucket %.80q is not one of a local store", name)
	}
	if root := order.Uint64(value); root != 0 {
		return v.bucket(name, root)
	}
	page := value[bucketHead:]
	v.in, v.last, v.least = name, nil, nil
	if len(page) < pageHead || order.Uint16(page[8:]) != leafPage {
		return fmt.Errorf("bucket %s has no page", name)
	}
	length, err := v.leaf(page)
	if err == nil && length != len(page) {
		err = fmt.Errorf("%d bytes of %d are used", length, len(page))
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	return nil
}
