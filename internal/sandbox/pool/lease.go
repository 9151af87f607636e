package pool

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

// fingerprint is what a sandbox is opened with: its settings, and the files that they name as they are now.
type fingerprint struct {
	settings string
	files    []fs.FileInfo
}

// fingerprintOf distinguishes sandboxes that may stand for each other from those that may not. What is closed is closed
// where it stands when a sandbox is opened: one that was opened before a file was there, or when it was another, does
// not close it.
func fingerprintOf(mode sandbox.Mode, cfg sandbox.Config) fingerprint {
	cfg.ID = ""
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%+v", mode, cfg)
	var p fingerprint
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

func (p fingerprint) same(q fingerprint) bool {
	return p.settings == q.settings && slices.EqualFunc(p.files, q.files, func(a, b fs.FileInfo) bool {
		return a == nil && b == nil || a != nil && b != nil && os.SameFile(a, b)
	})
}

// Acquirer returns what opens the sandbox of a call of a step where it is one that is kept; nil where the call has one
// of its own. need is how long it is to live at least, if its own limit allows that. A sandbox with an egress of its
// own is not kept: that is good for one call and its fence. ctx is that of the opening, which may outlive the call.
func (p *Pool) Acquirer(ctx context.Context, o *Opener, s run.State, step string, r Request, need time.Duration) Open {
	st := s.Step(step)
	if o.cfg.Keep <= 0 || st == nil || s.Created == nil || r.Dir.Path == "" || r.Egress.Narrow() || p.shut() {
		return nil
	}
	session := p.OfSession(s)
	if !session && !slow(o.Mode(r.Want)) {
		return nil
	}
	r.Shared = true
	return func() (sandbox.Sandbox, error) {
		plan, err := o.plan(r)
		if err != nil {
			return nil, err
		}
		w := wanted{run: s.HarnessID, step: step, workspace: r.Dir.Workspace, wall: plan.cfg.Limits.Wall, need: need,
			opened: fingerprintOf(plan.backend.Mode(), plan.cfg),
			open:   func() (sandbox.Sandbox, error) { return plan.open(ctx) }}
		w.key = strings.Join([]string{"run", s.HarnessID, step, st.AssignedAgent}, "\x00")
		if session {
			if key := strings.Join([]string{"session", r.Dir.Path, st.AssignedAgent}, "\x00"); p.handedOn(ctx, key,
				s.HarnessID) {
				w.key, w.step = key, ""
			}
		}
		return p.acquire(ctx, w)
	}
}

// OfSession reports whether a run works in the workspace of a session whose lock it holds.
func (p *Pool) OfSession(s run.State) bool {
	return s.Created.SessionFence != 0 && s.Created.Workspace == "session/"+s.Created.Session
}

// Ended reports whether a run has ended.
func (p *Pool) Ended(ctx context.Context, runID string) bool { return p.ended(ctx, runID) }

// handedOn reports whether the sandbox of a session may go on to a run: the one that had it has ended. In a session of
// several runs at a time each has one of its own.
func (p *Pool) handedOn(ctx context.Context, key, runID string) bool {
	before := p.last(key)
	return before == "" || before == runID || p.ended(ctx, before)
}

// Lease is a pooled sandbox for one call or one background job. Its Destroy ends what it started and gives the sandbox
// back. File operations work on the workspace itself; commands are carried out by whatever sandbox lives.
type Lease struct {
	sandbox.Sandbox
	pool *Pool
	want wanted

	mu sync.Mutex
	// Guarded by mu: the sandboxes it had, the last of which is in use, with whether that was used before; what was
	// started.
	had     []*pooled
	sandbox sandbox.Sandbox
	used    bool
	started []sandbox.Process
	over    bool
	// life ends with the lease.
	life context.Context
	stop context.CancelFunc
}

var _ sandbox.Sandbox = (*Lease)(nil)

// acquire takes a sandbox that lives from the pool, or opens one.
func (p *Pool) acquire(ctx context.Context, w wanted) (*Lease, error) {
	l := &Lease{pool: p, want: w}
	if err := l.take(ctx); err != nil {
		l.giveBack()
		return nil, err
	}
	l.Sandbox = l.sandbox
	l.life, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	return l, nil
}

// take takes the sandbox that is to be used from now on. mu is held, or no other goroutine knows the lease.
func (l *Lease) take(ctx context.Context) error {
	for {
		k, rested := l.pool.take(l.want, time.Now())
		l.had = append(l.had, k)
		sb, err := k.open()
		switch {
		case err != nil:
			l.pool.discard(k)
			if rested < 0 || ctx.Err() != nil {
				return err
			}
			continue // it was opened for another, whose time may have been up
		case rested >= 0 && slow(sb.Mode()) && (rested > restMost || l.pool.doubts(k)) && sick(ctx, sb):
			if l.pool.discard(k); ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		l.sandbox, l.used = sb, rested >= 0
		return nil
	}
}

// sick reports whether a sandbox does not answer.
func sick(ctx context.Context, sb sandbox.Sandbox) bool {
	_, err := sb.Processes(ctx)
	return err != nil
}

// now is the sandbox that commands are carried out in.
func (l *Lease) now() sandbox.Sandbox {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sandbox
}

// replaced judges how a command ended in a sandbox. It reports whether there is another one now in which it is to be
// tried: the first was used before, is dead, and nothing of the command has begun.
func (l *Lease) replaced(ctx context.Context, sb sandbox.Sandbox, err error) bool {
	if err == nil || ctx.Err() != nil || !slow(sb.Mode()) || errors.Is(err, sandbox.ErrLifetime) || errors.Is(err,
		sandbox.ErrDisk) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.sandbox != sb {
		return false
	}
	k := l.had[len(l.had)-1]
	if !errors.Is(err, sandbox.ErrNotStarted) || errors.Is(err, sandbox.ErrLost) || !l.used || !sick(ctx, sb) {
		l.pool.suspect(k)
		return false
	}
	l.pool.discard(k)
	if l.take(ctx) != nil {
		l.sandbox = sb // it says what is wrong
		return false
	}
	return sandbox.Seen(l.sandbox) == sandbox.Seen(sb) // else the command may name what is not there
}

// Exec implements sandbox.Sandbox.
func (l *Lease) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	sb := l.now()
	exit, err := sb.Exec(ctx, cmd)
	if l.replaced(ctx, sb, err) {
		return l.now().Exec(ctx, cmd)
	}
	return exit, err
}

// Start implements sandbox.Sandbox. What it starts ends with the lease.
func (l *Lease) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := context.AfterFunc(l.life, func() { cancel(sandbox.ErrDestroyed) })
	sb := l.now()
	p, err := sb.Start(ctx, cmd)
	if l.replaced(ctx, sb, err) {
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
func (l *Lease) Processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
	return l.now().Processes(ctx)
}

// Kill implements sandbox.Sandbox.
func (l *Lease) Kill(ctx context.Context, pid int) error { return l.now().Kill(ctx, pid) }

// Inside implements sandbox.Elsewhere.
func (l *Lease) Inside() string { return sandbox.Seen(l.now()) }

// Destroy gives the sandbox back when all that was started is gone. Where that is not so when ctx ends, the sandbox
// goes too.
func (l *Lease) Destroy(ctx context.Context) error {
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
	l.pool.ending.Go(func() {
		defer close(gone)
		for _, p := range started {
			_, _ = p.Wait() // it was ended, or the call that waited for it knows
		}
	})
	select {
	case <-gone:
	case <-ctx.Done():
		l.pool.discard(last)
	}
	l.giveBack()
	return nil
}

// giveBack gives back all that the lease had.
func (l *Lease) giveBack() {
	for _, k := range l.had {
		l.pool.give(k, time.Now())
	}
	if l.pool.shut() {
		l.pool.ending.Wait() // no other goroutine does any more
	}
}
