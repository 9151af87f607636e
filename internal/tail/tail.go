// Package tail keeps the end of what is written.
//
// Promises: a Writer holds at most twice the bytes that it keeps, takes time in proportion to what is written, and
// never fails.
package tail

import (
	"bytes"
	"sync"
)

// Writer keeps the end of what is written to it. It is safe for concurrent use.
type Writer struct {
	most int
	mu   sync.Mutex
	// kept is the end, of up to twice most bytes, and cut says that something was before it; both are guarded by mu.
	kept []byte
	cut  bool
}

// New keeps the last most bytes.
func New(most int) *Writer { return &Writer{most: most} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	if n > w.most {
		w.kept, p, w.cut = w.kept[:0], p[n-w.most:], true
	}
	w.kept = append(w.kept, p...)
	if lost := len(w.kept) - w.most; lost > w.most {
		w.kept, w.cut = append(w.kept[:0], w.kept[lost:]...), true
	}
	return n, nil
}

// End returns a copy of what is kept; cut is true where more was written.
func (w *Writer) End() (text []byte, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lost := max(0, len(w.kept)-w.most)
	return bytes.Clone(w.kept[lost:]), w.cut || lost > 0
}
