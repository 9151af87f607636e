package sim

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/inspan/inspan/internal/mem"
)

// verdict is what becomes of one operation.
type verdict int

const (
	// made: as it was asked.
	made verdict = iota
	// before, after: the process dies before the operation, or right after it, with no one hearing the answer.
	before
	after
	// died: the process is dead already.
	died
	// unmade: it is not made, and the caller hears of trouble on the way. lost: it is made, with the same answer.
	unmade
	lost
	// The troubles of appends beside them; see mem.Fault.
	late
	busy
	low
	full
	// stale: the reader is behind.
	stale
	// again is for injections: an acknowledgement or the answer of an append that is lost, and nothing else.
	again
)

var words = map[verdict]string{made: "", before: "X before ", after: "X after ", unmade: "! not made", lost: "! lost answer",
	again: "! lost word", late: "! made later", busy: "! busy", low: "! refused with an old position", full: "! full", stale: "! behind"}

func (v verdict) kills() bool { return v == before || v == after }

func (v verdict) fault() mem.Fault {
	switch v {
	case lost:
		return mem.LostAck
	case unmade:
		return mem.LostRequest
	case late:
		return mem.LateRequest
	case busy:
		return mem.Busy
	case low:
		return mem.LowConflict
	case full:
		return mem.NoSpace
	default:
		return mem.None
	}
}

func (v verdict) behind() int {
	if v == stale {
		return 1
	}
	return 0
}

// kind of an operation, as far as it decides what may go wrong with it.
type kind int

const (
	opAppend kind = iota
	opRead
	opStore // any other operation on the station
	opAck
	opWorld // the outside world: a model, a tool
	opTree  // a look at the row of a working tree
)

// op is one operation that waits to be chosen.
type op struct {
	p    *proc
	life int
	kind kind
	// task is the delivery it belongs to, what is it in words.
	task, what string
	answer     chan verdict
	// gone is set where no one waits for it any more.
	gone atomic.Bool
}

// errDied is what a dead process hears; nothing it does then has any effect.
var errDied = errors.New("this process is dead")

// errTrouble is the answer to an operation that met trouble on the way.
var errTrouble = errors.New("no answer: trouble on the way")

type taskKey struct{}

func withTask(ctx context.Context, task string) context.Context {
	return context.WithValue(ctx, taskKey{}, task)
}

func taskOf(ctx context.Context) string {
	task, _ := ctx.Value(taskKey{}).(string)
	return task
}

// step waits until the play chooses this operation. Where patient is false, it ends with ctx.
func (l *life) step(ctx context.Context, k kind, patient bool, format string, args ...any) verdict {
	if l.dead.Load() {
		return died
	}
	o := &op{p: l.p, kind: k, task: taskOf(ctx), what: fmt.Sprintf(format, args...), answer: make(chan verdict, 1)}
	w := l.p.w
	w.mu.Lock()
	w.arrived = append(w.arrived, o)
	w.mu.Unlock()
	if patient {
		return <-o.answer
	}
	select {
	case v := <-o.answer:
		return v
	case <-ctx.Done():
		o.gone.Store(true)
		return unmade
	}
}

// do makes an operation on the station when it is chosen. Where it met trouble the error is errTrouble, and errDied for
// a process that died of it.
func (l *life) do(ctx context.Context, k kind, what string, make func(context.Context) error) error {
	switch v := l.step(ctx, k, true, "%s", what); v {
	case before, died:
		return errDied
	case after:
		_ = make(context.WithoutCancel(ctx)) // no one hears the answer
		return errDied
	case unmade:
		return errTrouble
	case lost:
		_ = make(context.WithoutCancel(ctx)) // no one hears the answer
		return errTrouble
	default:
		return make(ctx)
	}
}
