// Package inner records what programs of others do inside of the calls that started them.
//
// Promises: a program is answered only after what it asked for is in the log, was permitted there, and has begun there.
// What it says is recorded under the fence of its attempt: an attempt that is not the current one any more records
// nothing, and is answered with an error. What is recorded has no secrets.
package inner

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// verdictEvery is how often the log is asked for the verdict on a call inside, where no republished event was a hint.
const verdictEvery = time.Second

// errOutdated means that an attempt is not the current one any more: what its program does is of no account.
var errOutdated = errors.New("the call was begun by another toolrunner, or has ended")

// verdicts wakes those who wait for verdicts on calls inside. A hint proves nothing: the log is asked.
type verdicts struct {
	mu sync.Mutex
	// waiting by run, guarded by mu.
	waiting map[string]map[chan struct{}]bool
}

// wait returns the hints of a run, until done is called. The channel has room for one.
func (v *verdicts) wait(run string) (hint chan struct{}, done func()) {
	hint = make(chan struct{}, 1)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.waiting == nil {
		v.waiting = map[string]map[chan struct{}]bool{}
	}
	if v.waiting[run] == nil {
		v.waiting[run] = map[chan struct{}]bool{}
	}
	v.waiting[run][hint] = true
	return hint, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if delete(v.waiting[run], hint); len(v.waiting[run]) == 0 {
			delete(v.waiting, run)
		}
	}
}

func (v *verdicts) hint(run string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for hint := range v.waiting[run] {
		select {
		case hint <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// Recorder records the work of programs inside of the calls of one toolrunner.
type Recorder struct {
	ledger   *runlog.Ledger
	blobs    kernel.Blobs
	results  capture.Results
	verdicts verdicts
}

// New makes a recorder. The instance of results holds the leases of what is begun.
func New(ledger *runlog.Ledger, blobs kernel.Blobs, results capture.Results) *Recorder {
	return &Recorder{ledger: ledger, blobs: blobs, results: results}
}

// Of returns what records the work inside of an attempt of a run; nil for calls that no program carries out.
func (r *Recorder) Of(runID string, a call.Attempt) tool.Inner {
	if a.Call.Tool != events.ToolRuntime {
		return nil
	}
	return &inside{Recorder: r, run: runID, attempt: a, began: map[string]time.Time{}}
}

// Verdict says that there may be a verdict on a call inside of a run. It proves nothing: the log is asked.
func (r *Recorder) Verdict(runID string) { r.verdicts.hint(runID) }

// inside implements tool.Inner for one attempt.
type inside struct {
	*Recorder
	run     string
	attempt call.Attempt

	mu    sync.Mutex
	began map[string]time.Time // guarded by mu
}

var _ tool.Inner = (*inside)(nil)

// Earlier implements tool.Inner.
func (i *inside) Earlier() (session string, begun bool) {
	p := i.attempt.Call.Program
	if p == nil {
		return "", false
	}
	return p.Session, true
}

// say writes until the log has taken it; s is the state after that.
func (i *inside) say(ctx context.Context,
	decide func(s run.State) []events.Payload) (s run.State, stored bool, err error) {
	w, err := i.ledger.Insist(ctx, i.run, func(s run.State, _ time.Time) ([]events.Payload, error) {
		return decide(s), nil
	})
	if err == nil && !i.attempt.Holds(w.State) {
		err = errOutdated
	}
	return w.State, len(w.Events) > 0, err
}

// Begin implements tool.Inner.
func (i *inside) Begin(ctx context.Context, session string) error {
	_, _, err := i.say(ctx, func(s run.State) []events.Payload { return call.Progress(s, i.attempt, text(session)) })
	return err
}

// Again implements tool.Inner.
func (i *inside) Again(ctx context.Context) error {
	i.mu.Lock()
	clear(i.began)
	i.mu.Unlock()
	_, _, err := i.say(ctx, func(s run.State) []events.Payload { return call.Abandon(s, i.attempt) })
	return err
}

// text is a name that a program gave, as it is recorded.
func text(s string) string {
	if len(s) > events.MaxProgramText {
		s = s[:events.MaxProgramText]
	}
	return tool.Visible(s)
}

// Keep implements tool.Inner.
func (i *inside) Keep(ctx context.Context, files []tool.InnerFile) error {
	ref, err := i.results.Keep(ctx, files)
	if err != nil {
		return err
	}
	_, _, err = i.say(ctx, func(s run.State) []events.Payload { return call.Keep(s, i.attempt, ref) })
	return err
}

// Kept implements tool.Inner.
func (i *inside) Kept(ctx context.Context) ([]tool.InnerFile, error) {
	p := i.attempt.Call.Program
	if p == nil || p.Transcript == nil {
		return nil, nil
	}
	return i.results.Kept(ctx, *p.Transcript)
}

// Ask implements tool.Inner.
func (i *inside) Ask(ctx context.Context, c tool.InnerCall) (v tool.InnerVerdict, err error) {
	q := call.Inner{Tool: c.Tool, Program: text(c.Program), Title: i.results.Mask(text(c.Title)),
		Input: json.RawMessage(i.results.Mask(string(c.Input)))}
	preview := events.Preview(q.Input)
	if len(q.Input) > events.MaxInlineInput {
		ref, err := i.blobs.Put(ctx, "input", q.Input)
		if err != nil {
			return v, err
		}
		q.Ref, q.Input = &ref, nil
	}
	hint, done := i.verdicts.wait(i.run)
	defer done()
	id := ""
	s, stored, err := i.say(ctx, func(s run.State) []events.Payload {
		id = ""
		say := call.Request(s, i.attempt, q)
		for _, p := range say {
			id = p.(*events.CallRequestedData).Call
		}
		return say
	})
	if err != nil {
		return v, err
	}
	if v.ID = id; !stored {
		v.Reason = "too much is open at the same time"
		return v, nil
	}
	for {
		verdict, reason := call.VerdictOn(s, i.attempt, id)
		switch verdict {
		case call.Refused:
			v.Reason = reason
			return v, nil
		case call.Allowed:
			if s, stored, err = i.say(ctx, func(s run.State) []events.Payload {
				return call.StartInner(s, i.attempt, id, i.results.Instance, preview)
			}); err != nil {
				return v, err
			}
			if v.Allowed = stored; stored {
				i.mu.Lock()
				i.began[id] = time.Now()
				i.mu.Unlock()
				return v, nil
			}
			continue
		case call.Pending:
		}
		if s, err = i.news(ctx, hint); err != nil {
			return v, err
		}
	}
}

// news waits for a hint, or a while, and returns the state of the run.
func (i *inside) news(ctx context.Context, hint chan struct{}) (run.State, error) {
	t := time.NewTimer(verdictEvery)
	defer t.Stop()
	select {
	case <-hint:
	case <-t.C:
	case <-ctx.Done():
		return run.State{}, ctx.Err()
	}
	return i.ledger.Fresh(ctx, i.run)
}

// Done implements tool.Inner.
func (i *inside) Done(ctx context.Context, id string, r tool.Result) error {
	i.mu.Lock()
	took := time.Since(i.began[id])
	delete(i.began, id)
	i.mu.Unlock()
	result, err := i.results.Store(ctx, r, took)
	if err != nil {
		return err
	}
	_, _, err = i.say(ctx, func(s run.State) []events.Payload { return call.FinishInner(s, i.attempt, id, result) })
	return err
}
