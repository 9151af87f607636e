package toolrunner

import (
	"bytes"
	"sync"
)

// ring keeps the end of a text that grows. It is safe for concurrent use.
type ring struct {
	mu sync.Mutex
	// kept is the end of the text, from the byte from on. Guarded by mu, as is news.
	kept []byte
	from int64
	// news is closed when the text grows; nil where nobody waits.
	news chan struct{}
}

// Write implements io.Writer.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	if lost := n - maxOutputKept; lost > 0 {
		r.from += int64(len(r.kept) + lost)
		r.kept, p = r.kept[:0], p[lost:]
	}
	r.kept = append(r.kept, p...)
	if lost := len(r.kept) - maxOutputKept; lost > maxOutputKept/4 { // not for every write
		r.kept = append(r.kept[:0], r.kept[lost:]...)
		r.from += int64(lost)
	}
	r.tell()
	return n, nil
}

// tell wakes those who wait. mu is held.
func (r *ring) tell() {
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// size is how many bytes the text has.
func (r *ring) size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from + int64(len(r.kept))
}

// behind returns what is kept of the text behind its first after bytes, and where that stands. more is closed when there
// is more.
func (r *ring) behind(after int64) (text []byte, from, to int64, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to = r.from + int64(len(r.kept))
	from = min(max(after, r.from, to-maxOutputKept), to)
	if r.news == nil {
		r.news = make(chan struct{})
	}
	return bytes.Clone(r.kept[from-r.from:]), from, to, r.news
}
