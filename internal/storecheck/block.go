package storecheck

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"math/bits"
	"strings"

	"github.com/minio/highwayhash"
)

// The form of a record: length with a bit for headers (4 bytes), position with bits for erased messages and tombstones
// (8), time (8), length of the subject (2), the subject, with headers their length (4) and themselves, the message, a
// checksum (8) of all but the lengths.
const (
	headBytes = 22
	sumBytes  = 8
	atSeq     = 4
	atSubject = 20

	hasHeaders = 1 << 31
	erased     = 1 << 63
	tombstone  = 1 << 62

	// recordMost is more than any record is long.
	recordMost = 32 << 20
	// healMost bounds the records of which each bit is tried, in bytes: the time grows with the square.
	healMost = 16 << 10
	// jumpMost bounds how far positions are believed to jump where the next whole record is looked for.
	jumpMost = 1 << 24
)

// record is one entry of a block.
type record struct {
	size    int
	seq     uint64
	raw     uint64
	subject string
	// bare is the message where it has no headers: no checksum then says where the subject ends and the message begins.
	bare []byte
}

// message reports whether it is a message, and not the trace of one that was removed.
func (r record) message() bool { return r.raw&(erased|tombstone) == 0 }

// block reads the records of one file of a stream.
type block struct {
	hash hash.Hash64
	// subjects that the stream takes.
	subjects []string
}

func newHash(key string) hash.Hash64 {
	sum := sha256.Sum256([]byte(key))
	h, err := highwayhash.New64(sum[:])
	if err != nil {
		panic(fmt.Sprintf("a key of 32 bytes: %v", err))
	}
	return h
}

func newBlock(stream string, index int, subjects []string) *block {
	return &block{hash: newHash(fmt.Sprintf("%s-%d", stream, index)), subjects: subjects}
}

// shape looks at the lengths of a record alone.
func shape(b []byte) (size, subject int, headers, ok bool) {
	if len(b) < headBytes+sumBytes {
		return 0, 0, false, false
	}
	length := binary.LittleEndian.Uint32(b)
	headers = length&hasHeaders != 0
	size, subject = int(length&^hasHeaders), int(binary.LittleEndian.Uint16(b[atSubject:]))
	room := size - headBytes - sumBytes - subject
	if headers {
		room -= 4
	}
	return size, subject, headers, size <= recordMost && room >= 0 && size <= len(b)
}

// sum is the checksum that a record of this shape should have.
func (k *block) sum(b []byte, size, subject int, headers bool) [sumBytes]byte {
	k.hash.Reset()
	_, _ = k.hash.Write(b[atSeq:atSubject])
	text := b[headBytes : size-sumBytes]
	_, _ = k.hash.Write(text[:subject])
	if headers {
		subject += 4
	}
	_, _ = k.hash.Write(text[subject:])
	var got [sumBytes]byte
	k.hash.Sum(got[:0])
	return got
}

// whole reads the record at the beginning of b; ok is false where any bit of it is wrong, as far as that shows.
func (k *block) whole(b []byte) (r record, ok bool) {
	size, subject, headers, ok := shape(b)
	if !ok {
		return r, false
	}
	if got := k.sum(b, size, subject, headers); !bytes.Equal(got[:], b[size-sumBytes:size]) {
		return r, false
	}
	if headers && !headed(b[headBytes+subject:size-sumBytes]) {
		return r, false
	}
	raw := binary.LittleEndian.Uint64(b[atSeq:])
	r = record{size: size, raw: raw, seq: raw &^ (erased | tombstone), subject: string(b[headBytes : headBytes+subject])}
	if !headers {
		r.bare = b[headBytes+subject : size-sumBytes]
	}
	return r, true
}

// headed reports whether the length of the headers, which no checksum covers, is where they end.
func headed(b []byte) bool {
	const end = "\r\n\r\n"
	n := int(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if n > len(b) {
		return false
	}
	return n == 0 || bytes.HasPrefix(b, []byte("NATS/")) && bytes.Index(b, []byte(end)) == n-len(end)
}

// strange reports whether a subject is none of the stream's, or does not end where it should. The stream may have taken
// other subjects once, and others write other messages, so this alone is no fault.
func (k *block) strange(r record) bool {
	if !r.message() || len(k.subjects) == 0 {
		return false
	}
	if misplaced(r) {
		return true
	}
	for _, pattern := range k.subjects {
		if matches(pattern, r.subject) {
			return false
		}
	}
	return true
}

// nuidBytes is how long the id is that ends the subjects of an object's parts.
const nuidBytes = 22

// misplaced reports whether a message without headers begins elsewhere than behind its subject: a part of an object has
// an id of fixed length before it, and all other messages are JSON values.
func misplaced(r record) bool {
	if r.bare == nil {
		return false
	}
	if object, ok := strings.CutPrefix(r.subject, "$O."); ok {
		if _, id, part := strings.Cut(object, ".C."); part {
			return len(id) != nuidBytes || strings.Trim(id, letters) != ""
		}
	}
	return len(r.bare) == 0 || !strings.ContainsRune(`{["`, rune(r.bare[0])) || !json.Valid(r.bare)
}

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// matches compares a subject with a pattern, token by token.
func matches(pattern, subject string) bool {
	for {
		want, more, wanted := strings.Cut(pattern, ".")
		got, rest, there := strings.Cut(subject, ".")
		switch {
		case want == ">":
			return got != ""
		case got == "" || want != "*" && want != got:
			return false
		case !wanted || !there:
			return wanted == there
		}
		pattern, subject = more, rest
	}
}

// heal turns back the one bit that makes the record at the beginning of b wrong, if there is such a bit. b is changed
// only where it returns true.
func (k *block) heal(b []byte) bool {
	if len(b) < headBytes+sumBytes {
		return false
	}
	ok := func() bool { r, ok := k.whole(b); return ok && !k.strange(r) }
	size, subject, headers, shaped := shape(b)
	if shaped {
		got, at := k.sum(b, size, subject, headers), b[size-sumBytes:size]
		wrong := 0
		for i := range got {
			wrong += bits.OnesCount8(got[i] ^ at[i])
		}
		if wrong == 1 {
			copy(at, got[:])
			return true
		}
	}
	// The lengths first: no checksum covers them, and where the first one is wrong nothing else can be found.
	for _, part := range [][2]int{{0, 4}, {atSubject, headBytes}, {headBytes + subject, headBytes + subject + 4},
		{atSeq, atSubject}} {
		if part[1] <= len(b) && flip(b[part[0]:part[1]], ok) {
			return true
		}
	}
	return shaped && size <= healMost && flip(b[headBytes:size-sumBytes], ok)
}

// flip tries each bit of a part until ok.
func flip(part []byte, ok func() bool) bool {
	for i := range part {
		for bit := range 8 {
			part[i] ^= 1 << bit
			if ok() {
				return true
			}
			part[i] ^= 1 << bit
		}
	}
	return false
}

// next finds the next whole record behind a damaged one, and returns len(b) where there is none.
func (k *block) next(b []byte, from int, last uint64) int {
	for i := from + 1; i+headBytes+sumBytes <= len(b); i++ {
		seq := binary.LittleEndian.Uint64(b[i+atSeq:]) &^ (erased | tombstone)
		if seq == 0 || seq > last+jumpMost {
			continue
		}
		if _, ok := k.whole(b[i:]); ok {
			return i
		}
	}
	return len(b)
}

// gap is a part of a block that could not be read.
type gap struct {
	// from and to in the file before anything was cut.
	from, to int
	// after is the highest position before it, before the lowest behind it; 0 for none.
	after, before uint64
	// subject of the record it began with, as far as it can be read.
	subject string
}

// read is what a block holds.
type read struct {
	// b is the block with its bits turned back and its gaps cut out.
	b      []byte
	healed int
	gaps   []gap
	// seqs of the messages, in order.
	seqs []uint64
	last uint64
}

// read goes through a block whose stream had reached a position before it. Bits are turned back in b itself.
func (k *block) read(b []byte, last uint64) read {
	out := read{last: last}
	for i := 0; i < len(b); {
		r, ok := k.whole(b[i:])
		if ok && k.strange(r) && flip(b[i+atSubject:i+headBytes], func() bool {
			again, ok := k.whole(b[i:])
			return ok && !k.strange(again)
		}) {
			out.healed++
			continue
		}
		if !ok && k.heal(b[i:]) {
			out.healed++
			continue
		}
		if !ok {
			g := gap{from: i, to: k.next(b, i, out.last), after: out.last, subject: glimpse(b[i:])}
			out.gaps = append(out.gaps, g)
			i = g.to
			continue
		}
		if n := len(out.gaps); n > 0 && out.gaps[n-1].before == 0 && r.message() {
			out.gaps[n-1].before = r.seq
		}
		out.last = max(out.last, r.seq)
		if r.message() {
			out.seqs = append(out.seqs, r.seq)
		}
		i += r.size
	}
	out.b = without(b, out.gaps)
	return out
}

// without cuts the gaps out of a block.
func without(b []byte, gaps []gap) []byte {
	if len(gaps) == 0 {
		return b
	}
	var out []byte
	at := 0
	for _, g := range gaps {
		out = append(out, b[at:g.from]...)
		at = g.to
	}
	return append(out, b[at:]...)
}

// skim goes through a block whose digest is right: what its records hold need not be hashed again.
func (k *block) skim(b []byte, last uint64) (out read, ok bool) {
	out = read{b: b, last: last}
	for i := 0; i < len(b); {
		size, _, _, ok := shape(b[i:])
		if !ok {
			return read{}, false
		}
		r := record{raw: binary.LittleEndian.Uint64(b[i+atSeq:])}
		seq := r.raw &^ (erased | tombstone)
		out.last = max(out.last, seq)
		if r.message() {
			out.seqs = append(out.seqs, seq)
		}
		i += size
	}
	return out, true
}

// glimpse is the subject of a record that is damaged, as far as it looks like one.
func glimpse(b []byte) string {
	if len(b) < headBytes {
		return ""
	}
	n := int(binary.LittleEndian.Uint16(b[atSubject:]))
	if n > len(b)-headBytes || n > 512 {
		return ""
	}
	for _, c := range b[headBytes : headBytes+n] {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	return string(b[headBytes : headBytes+n])
}

// lengthsMost bounds the bytes that are hashed to find the length of a subject that was changed.
const lengthsMost = 1 << 30

// lengths turns back one bit of the length of a subject in a block whose checksums are all right and whose digest is
// not: no checksum covers that length where a message has no headers.
func (k *block) lengths(f file, was File) bool {
	tries := 0
	for i := 0; i < len(f.b); {
		r, ok := k.whole(f.b[i:])
		if !ok {
			return false
		}
		if tries += 16 * len(f.b); tries > lengthsMost {
			return false
		}
		part := f.b[i+atSubject : i+headBytes]
		if flip(part, func() bool { _, ok := k.whole(f.b[i:]); return ok && FileOf(f.b).same(was) }) {
			return true
		}
		i += r.size
	}
	return false
}
