package localstore_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"
)

// TestStalePages points buckets to other pages, of which many have what a bucket was before: with whole checksums.
func TestStalePages(t *testing.T) {
	t.Parallel()
	t.Run("PERS-17 SAFE-2 a pointer to another page is reported, also to a page that had the bucket before", func(t *testing.T) {
		t.Parallel()
		f, page := furnished(t), os.Getpagesize()
		order := binary.NativeEndian
		meta := f.bytes[16:]
		if other := f.bytes[page+16:]; order.Uint64(other[48:]) > order.Uint64(meta[48:]) {
			meta = other
		}
		root, high := int(order.Uint64(meta[16:]))*page, int(order.Uint64(meta[40:]))
		tried := 0
		for i := range int(order.Uint16(f.bytes[root+10:])) {
			element := root + 16 + i*16
			at := element + int(order.Uint32(f.bytes[element+4:])) + int(order.Uint32(f.bytes[element+8:]))
			is := order.Uint64(f.bytes[at:])
			if is == 0 || tried == 3 {
				continue // the bucket is on this page
			}
			tried++
			for to := 2; to < high; to++ {
				b := append([]byte{}, f.bytes...)
				order.PutUint64(b[at:], uint64(to))
				if what := fmt.Sprintf("bucket %d from page %d to %d", i, is, to); uint64(to) != is && !f.judge(t, what, b) {
					t.Errorf("%s: not reported", what)
				}
			}
		}
		if tried == 0 {
			t.Error("no bucket has a page of its own")
		}
	})
}
