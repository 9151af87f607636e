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
		f, page := populated(t), os.Getpagesize() // the last transaction is an append: observe made it
		var err error
		if f.bytes, err = os.ReadFile(f.path); err != nil {
			t.Fatal(err)
		}
		if f.saw, err = observe(f.path); err != nil {
			t.Fatal(err)
		}
		high, pointers := buckets(f.bytes, page)
		for _, at := range pointers {
			is := binary.NativeEndian.Uint64(f.bytes[at:])
			for to := uint64(2); to < high; to++ {
				b := append([]byte{}, f.bytes...)
				binary.NativeEndian.PutUint64(b[at:], to)
				if what := fmt.Sprintf("pointer at %d from page %d to %d", at, is, to); to != is && !f.judge(t, what, b) {
					t.Errorf("%s: not reported", what)
				}
			}
		}
		if len(pointers) < 3 {
			t.Errorf("%d buckets have a page of their own", len(pointers))
		}
	})
}

// buckets returns where a file has the numbers of the first pages of its buckets, and the number behind the last page.
func buckets(file []byte, page int) (high uint64, pointers []int) {
	order := binary.NativeEndian
	meta := file[16:]
	if other := file[page+16:]; order.Uint64(other[48:]) > order.Uint64(meta[48:]) {
		meta = other
	}
	pages := []int{int(order.Uint64(meta[16:])) * page}
	for ; len(pages) > 0; pages = pages[1:] {
		root := pages[0]
		for i := range int(order.Uint16(file[root+10:])) {
			element := root + 16 + i*16
			if order.Uint16(file[root+8:]) == 1 { // pages below it
				pages = append(pages, int(order.Uint64(file[element+8:]))*page)
				continue
			}
			at := element + int(order.Uint32(file[element+4:])) + int(order.Uint32(file[element+8:]))
			if order.Uint64(file[at:]) != 0 { // else the bucket is on this page
				pointers = append(pointers, at)
			}
		}
	}
	return order.Uint64(meta[40:]), pointers
}
