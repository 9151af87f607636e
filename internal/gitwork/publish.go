package gitwork

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

const (
	// partBytes is the size of the objects that a bundle is cut into.
	partBytes = 16 << 20
	// wholeBytes is the most bytes of a bundle that has the whole history; of others a remote must have the beginning.
	wholeBytes = 8 << 20
	// publishTries is how often a record is written anew where others change it at the same time.
	publishTries = 4
	// untilSteps is how far the time of a branch must move on for its record to be written anew.
	untilSteps = time.Hour
)

type publishArgs struct {
	Branch string `json:"branch"`
}

// Published is the result of git_publish.
type Published struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	// Artifact is where the bundle is: the key of its record.
	Artifact string `json:"artifact"`
}

var (
	errPublish     = errors.New("this station publishes no branches")
	errUnpublished = errors.New("no such branch was published")
)

// publish puts a branch into the object store.
func (w *work) publish(ctx context.Context, _ *guard, a publishArgs) (*Published, error) {
	if w.cfg.KV == nil || w.job.Scope == "" {
		return nil, errPublish
	}
	if err := git.CheckName(a.Branch); err != nil {
		return nil, err
	}
	r, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	rec, err := w.bundle(ctx, r, a.Branch)
	if err != nil {
		return nil, err
	}
	for range publishTries {
		err = w.record(ctx, rec)
		if !errors.Is(err, kernel.ErrExists) {
			break
		}
	}
	return &Published{Branch: rec.Branch, Commit: rec.Commit, Artifact: events.BranchKey(rec.Scope, rec.Branch)}, err
}

// record says where a bundle is. The fence is asked after the record was read, so that whoever publishes later is not
// written over by one that slept.
func (w *store) record(ctx context.Context, rec events.PublishedBranch) error {
	old, revision, err := w.load(ctx, rec.Branch)
	if err != nil && !errors.Is(err, errUnpublished) {
		return err
	}
	rec.Until = w.until(rec.Scope, rec.At)
	if err == nil && old.Commit == rec.Commit && old.Thin == rec.Thin && (len(old.Parts) > 0) == (len(rec.Parts) > 0) &&
		rec.Until.Sub(old.Until) < untilSteps {
		return nil
	}
	if err := w.current(ctx); err != nil {
		return err
	}
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if _, err = w.cfg.KV.Swap(ctx, events.BranchKey(rec.Scope, rec.Branch), b, revision); err != nil {
		return fmt.Errorf("publish %s: %w: %w", rec.Branch, ErrStore, err)
	}
	return nil
}

// load reads the record of a branch; git.ErrNotFound where none was published.
func (w *store) load(ctx context.Context, branch string) (events.PublishedBranch, uint64, error) {
	var rec events.PublishedBranch
	b, revision, err := w.cfg.KV.Load(ctx, events.BranchKey(w.job.Scope, branch))
	if errors.Is(err, kernel.ErrNotFound) {
		return rec, 0, errUnpublished
	}
	if err != nil {
		return rec, 0, fmt.Errorf("published branch %q: %w: %w", branch, ErrStore, err)
	}
	if err = json.Unmarshal(b, &rec); err == nil && (rec.Branch != branch || rec.Scope != w.job.Scope) {
		err = git.ErrDamaged
	}
	if err != nil {
		return rec, revision, fmt.Errorf("published branch %q: %w", branch, err)
	}
	return rec, revision, nil
}

// bundle stores the content of a branch: all of its history where that is small, else what no remote has.
func (w *store) bundle(ctx context.Context, r *git.Repo, branch string) (events.PublishedBranch, error) {
	rec := events.PublishedBranch{Scope: w.job.Scope, Branch: branch, By: w.job.Call, At: time.Now().UTC(),
		Thin: r.Shallow()}
	if !rec.Thin {
		p := &parts{ctx: ctx, to: w.cfg.Blobs, most: wholeBytes}
		ref, err := r.Share(ctx, p, branch, false)
		if err == nil {
			return p.done(rec, ref)
		}
		if !errors.Is(err, errWhole) {
			return rec, err
		}
		rec.Thin = true
	}
	p := &parts{ctx: ctx, to: w.cfg.Blobs}
	ref, err := r.Share(ctx, p, branch, true)
	if errors.Is(err, git.ErrNothing) { // all of it is at the remote, where others find it
		rec.Commit = ref.ID
		return rec, nil
	}
	if err != nil {
		return rec, err
	}
	return p.done(rec, ref)
}

var errWhole = errors.New("the whole history is large")

// parts stores what is written in objects.
type parts struct {
	ctx  context.Context // of the one bundle that is written
	to   kernel.Blobs
	most int64 // bytes, 0 for no limit
	buf  bytes.Buffer
	refs []events.Ref
	n    int64
}

func (p *parts) Write(b []byte) (int, error) {
	if p.n += int64(len(b)); p.most > 0 && p.n > p.most {
		return 0, errWhole
	}
	p.buf.Write(b)
	for p.buf.Len() >= partBytes {
		if err := p.put(p.buf.Next(partBytes)); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (p *parts) put(b []byte) error {
	ref, err := p.to.Put(p.ctx, "branch", bytes.Clone(b))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	p.refs = append(p.refs, ref)
	return nil
}

func (p *parts) done(rec events.PublishedBranch, ref git.Ref) (events.PublishedBranch, error) {
	if p.buf.Len() > 0 {
		if err := p.put(p.buf.Bytes()); err != nil {
			return rec, fmt.Errorf("store the bundle of %s: %w", rec.Branch, err)
		}
	}
	rec.Commit, rec.Parts, rec.Bytes = ref.ID, p.refs, p.n
	return rec, nil
}

// take brings a published branch into the repository, as git.Published + its name; errUnpublished where there is none.
// What is missing before it is fetched from the repository of the run.
func (w *store) take(ctx context.Context, r *git.Repo, branch string) error {
	if w.cfg.KV == nil || w.job.Scope == "" {
		return errUnpublished
	}
	rec, _, err := w.load(ctx, branch)
	if err != nil {
		return err
	}
	if id, err := r.Resolve(ctx, git.Published+branch); err == nil && id == rec.Commit {
		return nil
	}
	err = w.unpack(ctx, r, rec)
	if !errors.Is(err, git.ErrNotFound) || w.job.Repo == "" || w.allowed(w.job.Repo) != nil {
		return err
	}
	if _, err := r.Fetch(ctx, git.Source{URL: w.job.Repo}); err != nil {
		return err
	}
	return w.unpack(ctx, r, rec)
}

// unpack reads a bundle; git.ErrNotFound where commits are missing that are at the remote.
func (w *store) unpack(ctx context.Context, r *git.Repo, rec events.PublishedBranch) error {
	if len(rec.Parts) > 0 {
		return r.Take(ctx, &bundle{ctx: ctx, from: w.cfg.Blobs, refs: rec.Parts}, git.Ref{Name: rec.Branch, ID: rec.Commit})
	}
	if _, err := r.Resolve(ctx, rec.Commit); err != nil {
		return fmt.Errorf("published branch %q is only at the remote: %w (fetch it from the remote)", rec.Branch, err)
	}
	return r.Mark(ctx, git.Published+rec.Branch, rec.Commit)
}

// bundle reads the objects of a bundle one after the other; each is checked by its digest.
type bundle struct {
	ctx  context.Context // of the one take that reads it
	from kernel.Blobs
	refs []events.Ref
	data []byte
}

func (b *bundle) Read(p []byte) (int, error) {
	for len(b.data) == 0 {
		if len(b.refs) == 0 {
			return 0, io.EOF
		}
		data, err := b.from.Get(b.ctx, b.refs[0])
		if errors.Is(err, kernel.ErrNotFound) || errors.Is(err, kernel.ErrDamagedObject) {
			return 0, fmt.Errorf("%w: %w (restore the object store)", git.ErrDamaged, err)
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrStore, err)
		}
		b.data, b.refs = data, b.refs[1:]
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}
