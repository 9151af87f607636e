package jobs

import (
	"bytes"
	"sync"
)

// output keeps the end of a text that grows. It is safe for concurrent use.
type output struct {
	mu sync.Mutex
	// tail is the end of the text, from the byte from on. Guarded by mu, as is news.
	tail []byte
	from int64
	// news is closed when the text grows; nil where no goroutine waits.
	news chan struct{}
}

// append adds a piece.
func (o *output) append(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if lost := len(p) - maxOutput; lost > 0 {
		o.from += int64(len(o.tail) + lost)
		o.tail, p = o.tail[:0], p[lost:]
	}
	o.tail = append(o.tail, p...)
	if lost := len(o.tail) - maxOutput; lost > maxOutput/4 { // not for every write
		o.tail = append(o.tail[:0], o.tail[lost:]...)
		o.from += int64(lost)
	}
	o.wake()
}

// wake wakes those who wait. mu is held.
func (o *output) wake() {
	if o.news != nil {
		close(o.news)
		o.news = nil
	}
}

// size is how many bytes the text has.
func (o *output) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.from + int64(len(o.tail))
}

// behind returns what is kept of the text behind its first after bytes, and where that stands. more is closed when
// there is more.
func (o *output) behind(after int64) (text []byte, from, to int64, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	to = o.from + int64(len(o.tail))
	from = min(max(after, o.from, to-maxOutput), to)
	if o.news == nil {
		o.news = make(chan struct{})
	}
	return bytes.Clone(o.tail[from-o.from:]), from, to, o.news
}
