package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
)

// ErrTaken means that another machine took a workspace over before the attempt came into it.
var ErrTaken = errors.New("another machine took the workspace over")

// Workspaces gives attempts the workspaces of their runs: a tree that follows its run, or a directory of this machine.
type Workspaces struct {
	// Trees let workspaces follow their runs; nil leaves each on the machine that made it.
	Trees *Trees
	// Uses notes which runs work in the workspaces of this machine, so that they can be removed; nil removes none.
	Uses *Uses
	// Attempts counts those of this process.
	Attempts *Attempts
}

// Acquired is a workspace while one attempt works in it. The zero Acquired is nowhere.
type Acquired struct {
	workdir.Dir
	// Broken is why the workspace cannot be used, or its tree not restored; nil where it can.
	Broken  error
	visit   *Visit
	release func()
}

// Acquire returns the workspace of a run for an attempt of a step; Release must be called then. ended reports whether
// no call of a step of a run is to come. The error is a *BusyError where a living instance holds the workspace, and
// ErrTaken where it was lost meanwhile.
func (w Workspaces) Acquire(ctx context.Context, workspace, run, step string,
	ended func(run, step string) bool) (Acquired, error) {
	a := Acquired{Dir: workdir.Dir{Workspace: workspace, Path: workspace}}
	var err error
	if w.Trees == nil {
		if w.Uses != nil {
			a.release, err = w.Uses.Enter(ctx, workspace, run)
		}
		if Spoiled(err) {
			a.Broken, err = err, nil
		}
		return a, err
	}
	if _, place := events.PlaceOf(workspace); place {
		a.Broken = fmt.Errorf("%w: INSPAN_WORKSPACE_MODE must be local for runs in a directory of a person",
			workdir.ErrNoPlace)
		return a, nil
	}
	v, err := w.Trees.Enter(ctx, workspace, run)
	if errors.Is(err, ErrDamaged) {
		a.Broken = err
		return a, nil
	}
	if err != nil {
		return a, err
	}
	a.visit, a.Path = v, v.Path()
	v.In(step)
	if err := v.CatchUp(ctx, ended); err != nil {
		a.Release()
		return Acquired{}, fmt.Errorf("%w: %w", ErrTaken, err)
	}
	return a, nil
}

// Here is the workspace of this machine at a path, without a note of its use; it is nowhere where trees follow their
// runs, because only an attempt that acquired it knows the tree.
func (w Workspaces) Here(workspace string) Acquired {
	if w.Trees != nil {
		return Acquired{}
	}
	return Acquired{Dir: workdir.Dir{Workspace: workspace, Path: workspace}}
}

// Release is called when the attempt is over.
func (a Acquired) Release() {
	if a.release != nil {
		a.release()
	}
	if a.visit != nil {
		a.visit.Leave()
	}
}

// Touch says that the workspace is looked at from now on, and with change that it may be changed.
func (a Acquired) Touch(change bool) {
	if a.visit != nil {
		a.visit.Touch(change)
	}
}

// Settle makes sure that what a call did to the workspace is kept. The error is ErrLost or ErrUnkept where it is not
// and never will be.
func (a Acquired) Settle(ctx context.Context, call string) error {
	if a.visit == nil {
		return nil
	}
	return a.visit.Settle(ctx, call)
}

// News is what the agent must know of its workspace, with the calls, as "run/call", whose changes are lost.
func (a Acquired) News(ctx context.Context) (text string, lost []string) {
	if a.visit == nil {
		return "", nil
	}
	if text = a.visit.News(ctx); text != "" {
		lost = a.visit.Missing()
	}
	return text, lost
}

// NewsStored says that a result with the news in it is in the log.
func (a Acquired) NewsStored() {
	if a.visit != nil {
		a.visit.NewsReported()
	}
}

// Spoiled reports whether an error is of the directory of a workspace itself: another try meets the same.
func Spoiled(err error) bool {
	_, path := errors.AsType[*fs.PathError](err)
	return path || errors.Is(err, workdir.ErrLinked)
}
