package wasm

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/inspan/inspan/internal/sandbox"
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
func (q *quota) count() (total int64) {
	seen := make(map[[2]uint64]bool)
	for _, root := range q.roots {
		_ = filepath.WalkDir(root, func(at string, d fs.DirEntry, _ error) error {
			if d == nil || at == root {
				return nil // it went while we looked
			}
			info, err := d.Info()
			if err != nil {
				return nil
			}
			size := info.Size()
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				size = int64(st.Blocks) * 512 // as stat(2) counts, whatever the blocks of the file system
				id := [2]uint64{uint64(st.Dev), uint64(st.Ino)}
				if st.Nlink > 1 && !d.IsDir() && seen[id] {
					size = 0
				}
				seen[id] = true
			}
			total += max(size, made)
			return nil
		})
	}
	return total
}
