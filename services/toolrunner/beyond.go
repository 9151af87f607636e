package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// Limits of what runs beyond its call.
const (
	// maxBeyond is how many commands of one run may run at a time, maxBeyondHere how many of all runs.
	maxBeyond     = 8
	maxBeyondHere = 128
	// maxStarted is how many one step may start.
	maxStarted = 32
	// maxOutputKept is how many bytes of a command's output are kept at least, the newest; a quarter more at most.
	maxOutputKept = 1 << 20
	// beyondHints is how many hints wait to be looked at; what is let go is found by the next look at all.
	beyondHints = 1024
	// shutTime bounds the end of a sandbox.
	shutTime = 10 * time.Second
)

// Why a command ended that did not end by itself.
var (
	errKilled     = errors.New("ended by kill_shell")
	errTimeUp     = errors.New("ended at its time limit")
	errStepOver   = errors.New("ended with its step")
	errClosing    = errors.New("ended with its toolrunner")
	errTakenOver  = errors.New("ended because another toolrunner works for the run now")
	errUnrecorded = errors.New("ended because the call that started it did not come to its end")
)

// beyond is one command that runs beyond its call. It belongs to this process and ends with it.
type beyond struct {
	run, step, call, handle, text string
	// workspace of the run, fence of the attempt that started it.
	workspace string
	fence     uint64
	began     time.Time
	out       ring
	// life ends with the command's time, or by stop.
	life context.Context
	stop context.CancelCauseFunc
	free context.CancelFunc
	// gone is closed when the command and all it started are gone; the rest is set before.
	gone chan struct{}
	end  string
	exit sandbox.Exit
	code *int
	took time.Duration
	// charged is true once its usage was counted with a call's; guarded by yard.mu.
	charged bool
}

func (b *beyond) ended() bool {
	select {
	case <-b.gone:
		return true
	default:
		return false
	}
}

// look is the command as it is now, with its output behind the first after bytes; more is closed when there is more.
func (b *beyond) look(after int64) (l tool.BackgroundLook, more <-chan struct{}) {
	ended := b.ended() // before the output is read: what it wrote last is in it then
	l = tool.BackgroundLook{Handle: b.handle, Text: b.text, Running: !ended, Took: time.Since(b.began)}
	l.Output, l.From, l.To, more = b.out.behind(after)
	if l.Total = l.To; ended {
		l.End, l.ExitCode, l.Took = b.end, b.code, b.took
	}
	return l, more
}

// yard is all that runs here beyond its calls. The zero yard is empty.
type yard struct {
	mu sync.Mutex
	// Guarded by mu: the commands by run, the oldest first, and the sandboxes that they are in by run and step.
	commands map[string][]*beyond
	boxes    map[string]*longBox
	closed   bool
	// wrotes counts the commands of runs in whose workspace one may have written after the last look at it; guarded by mu.
	wrotes map[string]int
	// all waits for the ends of commands.
	all sync.WaitGroup
}

// longBox is the sandbox of a step, as long as a command is in it that runs beyond its call. Other calls of the step are
// carried out in it too: they see the same HOME and TMPDIR, and limits bound all of them together.
type longBox struct {
	open func() (sandbox.Sandbox, error)
	way  *pool.Egress
	// users of it, guarded by yard.mu.
	users int
}

// shared is the sandbox of a step for one call, which does not end it.
type shared struct{ sandbox.Sandbox }

var _ sandbox.Sandbox = shared{}

// Inside implements sandbox.Elsewhere.
func (s shared) Inside() string { return sandbox.Seen(s.Sandbox) }

// Destroy implements sandbox.Sandbox.
func (shared) Destroy(context.Context) error { return nil }

// join returns the sandbox of a step that has one; leave must be called.
func (y *yard) join(runID, step string) (box *longBox, leave func()) {
	y.mu.Lock()
	defer y.mu.Unlock()
	box = y.boxes[runID+"/"+step]
	if box == nil {
		return nil, nil
	}
	box.users++
	return box, func() { y.leave(runID, step, box) }
}

// enter is join, where make makes one that is missing.
func (y *yard) enter(runID, step string, make func() *longBox) (box *longBox, leave func()) {
	y.mu.Lock()
	defer y.mu.Unlock()
	key := runID + "/" + step
	if box = y.boxes[key]; box == nil {
		box = make()
		if y.boxes == nil {
			y.boxes = map[string]*longBox{}
		}
		y.boxes[key] = box
	}
	box.users++
	return box, func() { y.leave(runID, step, box) }
}

// leave destroys a sandbox that nobody uses any more.
func (y *yard) leave(runID, step string, box *longBox) {
	y.mu.Lock()
	box.users--
	last := box.users == 0
	if key := runID + "/" + step; last && y.boxes[key] == box {
		delete(y.boxes, key)
	}
	y.mu.Unlock()
	if !last {
		return
	}
	if opened, err := box.open(); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), shutTime)
		defer cancel()
		_ = opened.Destroy(ctx) // its processes are gone; what is left is a directory of ours, which the reaper knows
	}
	box.way.Close()
}

// add makes room for a command, which must be launched then: until that has returned, nobody counts all as done.
func (y *yard) add(b *beyond) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	here, ofRun := 0, 0
	for id, list := range y.commands {
		for _, other := range list {
			if !other.ended() {
				here++
				if id == b.run {
					ofRun++
				}
			}
		}
	}
	switch {
	case y.closed:
		return tool.Fail(tool.Transient, "", errClosing)
	case ofRun >= maxBeyond:
		return tool.Fail(tool.Permanent, "end one with kill_shell, or wait for one to end", fmt.Errorf("%d commands of this run are in the background already, at most %d", ofRun, maxBeyond))
	case here >= maxBeyondHere:
		return tool.Fail(tool.Transient, "", fmt.Errorf("%d commands are in the background of this machine already, at most %d", here, maxBeyondHere))
	}
	if y.commands == nil {
		y.commands = map[string][]*beyond{}
	}
	y.commands[b.run] = append(y.commands[b.run], b)
	y.all.Add(1)
	return nil
}

// writes notes that a command of a run is about to write into its workspace.
func (y *yard) writes(runID string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.wrotes == nil {
		y.wrotes = map[string]int{}
	}
	y.wrotes[runID]++
}

// wrote tells whether commands of a run, of whatever step, may have written what nobody has looked at: n is 0 where none has. quiet says
// that all of them have ended.
func (y *yard) wrote(runID string) (n int, quiet bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.wrotes[runID], !slices.ContainsFunc(y.commands[runID], func(b *beyond) bool { return !b.ended() })
}

// rest notes that a run was looked at when n commands of it had written and all were gone, or with 0 that it has ended.
func (y *yard) rest(runID string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if n == 0 || y.wrotes[runID] == n {
		delete(y.wrotes, runID)
	}
}

// drop forgets a command.
func (y *yard) drop(b *beyond) {
	y.mu.Lock()
	defer y.mu.Unlock()
	list := slices.DeleteFunc(y.commands[b.run], func(o *beyond) bool { return o == b })
	if y.commands[b.run] = list; len(list) == 0 {
		delete(y.commands, b.run)
	}
}

// of returns the commands of a run, the oldest first.
func (y *yard) of(runID string) []*beyond {
	y.mu.Lock()
	defer y.mu.Unlock()
	return slices.Clone(y.commands[runID])
}

// find returns a command of a step; nil where it is not here.
func (y *yard) find(runID, step, handle string) *beyond {
	for _, b := range y.of(runID) {
		if b.step == step && b.handle == handle {
			return b
		}
	}
	return nil
}

// runs are the ids of the runs that have commands here.
func (y *yard) runs() []string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var ids []string
	for id := range y.commands {
		ids = append(ids, id)
	}
	return ids
}

// charge returns what a command used that has ended, once.
func (y *yard) charge(b *beyond) (sandbox.Exit, bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if !b.ended() || b.charged {
		return sandbox.Exit{}, false
	}
	b.charged = true
	return b.exit, true
}

// launch starts a command that was added and leaves it to itself. ctx bounds the start alone.
func (r *Role) launch(ctx context.Context, b *beyond, c tool.BackgroundCommand, box *longBox, leave func(), said *streaming.Stream) error {
	defer r.yard.all.Done() // of add
	abort := func(err error) error {
		b.free()
		said.Close()
		leave()
		r.yard.drop(b)
		close(b.gone)
		return err
	}
	opened, err := box.open()
	if err != nil {
		return abort(err)
	}
	hurry := context.AfterFunc(ctx, func() { b.stop(context.Cause(ctx)) })
	text := &teller{to: &b.out, said: said, hide: secret.NewStream(r.cfg.Secrets...)}
	p, err := opened.Start(b.life, sandbox.Cmd{Args: c.Args, Dir: c.Dir, Stdout: text, Stderr: text})
	if err == nil && !hurry() { // the call ended meanwhile
		_, _ = p.Wait()
		err = context.Cause(ctx)
	}
	if err != nil {
		hurry()
		return abort(err)
	}
	r.yard.all.Go(func() {
		defer close(b.gone)
		exit, err := p.Wait()
		b.exit, b.took = exit, time.Since(b.began)
		b.end, b.code = r.ending(b.life, exit, err)
		b.free()
		text.rest()
		said.Done(nil)
		said.Close()
		leave()
		r.wrote(b)
	})
	return nil
}

// ending says how a command ended.
func (r *Role) ending(life context.Context, exit sandbox.Exit, err error) (end string, code *int) {
	switch {
	case err == nil && exit.Signal != "":
		return "ended by signal " + exit.Signal, nil
	case err == nil:
		return fmt.Sprintf("exit status %d", exit.Code), &exit.Code
	case life.Err() != nil:
		return context.Cause(life).Error(), nil
	}
	return clip(r.mask(err.Error())), nil
}

// wrote notes that a command may have changed files after the last call that was kept.
func (r *Role) wrote(b *beyond) {
	if r.cfg.Trees == nil || !r.cfg.Trees.Holds(b.run) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutTime)
	defer cancel()
	if v, err := r.cfg.Trees.Enter(ctx, b.workspace, b.run); err == nil {
		v.Touch(true)
		v.Leave()
	}
}

// teller passes the output of a command on, with its secrets masked. Both outputs are the same writer, so it is one goroutine.
type teller struct {
	to   *ring
	said *streaming.Stream
	hide *secret.Stream
}

func (t *teller) Write(p []byte) (int, error) {
	t.pass(t.hide.Next(p))
	return len(p), nil
}

func (t *teller) rest() { t.pass(t.hide.Rest()) }

func (t *teller) pass(p []byte) {
	if len(p) > 0 {
		_, _ = t.to.Write(p) // it goes to memory
		t.said.Write(streaming.ToolOutput, "stdout", string(p))
	}
}

// fate says why a command has to end; nil where it goes on.
func (r *Role) fate(s run.State, b *beyond) error {
	st := s.Step(b.step)
	switch {
	case s.Status.Ended(), st == nil, st.Status != events.StepIsRunning:
		return errStepOver
	case slices.ContainsFunc(st.Background, func(k events.Background) bool { return k.ID == b.handle }):
		return nil
	}
	if c := s.Open[b.call]; c != nil && c.Fence == b.fence && c.Phase == run.CallStarted {
		return nil // its result is on the way
	}
	return errUnrecorded
}

// finish ends commands, waits until they are gone or ctx ends, and forgets them.
func (r *Role) finish(ctx context.Context, why error, list ...*beyond) {
	for _, b := range list {
		b.stop(why)
	}
	for _, b := range list {
		select {
		case <-b.gone:
			r.yard.drop(b)
		case <-ctx.Done():
		}
	}
}
