// Package checks carries out the acceptance checks of claims: each in a sandbox of its own, on a copy of the tree that
// was claimed.
//
// Promises: no background job of the step runs any more when the tree is copied. A check never works in the workspace
// of the agent, and has no network and none of its caches. A check that was begun twice counts once: what it changes
// goes with its copy, and the first result that is stored is the one that counts. Whatever keeps a check from being
// made is a check that failed, never one that passed.
package checks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/core/acceptance"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox/jobs"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/tail"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool/sandbox"
)

// Config holds what checks need. Ends may be nil.
type Config struct {
	Ledger     *runlog.Ledger
	Ends       *runlog.Ends
	Blobs      kernel.Blobs
	Workspaces workspace.Workspaces
	Sandboxes  *pool.Opener
	Pool       *pool.Pool
	Jobs       *jobs.Supervisor
	// Git reads repositories; nil where there is no git, and checks that need it fail.
	Git Repositories
	// Fits reports with an error that a document does not fit a JSON Schema.
	Fits func(schema json.RawMessage, document []byte) error
	// Eval evaluates an expression over values by their names; nil evaluates none.
	Eval func(expr string, values map[string]any) (any, error)
	// Mask takes the secrets out of what is stored.
	Mask func(string) string
}

// Repositories reads those of workspaces, whose directories have absolute paths.
type Repositories interface {
	Files(ctx context.Context, dir, commit string, want func(path string) bool, take func(gitwork.File) error) error
	Standing(ctx context.Context, dir, base string) (gitwork.Standing, error)
	TreeOf(ctx context.Context, dir, copied string, left func(path string) bool) (string, error)
}

var _ Repositories = (*gitwork.Desk)(nil)

// Checker carries out checks.
type Checker struct {
	cfg Config
	// filling keeps calls of one reviewer, which may begin at the same time, from filling its workspace twice.
	filling sync.Mutex
}

// New makes a checker.
func New(cfg Config) *Checker { return &Checker{cfg: cfg} }

// Times of what is around a check.
const (
	// endTime bounds the wait for the background jobs of a step, and the end of a sandbox.
	endTime = 20 * time.Second
	// busyEvery is how soon a workspace is tried again that another toolrunner holds.
	busyEvery = 250 * time.Millisecond
)

// maxOutput is how much of the output of a check is kept.
const maxOutput = 4 << 20

// Step carries out the checks of a step that are due, one after the other, until none is.
func (c *Checker) Step(ctx context.Context, s run.State, step string) error {
	for {
		duty, due := acceptance.Next(s, step)
		if !due {
			return nil
		}
		work, done := c.cfg.Ends.Context(ctx, s.HarnessID)
		e, err := c.one(work, s, duty)
		over := errors.Is(context.Cause(work), runlog.ErrRunEnded)
		done()
		switch {
		case over:
			return nil
		case err != nil:
			return err
		}
		w, err := c.cfg.Ledger.Insist(ctx, s.HarnessID, func(s run.State, _ time.Time) ([]events.Payload, error) {
			return acceptance.Finish(s, duty, e), nil
		})
		if err != nil {
			return err
		}
		s = w.State
	}
}

// one carries out one check. The error says that its result is not known, so that it is made again.
func (c *Checker) one(ctx context.Context, s run.State, d acceptance.Duty) (e acceptance.Evidence, err error) {
	began := time.Now()
	at, t, err := c.copy(ctx, s, d)
	defer func() { c.drop(t) }()
	if same := d.Tree == "" || d.Tree == t.digest && (d.GitTree == "" || d.GitTree == t.git); err == nil && same {
		e.Note = t.note
		err = c.decide(ctx, s, d, at, t, &e)
	}
	if ctx.Err() != nil {
		return e, context.Cause(ctx)
	}
	if _, again := errors.AsType[*kernel.RetryAfter](err); again || errors.Is(err, errStore) {
		return e, err
	}
	if err != nil {
		e.Reason = call.ClipError(c.cfg.Mask(err.Error()))
	}
	e.Tree, e.GitTree, e.TookMS = t.digest, t.git, time.Since(began).Milliseconds()
	return e, nil
}

// decide carries out a check on a copy, by its kind. An error is a reason why it did not pass.
func (c *Checker) decide(ctx context.Context, s run.State, d acceptance.Duty, at string, t tree,
	e *acceptance.Evidence) error {
	switch d.Check.Kind {
	case events.CheckCommand:
		if err := c.restore(ctx, s, d, at, t, e); err != nil {
			return err
		}
		out, err := c.command(ctx, s, d, t, e)
		return errors.Join(err, c.keep(ctx, out, e))
	case events.CheckArtifact:
		return artifact(c.cfg.Sandboxes.Root(), t.dir, d.Check)
	case events.CheckGit:
		return c.repository(ctx, s, d, at, e)
	case events.CheckSchema:
		return c.document(s, d, e)
	case events.CheckPerson:
		return answered(d.Gate)
	case events.CheckReview:
		return reviewed(d, e)
	case events.CheckExpr:
		return c.expression(s, d, e)
	case events.CheckFiles:
		return nil // that they could be copied is all
	}
	return fmt.Errorf("this toolrunner has no check of the kind %q: upgrade it", d.Check.Kind)
}

// copy copies the tree that is to be checked, once nothing of the step works in it any more. It returns the path of the
// workspace too, below the workspace root.
func (c *Checker) copy(ctx context.Context, s run.State, d acceptance.Duty) (dir string, t tree, err error) {
	at, err := c.cfg.Workspaces.Acquire(ctx, s.Created.Workspace, s.HarnessID, d.Step, func(runID, step string) bool {
		return runID == s.HarnessID && call.StepEnded(s, step)
	})
	if _, busy := errors.AsType[*workspace.BusyError](err); busy || errors.Is(err, workspace.ErrTaken) {
		err = fmt.Errorf("%w: %w", err, &kernel.RetryAfter{After: busyEvery})
	}
	if err != nil {
		return "", t, err
	}
	defer at.Release()
	if at.Broken != nil {
		return "", t, at.Broken
	}
	at.Touch(false)
	end, cancel := context.WithTimeout(ctx, endTime)
	quiet := c.cfg.Jobs.EndStep(end, s.HarnessID, d.Step)
	cancel()
	if !quiet {
		return "", t, fmt.Errorf("%w: a background command of the step did not end", ErrTree)
	}
	c.cfg.Pool.EndSteps(s.HarnessID, func(step string) bool { return step == d.Step })
	t, err = copyTree(ctx, c.cfg.Sandboxes.Root(), at.Path)
	if err != nil || s.Created.Git == nil || c.cfg.Git == nil {
		return at.Path, t, err
	}
	root := c.cfg.Sandboxes.Root()
	t.git, err = c.cfg.Git.TreeOf(ctx, filepath.Join(root, filepath.FromSlash(at.Path)),
		filepath.Join(root, filepath.FromSlash(t.dir)),
		func(name string) bool { return slices.Contains(t.left, name) })
	if err != nil {
		err = fmt.Errorf("%w: what a commit of them would have cannot be found: %w", ErrTree, err)
	}
	return at.Path, t, err
}

// command runs a check on a copy and returns what it printed. An error is a reason why it did not pass.
func (c *Checker) command(ctx context.Context, s run.State, d acceptance.Duty, t tree, e *acceptance.Evidence) ([]byte,
	error) {
	limit := d.Check.Limit()
	work, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := c.cfg.Sandboxes.RequestFor(s, d.Step, workdir.Dir{Workspace: t.dir, Path: t.dir}, nil)
	r.Denied, r.Want.Network, r.Want.AllowedHosts, r.Want.ReadWrite = nil, false, nil, nil
	sb, err := c.cfg.Sandboxes.Open(work, r)
	if err != nil {
		return nil, fmt.Errorf("no sandbox for the check: %w", err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		_ = sb.Destroy(end)
	}()
	out := tail.New(maxOutput)
	exit, err := sb.Exec(work, sandbox.Cmd{Args: []string{"sh", "-c", d.Check.Run}, Stdout: out, Stderr: out})
	text, cut := out.End()
	if cut {
		text = append([]byte("(the beginning of the output is left out)\n"), text...)
	}
	switch {
	case work.Err() != nil && (err != nil || exit.Signal != "" || exit.Code != 0):
		return text, fmt.Errorf("it did not end within %s", limit)
	case err != nil:
		return text, fmt.Errorf("it could not be run: %w", err)
	case exit.Signal != "":
		return text, fmt.Errorf("it was ended by signal %s", exit.Signal)
	}
	if e.ExitCode = &exit.Code; exit.Code != 0 {
		return text, fmt.Errorf("exit status %d", exit.Code)
	}
	for _, want := range d.Check.Expect {
		if !bytes.Contains(text, []byte(want)) {
			return text, fmt.Errorf("exit status 0, but its output has no %q, which the check expects", want)
		}
	}
	return text, nil
}

// errStore means that the output of a check could not be stored.
var errStore = errors.New("store the output of a check")

// keep stores the output of a check: the end of it in the event, all of it as an object where that is more.
func (c *Checker) keep(ctx context.Context, out []byte, e *acceptance.Evidence) error {
	e.Output = c.cfg.Mask(string(bytes.ToValidUTF8(out, []byte("\uFFFD"))))
	if len(e.Output) <= events.MaxCheckOutput {
		return nil
	}
	ref, err := c.cfg.Blobs.Put(ctx, "output", []byte(e.Output))
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	e.Ref = &ref
	return nil
}
