package wasm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	// maxModule is the largest program file, in bytes.
	maxModule = 128 << 20
	// maxTable is the most entries of the tables of a program together: they are memory that no other limit counts.
	maxTable = 1 << 20
	// pageSize is that of a program's memory, in bytes.
	pageSize = 64 << 10

	sectionTable, sectionMemory = 4, 5
)

// errModule means that a file is no program that can run here.
var errModule = errors.New("not a program that can run here")

var header = []byte("\x00asm\x01\x00\x00\x00")

// reader reads the binary format. After the first fault it reads zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errModule, what)
	}
	r.rest = nil
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail("it is truncated")
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// u32 reads an unsigned number of at most 32 bits.
func (r *reader) u32() uint32 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n > 5 || v > math.MaxUint32 {
		r.fail("it has a malformed number")
		return 0
	}
	r.rest = r.rest[n:]
	return uint32(v)
}

func (r *reader) take(n uint32) []byte {
	if uint64(n) > uint64(len(r.rest)) {
		r.fail("it is truncated")
		return nil
	}
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

// limits reads the bounds of a table or memory.
func (r *reader) limits() (flags byte, least uint32, most *uint32) {
	flags = r.byte()
	least = r.u32()
	if flags&1 != 0 {
		m := r.u32()
		most = &m
	}
	return flags, least, most
}

// inspect checks what a program would take of its host before it runs, and returns it with bounds on its tables, and
// how many bytes of memory it wants to begin with. The engine checks all else.
func inspect(module []byte) (bounded []byte, least int64, err error) {
	if len(module) > maxModule {
		return nil, 0, fmt.Errorf("%w: it has %d bytes, at most %d", errModule, len(module), maxModule)
	}
	if !bytes.HasPrefix(module, header) {
		return nil, 0, fmt.Errorf("%w: it does not begin with the header of WebAssembly version 1", errModule)
	}
	r := &reader{rest: module[len(header):]}
	bounded = append(make([]byte, 0, len(module)+64), header...)
	for len(r.rest) > 0 && r.err == nil {
		id := r.byte()
		body := r.take(r.u32())
		switch id {
		case sectionTable:
			if body, err = boundTables(body); err != nil {
				return nil, 0, err
			}
		case sectionMemory:
			m := &reader{rest: body}
			for range min(m.u32(), 1) {
				_, pages, _ := m.limits()
				least = int64(pages) * pageSize
			}
			if m.err != nil {
				return nil, 0, m.err
			}
		}
		bounded = append(bounded, id)
		bounded = binary.AppendUvarint(bounded, uint64(len(body)))
		bounded = append(bounded, body...)
	}
	return bounded, least, r.err
}

// boundTables gives each table a largest size.
func boundTables(body []byte) ([]byte, error) {
	r := &reader{rest: body}
	n := r.u32()
	if n > 16 {
		return nil, fmt.Errorf("%w: it has %d tables, at most 16", errModule, n)
	}
	out := binary.AppendUvarint(nil, uint64(n))
	total := uint64(0)
	for range n {
		kind := r.byte()
		if kind != 0x70 && kind != 0x6f {
			r.fail(fmt.Sprintf("tables of kind %#x", kind))
		}
		flags, least, most := r.limits()
		if total += uint64(least); total > maxTable {
			return nil, fmt.Errorf("%w: its tables begin with more than %d entries", errModule, maxTable)
		}
		bound := uint32(maxTable)
		if most != nil {
			bound = min(bound, max(*most, least))
		}
		out = append(out, kind, flags|1)
		out = binary.AppendUvarint(out, uint64(least))
		out = binary.AppendUvarint(out, uint64(bound))
	}
	if r.err == nil && len(r.rest) > 0 {
		r.fail("its tables exceed their bounds")
	}
	return out, r.err
}
