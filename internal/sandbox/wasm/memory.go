package wasm

import (
	"os"
	"sync"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// memory counts that of all programs of a sandbox together, in bytes.
type memory struct {
	limit int64

	mu   sync.Mutex
	used int64 // guarded by mu
}

func (m *memory) take(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > m.limit-m.used {
		return false
	}
	m.used += n
	return true
}

func (m *memory) give(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
}

// grant is the memory of one program. It takes from the sandbox's as it grows and gives all back with release, once the
// program cannot run any more: the engine's own Free may come while it still does.
type grant struct {
	of    *memory
	image *os.File // what the memory begins with; nil for zeros

	mu      sync.Mutex
	held    int64     // taken from the sandbox; guarded by mu, as are the others
	given   int64     // of that, what the program has
	regions []*region // those that were mapped
}

var _ experimental.MemoryAllocator = (*grant)(nil)

// reserve takes what a program begins with.
func (g *grant) reserve(n int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.of.take(n) {
		return false
	}
	g.held += n
	return true
}

// size is what the program has, in bytes. It never shrinks.
func (g *grant) size() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.given
}

// Allocate implements experimental.MemoryAllocator: it sets addresses aside, and no memory.
func (g *grant) Allocate(_, most uint64) experimental.LinearMemory {
	r := &region{grant: g}
	bytes := min(most, uint64(g.of.limit)/pageSize*pageSize)
	if bytes == 0 {
		return r
	}
	if space, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON); err == nil {
		r.space = space
		g.mu.Lock()
		g.regions = append(g.regions, r)
		g.mu.Unlock()
	}
	return r
}

// release gives everything back. The program must have ended.
func (g *grant) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.regions {
		_ = unix.Munmap(r.space) // it was mapped as a whole
	}
	g.regions = nil
	g.of.give(g.held)
	g.held = 0
}

// region is a memory that grows in place.
type region struct {
	grant *grant
	space []byte // all addresses; those up to size can be used
	size  uint64 // guarded by grant.mu
}

// Reallocate implements experimental.LinearMemory. It returns nil where the sandbox's limit does not allow it.
func (r *region) Reallocate(size uint64) []byte {
	g := r.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	if size > uint64(len(r.space)) {
		return nil
	}
	if size <= r.size {
		return r.space[:size:size]
	}
	more := int64(size - r.size)
	if lacking := g.given + more - g.held; lacking > 0 {
		if !g.of.take(lacking) {
			return nil
		}
		g.held += lacking
	}
	if unix.Mprotect(r.space[r.size:size], unix.PROT_READ|unix.PROT_WRITE) != nil {
		return nil
	}
	if r.size == 0 && g.image != nil && fill(r.space[:size], g.image) != nil {
		return nil
	}
	g.given += more
	r.size = size
	return r.space[:size:size]
}

// Free implements experimental.LinearMemory.
func (*region) Free() {}
