package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

// lasting is the answer to a request that may take long: each write has a deadline of its own, and a stream of events
// says now and then that it is alive. It is safe for concurrent use.
type lasting struct {
	http.ResponseWriter
	rc   *http.ResponseController
	wait time.Duration
	// begun, which may be nil, is called with the header before anything is sent.
	begun func(http.Header)

	mu sync.Mutex
	// Guarded by mu: whether the header is sent, whether a stream of events is, and whether anything was sent since the
	// last beat.
	sent, events, busy bool
}

// WriteHeader implements http.ResponseWriter.
func (w *lasting) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// begin notes that the header is sent. The lock is held.
func (w *lasting) begin() {
	if w.sent {
		return
	}
	w.sent = true
	h := w.Header()
	w.events = strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
	if w.events {
		h.Set("X-Accel-Buffering", "no") // some proxies hold back what they pass on
	}
	if w.begun != nil {
		w.begun(h)
	}
}

// Write implements http.ResponseWriter.
func (w *lasting) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
	w.busy = true
	if err := w.rc.SetWriteDeadline(time.Now().Add(w.wait)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(b)
}

// FlushError is for http.ResponseController.
func (w *lasting) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
	if err := w.rc.SetWriteDeadline(time.Now().Add(w.wait)); err != nil {
		return err
	}
	return w.rc.Flush()
}

// beat sends comments in a stream that says nothing, until ctx ends or the client is gone.
func (w *lasting) beat(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if !w.alive() {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// alive sends a comment where nothing else was sent.
func (w *lasting) alive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.events || w.busy {
		w.busy = false
		return true
	}
	if w.rc.SetWriteDeadline(time.Now().Add(w.wait)) != nil {
		return false
	}
	if _, err := w.ResponseWriter.Write([]byte(": alive\n\n")); err != nil {
		return false
	}
	return w.rc.Flush() == nil
}
