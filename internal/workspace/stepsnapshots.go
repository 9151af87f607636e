package workspace

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// AtSteps reports whether trees are kept at the ends of steps instead of after each call.
func (t *Trees) AtSteps() bool { return t.cfg.AtSteps && t.cfg.Snapshots != nil }

// In says which step of the run the visit is for.
func (v *Visit) In(step string) { v.step = step }

// note appends that a call has changed the tree and that no snapshot has it: where the owner is lost, whoever comes
// next can tell what is missing. It returns once the log says so.
func (v *Visit) note(ctx context.Context, call string) (full bool, err error) {
	if err := v.tree.take(ctx); err != nil {
		return false, err
	}
	defer v.tree.give()
	c, name := v.claim, v.run+"/"+call
	switch {
	case c.lost:
		return false, ErrLost
	case slices.Contains(c.rec.Unkept, name):
	case len(c.rec.Unkept) >= events.MaxUnkept:
		return true, nil
	default:
		err := v.t.append(ctx, v.tree, c, &events.WorkspaceChangedData{Event: "workspace_changed", Fence: c.rec.Fence,
			Call: name, WorkspaceLearned: c.learned()})
		if err != nil {
			return false, err
		}
	}
	if c.steps == nil {
		c.steps = map[[2]string]bool{}
	}
	c.steps[[2]string{v.run, v.step}] = true
	c.dirty = true
	v.touched.Store(false)
	return false, nil
}

// CatchUp keeps what calls of steps did that have ended since, before the next call works in the tree: who should have
// received of their ends may have missed it. A tree that cannot be kept now is kept later: ErrLost alone is an error.
func (v *Visit) CatchUp(ctx context.Context, ended func(run, step string) bool) error {
	if !v.t.AtSteps() {
		return nil
	}
	if err := v.tree.take(ctx); err != nil {
		return err
	}
	defer v.tree.give()
	for step := range v.claim.steps {
		if !ended(step[0], step[1]) {
			continue
		}
		if err := v.t.catchUp(ctx, v.tree, v.claim); errors.Is(err, ErrLost) {
			return err
		}
		break
	}
	return nil
}

// Boundary keeps a tree of this instance that calls have changed since its last snapshot. Whoever receives that a step
// has ended calls it. With an error the tree is kept later: by a call of the next step, or when it is given back.
func (t *Trees) Boundary(ctx context.Context, workspace string) error {
	t.mu.Lock()
	_, known := t.open[workspace]
	t.mu.Unlock()
	if !known || !t.AtSteps() {
		return nil
	}
	tr, done, err := t.of(ctx, workspace)
	if err != nil {
		return err
	}
	defer done()
	if tr.held == nil {
		return nil
	}
	return t.catchUp(ctx, tr, tr.held)
}

// catchUp must be called with the turn of the tree.
func (t *Trees) catchUp(ctx context.Context, tr *tree, c *claim) error {
	if c.lost || len(c.rec.Unkept) == 0 {
		return nil
	}
	return t.keep(ctx, tr, c, c.rec.Unkept[len(c.rec.Unkept)-1])
}

// learned is what this owner knows by now and the log does not say yet: runs that have ended, and that an agent was
// informed of what was lost.
func (c *claim) learned() events.WorkspaceLearned {
	l := events.WorkspaceLearned{Informed: c.reported && (c.rec.Lost || len(c.rec.Missing) > 0)}
	if len(c.rec.Runs) >= events.MaxWorkspaceRuns {
		return l
	}
	for _, run := range c.rec.Runs {
		if c.runs[run] {
			l.Ended = append(l.Ended, run)
		}
	}
	return l
}

// Missing are the calls, as RUN/CALL, that had ended and whose changes the tree has not, as long as no agent was told.
func (v *Visit) Missing() []string {
	if v.tree.take(context.Background()) != nil { // that one never ends
		return nil
	}
	defer v.tree.give()
	return slices.Clone(v.claim.rec.Missing)
}

// NewsReported says that what News returned is in the log: it need not be said again. A visit that did not ask for it
// has told nothing.
func (v *Visit) NewsReported() { v.reported = v.news != "" }

// lostNews is what an agent is told of a tree whose owner was lost.
func lostNews(rec Record) string {
	of := "It is empty, because no call had ended before that"
	switch {
	case rec.Snapshot != "":
		of = "The files are as they were kept after call " + rec.Covers
	case len(rec.Missing) > 0:
		of = "It is empty, because nothing was kept before that"
	}
	text := "The machine that held this workspace was lost. " + of +
		"; what calls that did not end changed in them may be missing, and absolute paths have changed: look before you go on."
	if len(rec.Missing) == 0 {
		return text
	}
	return text + " These calls had ended, and what they changed in files is lost all the same: " +
		strings.Join(rec.Missing, ", ") +
		". Do again what is needed of it."
}
