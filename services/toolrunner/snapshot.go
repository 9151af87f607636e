package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// insistEvery is how soon a store that could not take something is tried again.
const insistEvery = time.Second

// snapshot makes sure that what an attempt did to its workspace is kept before its end is recorded. For as long as that
// cannot be known it tries again, until ctx ends: then nothing is recorded, and the worker that is delivered the call
// next finds out. Where the changes are lost, that is what the attempt comes to.
func snapshot(ctx context.Context, x executed) (executed, error) {
	if x.Broken != nil || errors.Is(x.err, runlog.ErrRunEnded) {
		return x, nil
	}
	switch end := settle(ctx, x); {
	case ended(end):
		x.err = end
	case end != nil:
		return x, end
	}
	return x, nil
}

// settle returns an error that is a *tool.Error where the attempt ends with it.
func settle(ctx context.Context, x executed) error {
	for {
		err := x.Settle(ctx, x.attempt.Call.ID)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, workspace.ErrLost):
			return lostChanges(x.attempt)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, workspace.ErrUnkept) && call.NeedsStart(x.attempt.Call.Effect):
			return tool.Fail(tool.Permanent,
				"the call was carried out: end what still changes files, or remove what is too large or "+
					"cannot be read, and do something small to have the rest kept",
				fmt.Errorf("what it changed in the workspace is not kept, and is lost with this machine: %w", err))
		}
		if kernel.Sleep(ctx, insistEvery) != nil {
			return context.Cause(ctx)
		}
	}
}

// ended reports whether an error of settle is the end of the attempt.
func ended(err error) bool {
	_, is := errors.AsType[*tool.Error](err)
	return is
}

// lostChanges is the end of an attempt whose workspace was taken over while it was made.
func lostChanges(a call.Attempt) error {
	const what = "another machine took the workspace over during the call: what the call changed in files is lost"
	switch {
	case !call.NeedsStart(a.Call.Effect):
		return kernel.Busy(1) // it is read again, on the machine that holds the workspace
	case a.Call.Effect == call.Idempotent:
		return tool.Fail(tool.Transient, "", errors.New(what))
	}
	return tool.Fail(tool.Unknown, events.OutcomeUnknownHint,
		errors.New(what+"; what it did elsewhere may have taken effect"))
}
