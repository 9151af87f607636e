// Package gitwork is the git work of runs: what the git_ tools do in the working tree of a run, outside of its sandbox.
//
// Promises: the tree, its names and its remotes are strangers' (see internal/git): nothing of them is run or believed.
// A remote is reached only by an allowed protocol, at an allowed host, at an address that is public or that an operator
// allowed, and it is dialled at the very address that was judged. A credential is shown only to the host that it is
// for. One piece of work at a time is done in a tree, whichever process of the machine does it; what a killed one left
// locked is unlocked by the next. Each changes nothing once the fence of its call is not the current one.
//
// Everything may be done again: a prepared tree is prepared, what is committed, merged or pushed stays as it is. A push
// is told as done only after the remote was asked what it has. Conflicts are results, and both sides of them are kept.
// Branches are published as bundles in the object store, by content, so that the trees of other machines can take them.
//
// The workspaces of ephemeral runs borrow the objects of one mirror for each remote. What of which is kept outside of
// them; nothing is ever taken out of a mirror but with all of it, once no one borrows it and it was not used for some
// time. A mirror that is damaged or gone is fetched again. Refs, settings and what a run itself made are in its own
// tree alone.
//
// A Desk may be used by several goroutines; it starts none.
package gitwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/inspan/inspan/internal/forge"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/tool"
)

// The tools whose work this is.
const (
	Prepare = "git_prepare"
	Commit  = "git_commit"
	Push    = "git_push"
	Merge   = "git_merge"
	Publish = "git_publish"
	Branch  = "git_branch"
	Review  = "git_review"
	Remove  = "git_remove"
)

// own are the names of files of the harness at the top of a workspace: they are no content of it.
func own() []string { return []string{".harness", ".session.meta", ".session.lock"} }

// IsOwn reports whether a path of a workspace is one of the harness's files at its top.
func IsOwn(name string) bool { return slices.Contains(own(), name) }

// Own returns the names of the harness's files at the top of a workspace, as patterns for git.Config.Ignore.
func Own() []string {
	var out []string
	for _, name := range own() {
		out = append(out, "/"+name)
	}
	return out
}

// Config of a Desk.
type Config struct {
	// Git must leave Own out.
	Git *git.Git
	// Blobs and Shelf keep published branches; nil publishes none.
	Blobs kernel.Blobs
	KV    kernel.KV
	// Forges are asked for reviews; nil are none.
	Forges *forge.Client
	// Author of commits and merges.
	Author git.Author
	// Root is the absolute path of the workspace root: repositories in it are no remotes.
	Root string
	// Locks is the absolute path of a folder on this machine, outside of all workspaces.
	Locks string
	// Keep is how long what is published stays, but for that of sessions, which stays as long as they; 0 means 30 days.
	Keep time.Duration
	// Patience is how long work waits for other work in the same tree; 0 means 30 s.
	Patience time.Duration
}

// Desk does git work for many runs.
type Desk struct {
	cfg Config
	// good is true once the program was found to be new enough.
	good atomic.Bool
}

// New checks a Config.
func New(cfg Config) (*Desk, error) {
	if cfg.Git == nil || !filepath.IsAbs(cfg.Root) || !filepath.IsAbs(cfg.Locks) {
		return nil, errors.New("git work needs a git, a workspace root and a folder for locks, both absolute")
	}
	if (cfg.Blobs == nil) != (cfg.KV == nil) {
		return nil, errors.New("git work needs both an object store and a key-value store to publish branches, or neither")
	}
	if cfg.Author.Name == "" {
		cfg.Author.Name = "inspan"
	}
	if cfg.Author.Email == "" {
		cfg.Author.Email = "inspan@localhost"
	}
	if cfg.Keep <= 0 {
		cfg.Keep = standardKeep
	}
	if cfg.Patience <= 0 {
		cfg.Patience = busyPatience
	}
	return &Desk{cfg: cfg}, nil
}

// Walled reports whether git stays in a workspace that commands change while it works there: see git.Git.Walled.
func (d *Desk) Walled(ctx context.Context) error { return d.cfg.Git.Walled(ctx) }

// probe makes sure that the program is new enough, until it is known to be.
func (d *Desk) probe(ctx context.Context) error {
	if d.good.Load() {
		return nil
	}
	err := d.cfg.Git.Probe(ctx)
	d.good.Store(err == nil)
	return err
}

// Job is where and for whom work is done.
type Job struct {
	// Dir is the absolute path of the working tree.
	Dir string
	// Scope names those who share published branches, such as "session/demo".
	Scope string
	// Agent and Call name whose work it is, Call being RUN/CALL.
	Agent, Call string
	// Repo is the address of the task, where a push goes that names none.
	Repo string
	// From are more scopes in which the commit is looked for that a fork begins with, and Line the branch that it was
	// on.
	From []string
	Line string
	// Ephemeral is true for an ephemeral run: an empty tree borrows the objects of a mirror of its remote, see
	// Alternates and Reclaim. Barred, if set, says why that cannot be here.
	Ephemeral bool
	Barred    error
	// Begin, if set, is called once before the tree is looked at.
	Begin func() error
	// Progress, if set, is called with how far transfers are, in lines.
	Progress func(line string)
	// Current returns an error where the fence of the call is not the current one any more.
	Current func(context.Context) error
}

// At returns the work of one call.
func (d *Desk) At(j Job) tool.Git { return d.work(j) }

func (d *Desk) work(j Job) *work {
	p := &place{Desk: d, job: j}
	return &work{p, mirrors{p}, lines{store{p}}}
}

// work is the git work of one call.
type work struct {
	*place
	mirrors
	lines
}

// place is the workspace that the work is done in, and for whom.
type place struct {
	*Desk
	job Job
}

// mirrors are the workspaces that borrow the objects of a remote's mirror.
type mirrors struct{ *place }

// store has the branches that were published.
type store struct{ *place }

// lines are the branches of a workspace, with those that were published and may come in.
type lines struct{ store }

// Do implements tool.Git.
func (w *work) Do(ctx context.Context, name string, input json.RawMessage) (json.RawMessage, error) {
	out, err := w.do(ctx, name, input)
	return answer(ctx, out, err)
}

func (w *work) do(ctx context.Context, name string, input json.RawMessage) (any, error) {
	switch name {
	case Prepare:
		return with(ctx, w, input, w.prepare)
	case Commit:
		return with(ctx, w, input, w.commit)
	case Push:
		return with(ctx, w, input, w.push)
	case Merge:
		return with(ctx, w, input, w.merge)
	case Publish:
		return with(ctx, w, input, w.publish)
	case Branch:
		return with(ctx, w, input, w.branch)
	case Remove:
		return with(ctx, w, input, w.remove)
	case Review:
		return w.review(ctx, input, false)
	}
	return nil, fmt.Errorf("unknown git operation %q", name)
}

// Done implements tool.Git. Only what changes something elsewhere is asked about: all else is just done again.
func (w *work) Done(ctx context.Context, name string, input json.RawMessage) (bool, json.RawMessage, error) {
	if name == Review {
		out, err := w.review(ctx, input, true)
		if err == nil && out == nil {
			return false, nil, nil
		}
		b, err := answer(ctx, out, err)
		return err == nil, b, err
	}
	if name != Push {
		return false, nil, nil
	}
	out, err := with(ctx, w, input, w.pushed)
	if err == nil && out == nil {
		return false, nil, nil
	}
	b, err := answer(ctx, out, err)
	return err == nil, b, err
}

// with decodes the arguments and does work alone in the tree.
func with[A any, R any](ctx context.Context, w *work, input json.RawMessage, do func(context.Context, *guard, A) (R,
	error)) (R, error) {
	var none R
	var args A
	if err := json.Unmarshal(input, &args); err != nil {
		return none, tool.Fail(tool.Invalid, "fix the arguments and retry", err)
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if err := w.probe(ctx); err != nil {
		return none, err
	}
	if w.job.Begin != nil {
		if err := w.job.Begin(); err != nil {
			return none, err
		}
	}
	g, err := w.alone(ctx)
	if err != nil {
		return none, err
	}
	out, err := do(ctx, g, args)
	if left := g.leave(ctx, ctx.Err() != nil || errors.Is(err, git.ErrTooLarge)); left != nil {
		return none, errors.Join(err, left)
	}
	return out, err
}

// progressEvery is how often a transfer tells how far it is.
const progressEvery = time.Second

// progress tells of a transfer: each phase when it begins, and then from time to time.
func (w *place) progress() func(git.Progress) {
	if w.job.Progress == nil {
		return nil
	}
	phase, last := "", time.Time{}
	return func(p git.Progress) {
		if now := time.Now(); p.Phase != phase || now.Sub(last) >= progressEvery {
			phase, last = p.Phase, now
			w.job.Progress(fmt.Sprintf("%s: %d of %d\n", p.Phase, p.Done, p.Total))
		}
	}
}

// current is asked before something is changed.
func (w *place) current(ctx context.Context) error {
	if w.job.Current == nil {
		return nil
	}
	return w.job.Current(ctx)
}

// open opens the repository of the tree.
func (w *place) open(ctx context.Context) (*git.Repo, error) {
	if _, err := os.Lstat(filepath.Join(w.job.Dir, ".git")); errors.Is(err, os.ErrNotExist) {
		return nil, errNone
	}
	l, _, err := w.noted()
	if err != nil {
		return nil, err
	}
	if objects := l.lender(w.cfg.Root); objects != "" {
		return w.cfg.Git.OpenBorrowing(ctx, w.job.Dir, objects)
	}
	return w.cfg.Git.Open(ctx, w.job.Dir)
}
