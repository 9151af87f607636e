package wasm

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// made is what each name takes of the disk at least, in bytes: files without content fill a disk as well.
const made = 4096

// quota bounds what the files of a sandbox take of the disk. It adds up what is written, which is never too little, and
// counts the files when that comes to more than the limit.
type quota struct {
	limit int64
	roots []string

	mu   sync.Mutex
	used int64 // guarded by mu
}

// grow takes n bytes, or returns sandbox.ErrDisk.
func (q *quota) grow(n int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n <= q.limit && q.used+n > q.limit {
		q.used = q.count()
	}
	if n > q.limit || q.used+n > q.limit {
		return fmt.Errorf("%w: %d bytes", sandbox.ErrDisk, q.limit)
	}
	q.used += n
	return nil
}

// count adds up what the files take, each once.
func (q *quota) count() int64 {
	return local.DiskUse(context.Background(), q.roots, func(path string, size int64) int64 {
		if slices.Contains(q.roots, path) {
			return 0
		}
		return max(size, made)
	})
}
