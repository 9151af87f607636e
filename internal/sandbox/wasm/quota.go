package wasm

import (
	"context"
	"fmt"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
)

// quota bounds what the files of a sandbox take of the disk. It adds up what is written, which is never too little, and
// counts the files when that comes to more than the limit.
type quota struct {
	limit int64
	count func(ctx context.Context) int64

	mu   sync.Mutex
	used int64 // guarded by mu
}

// grow takes n bytes, or returns sandbox.ErrDisk.
func (q *quota) grow(n int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n > q.limit {
		return fmt.Errorf("%w: %d bytes", sandbox.ErrDisk, q.limit)
	}
	if q.used+n > q.limit {
		if q.used = q.count(context.Background()); q.used+n > q.limit {
			return fmt.Errorf("%w: %d bytes", sandbox.ErrDisk, q.limit)
		}
	}
	q.used += n
	return nil
}
