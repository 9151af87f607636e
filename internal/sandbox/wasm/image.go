package wasm

import "os"

const sectionData, sectionDataCount = 11, 12

// segment is a part of the memory that a program begins with.
type segment struct {
	at   int64
	data []byte
}

// prefilled takes the memory that a program begins with out of it, so that it need not be copied for each command: such
// a memory is mapped instead, and a page of it is copied when the program writes there. It returns the program as it
// is, and no image, where that cannot be done; the engine says then what may be wrong with it.
func prefilled(module []byte, least int64) (rest []byte, image *os.File) {
	rest, parts := withoutData(module, least)
	if len(parts) == 0 {
		return module, nil
	}
	image, err := imageOf(parts)
	if err != nil {
		return module, nil // the engine copies
	}
	return rest, image
}

// withoutData splits a program into its segments of data and the rest of it. There are none where one is not a plain
// copy to a fixed place within the memory that the program begins with.
func withoutData(module []byte, least int64) (rest []byte, parts []segment) {
	r := &reader{rest: module[len(header):]}
	rest = append(make([]byte, 0, len(module)), header...)
	for len(r.rest) > 0 && r.err == nil {
		section := r.rest
		id := r.byte()
		body := r.take(r.u32())
		switch id {
		case sectionDataCount:
			return nil, nil // its code may copy segments by itself
		case sectionData:
			if parts = segments(body, least); parts == nil {
				return nil, nil
			}
			continue
		}
		rest = append(rest, section[:len(section)-len(r.rest)]...)
	}
	if r.err != nil {
		return nil, nil
	}
	return rest, parts
}

// segments reads a section of data, or returns nil where one of them is no plain copy. Who has no memory has no room
// for any.
func segments(body []byte, least int64) (parts []segment) {
	r := &reader{rest: body}
	for range r.u32() {
		if r.byte() != 0 || r.byte() != 0x41 { // active, in the first memory, at an i32.const
			return nil
		}
		at := r.s32()
		if r.byte() != 0x0b {
			return nil
		}
		data := r.take(r.u32())
		if r.err != nil || at < 0 || at+int64(len(data)) > least {
			return nil
		}
		parts = append(parts, segment{at, data})
	}
	if r.err != nil || len(r.rest) > 0 {
		return nil
	}
	return parts
}

// s32 reads a signed number of at most 32 bits.
func (r *reader) s32() int64 {
	var v int64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			return v << (57 - shift) >> (57 - shift) // the highest bit that was read is the sign
		}
	}
	r.fail("it has a malformed number")
	return 0
}
