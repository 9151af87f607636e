package wasm

import (
	"context"
	"io"
	"time"
)

// input passes a command's standard input on until the command ends: a program that waits for it would not notice
// otherwise. stop must be called when the command has ended; a Read that blocks then is left behind, as the port
// allows.
func input(ctx context.Context, from io.Reader) (in io.Reader, stop func()) {
	if from == nil {
		return nil, func() {}
	}
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, from)
		_ = w.CloseWithError(err) // nil is the end of input
	}()
	release := context.AfterFunc(ctx, func() { _ = r.CloseWithError(context.Cause(ctx)) })
	return r, func() {
		release()
		_ = r.Close()
	}
}

// output passes on what a command says. After a Write failed the rest is dropped, so that the command goes on.
type output struct {
	to io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	if o.to != nil {
		if _, err := o.to.Write(p); err != nil {
			o.to = nil
		}
	}
	return len(p), nil
}

// sleep waits as a program asks, and no longer than it lives.
func sleep(ctx context.Context) func(ns int64) {
	return func(ns int64) {
		timer := time.NewTimer(time.Duration(ns))
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}
