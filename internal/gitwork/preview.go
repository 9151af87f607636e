package gitwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/pkg/tool"
)

// Shown is what git work would change, for people.
type Shown = git.Shown

// Preview shows what a commit or a push would change. It writes nothing into the tree and waits for no other work in
// it.
//
// base is the commit that the run began with by its log, empty for none: the refs of the tree are what an agent made
// them. A remote is asked only where it is the repository of the task: an address in the arguments is one that no one
// approved.
func (d *Desk) Preview(ctx context.Context, j Job, base, name string, input json.RawMessage) (Shown, error) {
	if _, err := os.Lstat(filepath.Join(j.Dir, ".git")); errors.Is(err, os.ErrNotExist) {
		return Shown{}, errNone
	}
	if err := d.probe(ctx); err != nil {
		return Shown{}, err
	}
	w := d.work(j)
	r, err := w.open(ctx)
	if err != nil {
		return Shown{}, err
	}
	switch name {
	case Commit:
		return r.PreviewCommit(ctx)
	case Push:
		var a pushArgs
		if err := json.Unmarshal(input, &a); err != nil {
			return Shown{}, tool.Fail(tool.Invalid, "fix the arguments and retry", err)
		}
		return w.previewPush(ctx, r, base, a)
	}
	return Shown{}, fmt.Errorf("%s has no preview", name)
}

// previewPush compares with what the remote has, or else with what the run began with.
func (w *work) previewPush(ctx context.Context, r *git.Repo, base string, a pushArgs) (Shown, error) {
	if err := w.aim(&a); err != nil {
		return Shown{}, err
	}
	began := func(why string) (Shown, error) {
		if base == "" {
			return Shown{}, fmt.Errorf("%s, and the run did not begin with a commit to compare with", why)
		}
		s, err := r.PreviewPush(ctx, a.Branch, a.Commit, base)
		if err == nil && s.Text != "" {
			s.Text = fmt.Sprintf("%s: compared with %.12s, which the run began with\n\n", why, base) + s.Text
		}
		return s, err
	}
	if a.URL != w.job.Repo {
		return began("the remote was not asked, since its address is not that of the task")
	}
	there, err := w.cfg.Git.RemoteBranch(ctx, a.URL, a.To)
	switch {
	case ctx.Err() != nil:
		return Shown{}, context.Cause(ctx)
	case err != nil:
		return began("the remote could not be asked")
	case there == "":
		return began(fmt.Sprintf("the remote has no branch %s", a.To))
	}
	s, err := r.PreviewPush(ctx, a.Branch, a.Commit, there)
	if errors.Is(err, git.ErrRejected) || errors.Is(err, git.ErrNotFound) {
		return s, fmt.Errorf("the remote has %.12s on %s, which is not in what is pushed, so it would refuse the push: %w",
			there, a.To, err)
	}
	if err == nil && s.Text != "" {
		s.Text = fmt.Sprintf("the remote has %.12s on %s\n\n", there, a.To) + s.Text
	}
	return s, err
}
