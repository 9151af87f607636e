package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ErrIdle is an answer whose server sent nothing for too long.
var ErrIdle = errors.New("the server sends nothing")

// firstFactor is how many times as long the first byte of an answer may take: a server may read a long prompt first.
const firstFactor = 5

// Watched wraps base, or a client with the default transport where base is nil: an answer whose next byte does not come
// within idle fails with ErrIdle, and so does one whose beginning does not come within firstFactor times that. An idle
// of 0 or less watches nothing.
func Watched(base *http.Client, idle time.Duration) *http.Client {
	if idle <= 0 {
		return base
	}
	c := &http.Client{}
	if base != nil {
		*c = *base
	}
	c.Transport = watcher{next: c.Transport, idle: idle}
	return c
}

type watcher struct {
	next http.RoundTripper
	idle time.Duration
}

// RoundTrip implements http.RoundTripper.
func (w watcher) RoundTrip(req *http.Request) (*http.Response, error) {
	next := w.next
	if next == nil {
		next = http.DefaultTransport
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	first := time.AfterFunc(firstFactor*w.idle, func() {
		cancel(fmt.Errorf("%w: no answer within %s", ErrIdle, firstFactor*w.idle))
	})
	res, err := next.RoundTrip(req.WithContext(ctx))
	first.Stop()
	if err != nil || res.Body == nil {
		err = idleOr(ctx, err)
		cancel(nil)
		return res, err
	}
	res.Body = &watchedBody{ReadCloser: res.Body, ctx: ctx, cancel: cancel, idle: w.idle}
	return res, nil
}

// idleOr is the reason why a request was ended here, or else err.
func idleOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrIdle) {
		return cause
	}
	return err
}

// watchedBody ends its request where a read waits for too long.
type watchedBody struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // that of the request, which lives as long as its body
	cancel context.CancelCauseFunc
	idle   time.Duration
}

// Read fails with ErrIdle where no byte came in time.
func (b *watchedBody) Read(p []byte) (int, error) {
	t := time.AfterFunc(b.idle, func() { b.cancel(fmt.Errorf("%w: no data for %s", ErrIdle, b.idle)) })
	defer t.Stop()
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		return n, err
	}
	return n, idleOr(b.ctx, err)
}

// Close ends the request.
func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
