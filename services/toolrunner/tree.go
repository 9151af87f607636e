package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// place is where one attempt works: a visit to a tree, or the workspace of this machine where trees do not follow runs.
type place struct {
	visit *workspace.Visit
	workdir.Dir
	// broken is why the workspace can not be used, or its tree not restored.
	broken error
	// let is called when the attempt is over, nil where nothing is to be let go.
	let func()
}

// How soon a call is looked at again whose workspace another instance holds: the longer it takes the later, by deliveries.
const (
	busyFirst = 5 * time.Millisecond
	busyMost  = 250 * time.Millisecond
	// busyDue stands for the deliveries of a timer, which are not counted.
	busyDue = 4
)

// enter finds the place of an attempt. Where a living instance holds the workspace, the call is left to that one.
func (r *Role) enter(ctx context.Context, s run.State, step string, deliveries uint64) (place, error) {
	if s.Created == nil {
		return place{}, nil
	}
	p := place{Dir: workdir.Dir{Workspace: s.Created.Workspace, Path: s.Created.Workspace}}
	if r.cfg.Trees == nil {
		return r.noted(ctx, p, s.HarnessID)
	}
	v, err := r.cfg.Trees.Enter(ctx, p.Workspace, s.HarnessID)
	if busy, ok := errors.AsType[*workspace.BusyError](err); ok {
		return p, &heldBy{busy, &kernel.Later{After: again(deliveries)}}
	}
	if errors.Is(err, workspace.ErrDamaged) {
		p.broken = err
		return p, nil
	}
	if err != nil {
		return p, err
	}
	p.visit, p.Path = v, v.Path()
	v.In(step)
	if err := v.CatchUp(ctx, func(runID, step string) bool { return runID == s.HarnessID && call.StepEnded(s, step) }); err != nil {
		p.leave()
		return place{}, &kernel.Later{After: again(deliveries)} // somebody else has it now
	}
	return p, nil
}

// here is the workspace of this machine; where trees follow their runs it is nowhere, because only a visit knows the tree.
func (r *Role) here(s run.State) place {
	if r.cfg.Trees != nil || s.Created == nil {
		return place{}
	}
	return place{Dir: workdir.Dir{Workspace: s.Created.Workspace, Path: s.Created.Workspace}}
}

// again is how soon a call is looked at again that is left to somebody else.
func again(deliveries uint64) time.Duration {
	return min(busyFirst<<min(max(deliveries, 1)-1, 10), busyMost)
}

// heldBy names the holder, and is a kernel.Later for the loop.
type heldBy struct {
	*workspace.BusyError
	later *kernel.Later
}

func (h *heldBy) Unwrap() []error { return []error{h.BusyError, h.later} }

// noted notes that a run works in a workspace of this machine, which stays for as long as the attempt lasts.
func (r *Role) noted(ctx context.Context, p place, runID string) (place, error) {
	if r.cfg.Uses == nil {
		return p, nil
	}
	var err error
	if p.let, err = r.cfg.Uses.Enter(ctx, p.Workspace, runID); spoiled(err) {
		p.broken = err
		return p, nil
	}
	return p, err
}

func (p place) leave() {
	if p.let != nil {
		p.let()
	}
	if p.visit != nil {
		p.visit.Leave()
	}
}

// touch says that the place is looked at from now on, by a call of an effect class.
func (p place) touch(effect string) {
	if p.visit != nil {
		p.visit.Touch(call.NeedsStart(effect))
	}
}

// tell puts before a result what the agent must know of its workspace.
func (p place) tell(ctx context.Context, s run.State, res *tool.Result) {
	if p.visit == nil {
		return
	}
	if news := p.visit.News(ctx); news != "" {
		res.Output = "<workspace-news>\n" + news + missing(s, p.visit.Missing()) + "\n</workspace-news>\n\n" + res.Output
	}
}

// told says that a result, with what tell put before it, is in the log.
func (p place) told() {
	if p.visit != nil {
		p.visit.Told()
	}
}

// settle makes sure that what an attempt did to its workspace is kept before anything is said of it. For as long as that
// can not be known it tries again, until ctx ends. An error that it returns as a *tool.Error is the end of the attempt.
func (r *Role) settle(ctx context.Context, p place, a call.Attempt) error {
	if p.visit == nil {
		return nil
	}
	for {
		err := p.visit.Settle(ctx, a.Call.ID)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, workspace.ErrLost):
			return lost(a)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, workspace.ErrUnkept) && call.NeedsStart(a.Call.Effect):
			return tool.Fail(tool.Permanent, "the call was carried out: end what still changes files, or remove what is too large or can not be read, and do something small to have the rest kept",
				fmt.Errorf("what it changed in the workspace is not kept, and is lost with this machine: %w", err))
		}
		t := time.NewTimer(insistEvery)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// ended reports whether an error of settle is the end of the attempt.
func ended(err error) bool {
	_, is := errors.AsType[*tool.Error](err)
	return is
}

// lost is the end of an attempt whose workspace was taken over while it was made.
func lost(a call.Attempt) error {
	const what = "another machine took the workspace over during the call: what the call changed in files is lost"
	switch {
	case !call.NeedsStart(a.Call.Effect):
		return &kernel.Later{After: busyFirst} // it is read again, by whoever holds the workspace
	case a.Call.Effect == call.Idempotent:
		return tool.Fail(tool.Transient, "", errors.New(what))
	}
	return tool.Fail(tool.Unknown, "look at the state of things before you do it again; the same call will be shown to a person first",
		errors.New(what+", what it did elsewhere may be done"))
}

// spoiled reports whether an error is of the directory of a workspace itself: another try meets the same.
func spoiled(err error) bool {
	_, path := errors.AsType[*fs.PathError](err)
	return path || errors.Is(err, workdir.ErrLinked)
}

// unusable is the failure of every call while a workspace can not be used.
func unusable(err error) error {
	if spoiled(err) {
		return tool.Fail(tool.Permanent, "an operator must look at the directory of the workspace, and move away what stands in its place; until then no call can work in it", err)
	}
	return tool.Fail(tool.Permanent, "an operator must restore the object store of the station from its archive; until then no call can work in this workspace", err)
}

// missing says what the calls were whose changes are lost, where they are of this run.
func missing(s run.State, calls []string) string {
	var b strings.Builder
	for _, name := range calls {
		runID, id, _ := strings.Cut(name, "/")
		for _, c := range s.ToolCallHistory.Backward() {
			if runID == s.HarnessID && c.ID == id {
				fmt.Fprintf(&b, "\n- %s: %s of step %s", id, c.CallName, c.Step)
				break
			}
		}
	}
	return b.String()
}
