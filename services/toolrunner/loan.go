package toolrunner

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/run"
)

// restMost is how long a sandbox elsewhere may have been left alone before it is asked whether it is still there.
const restMost = 30 * time.Second

// plan is what a sandbox is opened with: its settings, and the files that they name as they are now.
type plan struct {
	settings string
	files    []fs.FileInfo
}

// planOf tells sandboxes apart that may stand for each other from those that may not. What is closed is closed where it stands
// when a sandbox is opened: one that was opened before a file was there, or when it was another, does not close it.
func planOf(mode sandbox.Mode, cfg sandbox.Config) plan {
	cfg.ID = ""
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%+v", mode, cfg)
	var p plan
	for _, path := range slices.Concat([]string{cfg.Workspace}, cfg.ReadOnly, cfg.Writable, cfg.Denied) {
		real, err := filepath.EvalSymlinks(path)
		fmt.Fprintf(h, "\x00%s\x00%t", real, err == nil)
		for _, at := range []string{path, real} {
			info, err := os.Lstat(at)
			if err != nil {
				info = nil
			}
			p.files = append(p.files, info)
		}
	}
	p.settings = string(h.Sum(nil))
	return p
}

func (p plan) same(q plan) bool {
	return p.settings == q.settings && slices.EqualFunc(p.files, q.files, func(a, b fs.FileInfo) bool {
		return a == nil && b == nil || a != nil && b != nil && os.SameFile(a, b)
	})
}

// until is how long a context has.
func until(ctx context.Context) time.Duration {
	at, ok := ctx.Deadline()
	if !ok {
		return 1<<63 - 1
	}
	return time.Until(at)
}

// borrower returns what opens the sandbox of a call where it is one that is kept; nil where the call has one of its own. need is
// how long it is to live at least, if its own limit allows that. A sandbox with a way out of its own is not kept: the way is good
// for one call and its fence.
func (r *Role) borrower(ctx context.Context, boxes *Boxes, s run.State, c run.Call, p place, need time.Duration) func() (sandbox.Sandbox, error) {
	step := s.Step(c.Step)
	if boxes.cfg.Keep <= 0 || step == nil || s.Created == nil || p.path == "" || boxes.out != nil && boxes.out.narrow || r.shelf.shut() {
		return nil
	}
	session := s.Created.SessionFence != 0 && s.Created.Workspace == "session/"+s.Created.Session
	if !session && !slow(boxes.ModeFor(s, c.Step)) {
		return nil
	}
	return func() (sandbox.Sandbox, error) {
		o, err := boxes.forMany().planned(s.HarnessID, p, boxes.wanted(s, c.Step), boxes.denied(s, c.Step))
		if err != nil {
			return nil, err
		}
		w := want{run: s.HarnessID, step: c.Step, workspace: p.workspace, wall: o.cfg.Limits.Wall, need: need, plan: planOf(o.backend.Mode(), o.cfg),
			open: func() (sandbox.Sandbox, error) { return o.open(ctx) }}
		w.key = strings.Join([]string{"run", s.HarnessID, c.Step, step.AssignedAgent}, "\x00")
		if session {
			if key := strings.Join([]string{"session", p.path, step.AssignedAgent}, "\x00"); r.handedOn(ctx, key, s.HarnessID) {
				w.key, w.step = key, ""
			}
		}
		return r.borrow(ctx, w)
	}
}

// handedOn reports whether the sandbox of a session may go on to a run: the one that had it has ended. In a session of several
// runs at a time each has one of its own.
func (r *Role) handedOn(ctx context.Context, key, runID string) bool {
	before := r.shelf.last(key)
	if before == "" || before == runID {
		return true
	}
	s, err := r.cfg.Ledger.Fresh(ctx, before)
	return err == nil && s.Status.Ended()
}

// loan is a sandbox that is kept, for one call or one command in the background. Its Destroy ends what it started and gives the
// sandbox back. File operations work on the workspace itself; commands are carried out by whatever sandbox lives.
type loan struct {
	sandbox.Sandbox
	r    *Role
	want want

	mu sync.Mutex
	// Guarded by mu: the sandboxes it had, the last of which is in use, with whether that was used before; what was started.
	had     []*kept
	box     sandbox.Sandbox
	used    bool
	started []sandbox.Process
	over    bool
	// life ends with the loan.
	life context.Context
	stop context.CancelFunc
}

var _ sandbox.Sandbox = (*loan)(nil)

// borrow takes a sandbox that lives from the shelf, or opens one.
func (r *Role) borrow(ctx context.Context, w want) (*loan, error) {
	l := &loan{r: r, want: w}
	if err := l.take(ctx); err != nil {
		l.giveBack()
		return nil, err
	}
	l.Sandbox = l.box
	l.life, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	return l, nil
}

// take takes the sandbox that is to be used from now on. mu is held, or nobody else knows the loan.
func (l *loan) take(ctx context.Context) error {
	for {
		k, rested := l.r.shelf.take(l.want, time.Now())
		l.had = append(l.had, k)
		box, err := k.open()
		switch {
		case err != nil:
			l.r.shelf.discard(k)
			if rested < 0 || ctx.Err() != nil {
				return err
			}
			continue // it was opened for another, whose time may have been up
		case rested >= 0 && slow(box.Mode()) && (rested > restMost || l.r.shelf.doubts(k)) && sick(ctx, box):
			if l.r.shelf.discard(k); ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		l.box, l.used = box, rested >= 0
		return nil
	}
}

// sick reports whether a sandbox does not answer.
func sick(ctx context.Context, box sandbox.Sandbox) bool {
	_, err := box.Processes(ctx)
	return err != nil
}

// now is the sandbox that commands are carried out in.
func (l *loan) now() sandbox.Sandbox {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.box
}

// replaced judges how a command ended in a sandbox. It reports whether there is another one now in which it is to be tried: the
// first was used before, is dead, and nothing of the command has begun.
func (l *loan) replaced(ctx context.Context, box sandbox.Sandbox, err error) bool {
	if err == nil || ctx.Err() != nil || !slow(box.Mode()) || errors.Is(err, sandbox.ErrLifetime) || errors.Is(err, sandbox.ErrDisk) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.box != box {
		return false
	}
	k := l.had[len(l.had)-1]
	if !errors.Is(err, sandbox.ErrNotStarted) || errors.Is(err, sandbox.ErrLost) || !l.used || !sick(ctx, box) {
		l.r.shelf.suspect(k)
		return false
	}
	l.r.shelf.discard(k)
	if l.take(ctx) != nil {
		l.box = box // it says what is wrong
		return false
	}
	return sandbox.Seen(l.box) == sandbox.Seen(box) // else the command may name what is not there
}

// Exec implements sandbox.Sandbox.
func (l *loan) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	box := l.now()
	exit, err := box.Exec(ctx, cmd)
	if l.replaced(ctx, box, err) {
		return l.now().Exec(ctx, cmd)
	}
	return exit, err
}

// Start implements sandbox.Sandbox. What it starts ends with the loan.
func (l *loan) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := context.AfterFunc(l.life, func() { cancel(sandbox.ErrDestroyed) })
	box := l.now()
	p, err := box.Start(ctx, cmd)
	if l.replaced(ctx, box, err) {
		p, err = l.now().Start(ctx, cmd)
	}
	if err != nil {
		end()
		cancel(err)
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = append(l.started, p)
	return p, nil
}

// Processes implements sandbox.Sandbox.
func (l *loan) Processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
	return l.now().Processes(ctx)
}

// Kill implements sandbox.Sandbox.
func (l *loan) Kill(ctx context.Context, pid int) error { return l.now().Kill(ctx, pid) }

// Inside implements sandbox.Elsewhere.
func (l *loan) Inside() string { return sandbox.Seen(l.now()) }

// Destroy gives the sandbox back when all that was started is gone. Where that is not so when ctx ends, the sandbox goes too.
func (l *loan) Destroy(ctx context.Context) error {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return nil
	}
	l.over = true
	started, last := l.started, l.had[len(l.had)-1]
	l.mu.Unlock()
	l.stop()
	gone := make(chan struct{})
	l.r.shelf.ending.Go(func() {
		defer close(gone)
		for _, p := range started {
			_, _ = p.Wait() // it was ended, or has told whoever waited for it
		}
	})
	select {
	case <-gone:
	case <-ctx.Done():
		l.r.shelf.discard(last)
	}
	l.giveBack()
	return nil
}

// giveBack gives back all that the loan had.
func (l *loan) giveBack() {
	for _, k := range l.had {
		l.r.shelf.give(k, time.Now())
	}
	if l.r.shelf.shut() {
		l.r.shelf.ending.Wait() // nobody else does any more
	}
}
