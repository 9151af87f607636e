package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

// Why a job ended that did not end by itself.
var (
	errKilled     = errors.New("ended by kill_shell")
	errTimeUp     = errors.New("ended at its time limit")
	errClosing    = errors.New("ended with its toolrunner")
	errTakenOver  = errors.New("ended because another toolrunner took over the run")
	errUnrecorded = errors.New("ended because the call that started it did not finish")
	// errStepOver is why jobs end that are of no use any more.
	errStepOver = errors.New("ended with its step")
)

// job is one command that goes on after its call. It belongs to this process and ends with it.
type job struct {
	run, step, call, handle, text string
	// workspace of the run, fence of the attempt that started it.
	workspace string
	fence     uint64
	began     time.Time
	out       output
	// life ends with the command's time, or by stop.
	life context.Context
	stop context.CancelCauseFunc
	free context.CancelFunc
	// exited is closed when the command and all it started are gone; the rest is set before.
	exited chan struct{}
	end    string
	exit   sandbox.Exit
	code   *int
	took   time.Duration
	// charged is true once its usage was counted with a call's; guarded by registry.mu.
	charged bool
}

func (j *job) ended() bool {
	select {
	case <-j.exited:
		return true
	default:
		return false
	}
}

// look is the command as it is now, with its output behind the first after bytes; more is closed when there is more.
func (j *job) look(after int64) (l tool.BackgroundLook, more <-chan struct{}) {
	ended := j.ended() // before the output is read: what it wrote last is in it then
	l = tool.BackgroundLook{Handle: j.handle, Text: j.text, Running: !ended, Took: time.Since(j.began)}
	l.Output, l.From, l.To, more = j.out.behind(after)
	if l.Total = l.To; ended {
		l.End, l.ExitCode, l.Took = j.end, j.code, j.took
	}
	return l, more
}
