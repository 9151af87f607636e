package local

import (
	"context"

	"github.com/inspan/inspan/internal/sandbox"
)

// Begin readies a command whose processes are not found in this machine's list: those of an engine or of another machine. It
// counts as running, bounded by the sandbox's lifetime and disk limit, until leave is called; ctx ends with the sandbox.
func (b *Box) Begin(ctx context.Context, cmd sandbox.Cmd) (inner context.Context, p Process, leave func(), err error) {
	inner, out, err := b.Enter(ctx)
	if err != nil {
		return nil, Process{}, nil, err
	}
	p, err = b.Command(cmd)
	var stop func()
	if err == nil {
		if err = inner.Err(); err != nil {
			err = Ended(inner, p)
		} else {
			inner, stop, err = b.limited(inner)
		}
	}
	if err != nil {
		out()
		return nil, Process{}, nil, err
	}
	return inner, p, func() { stop(); out() }, nil
}

// Ended is the error of a command that was ended because ctx did; it tells the cause too, where that is another.
func Ended(ctx context.Context, p Process) error { return ended(ctx, p) }
