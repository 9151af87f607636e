package toolrunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/provision"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// executed is a started call that came to an end: a result, or the error that it failed with.
type executed struct {
	*started
	changes *capture.Changes
	result  tool.Result
	err     error
	// notes is the path of the workspace's notes that the result ends with; empty for none.
	notes string
	// usage is nil where the call ran no command.
	usage *events.Usage
	took  time.Duration
}

// executor lets tools work.
type executor struct {
	opener opener
	tools  Tools
	ends   *runlog.Ends
}

// execute lets the tool of a call work in its sandbox, for at most its time limit and not longer than the run lives.
func (e executor) execute(ctx context.Context, st *started) executed {
	x := executed{started: st, changes: &capture.Changes{}}
	if st.Broken != nil {
		x.err = unusable(st.Broken)
		return x
	}
	began := time.Now()
	e.run(ctx, &x)
	x.took = time.Since(began)
	return x
}

func (e executor) run(ctx context.Context, x *executed) {
	s, a, input := x.state, x.attempt, x.input
	t, ok := e.tools.Find(s, a.Call)
	if !ok {
		x.err = tool.Fail(tool.Permanent, "this toolrunner does not have the tool", fmt.Errorf("no tool %q", a.Call.Tool))
		return
	}
	work, done := e.ends.Context(ctx, s.HarnessID)
	defer done()
	work, cancel := context.WithTimeout(work, timeout(t, a, input))
	defer cancel()
	o := e.opener.open(work, x.started, x.changes)
	defer o.close()
	defer func() {
		x.usage = o.sandbox.Usage()
		if p := recover(); p != nil {
			x.result, x.notes, x.err = tool.Result{}, "", tool.Fail(tool.Permanent, "report this to the author of the tool",
				fmt.Errorf("tool %s broke: %v\n%s", a.Call.Tool, p, debug.Stack()))
		}
	}()
	result, err := t.Run(work, tool.Call{Run: s.HarnessID, ID: a.Call.ID,
		Key: keyOf(x.started.key, s.HarnessID, a.Call.ID), Input: input, Env: o.env})
	switch {
	case errors.Is(context.Cause(work), runlog.ErrRunEnded):
		x.err = runlog.ErrRunEnded
		return
	case ctx.Err() == nil && errors.Is(work.Err(), context.DeadlineExceeded) && cutShort(err):
		x.err = tool.Fail(tool.Timeout, "give it more time, or less to do",
			fmt.Errorf("the call took longer than %s and was ended", timeout(t, a, input)))
		return
	case err != nil:
		x.result, x.err = result, err
		return
	}
	result.Output += o.egress.Refused()
	if !result.Failed {
		var text string
		text, x.notes = provision.Notes(s, a.Call, input, o.sandbox)
		result.Output += text
	}
	if !o.plain {
		result.Output = x.news(ctx) + result.Output
	}
	x.result = result
}

// verify asks a reconcilable tool whether a lost attempt took effect; done is false where it did not. An error means
// that this cannot be known.
func (e executor) verify(ctx context.Context, st *started) (x executed, done bool, err error) {
	x = executed{started: st, changes: capture.Anything()}
	if st.Broken != nil {
		return x, false, st.Broken
	}
	t, _ := e.tools.Find(st.state, st.attempt.Call)
	v, ok := t.(tool.Verifier)
	if !ok {
		return x, false, fmt.Errorf("tool %s cannot verify", st.attempt.Call.Tool)
	}
	began := time.Now()
	work, cancel := context.WithTimeout(ctx, tool.DefaultTimeout)
	defer cancel()
	o := e.opener.open(work, st, x.changes)
	defer o.close()
	id := st.attempt.Call.ID
	done, x.result, err = v.Verify(work, tool.Call{Run: st.state.HarnessID, ID: id,
		Key: keyOf(st.key, st.state.HarnessID, id), Input: st.input, Env: o.env})
	x.took = time.Since(began)
	return x, done, err
}

// timeout of one attempt: what the arguments ask for, else what was permitted, else the tool's own.
func timeout(t tool.Tool, a call.Attempt, input json.RawMessage) time.Duration {
	if timed, ok := t.(tool.Timed); ok {
		if d := timed.TimeoutFor(input); d > 0 {
			return d
		}
	}
	if a.Call.TimeoutMS > 0 {
		return time.Duration(a.Call.TimeoutMS) * time.Millisecond
	}
	return t.Spec().TimeoutOf()
}

// cutShort reports whether a tool failed because its context ended: not where it had finished, nor where it says
// another reason.
func cutShort(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	_, own := errors.AsType[*tool.Error](err)
	return err != nil && !own
}

// unusable is the failure of every call while a workspace cannot be used.
func unusable(err error) error {
	if workspace.Spoiled(err) {
		return tool.Fail(tool.Permanent,
			"an operator must look at the directory of the workspace, and move away what stands in "+
				"its place; until then no call can work in it", err)
	}
	return tool.Fail(tool.Permanent,
		"an operator must restore the object store of the station from its archive; until then no "+
			"call can work in this workspace", err)
}
