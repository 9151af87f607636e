package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
)

// Visit is the work of one call in a tree. It is used by one goroutine.
type Visit struct {
	t     *Trees
	tree  *tree
	claim *claim
	run   string
	step  string
	// touched: something may have changed the tree that is not kept yet; used: something may have looked at it. at is
	// when the work ended, in the claim's count.
	touched, used atomic.Bool
	at            uint64
	// news that the visit took, told where they are in the log.
	news     string
	reported bool
}

// Dir is the absolute path of the tree, Path the one below the workspace root, with slashes.
func (v *Visit) Dir() string { return v.claim.dir }

// Path is Dir below the workspace root.
func (v *Visit) Path() string {
	rel, err := filepath.Rel(v.t.cfg.Root, v.claim.dir)
	if err != nil {
		panic(err) // both are absolute, one was made of the other
	}
	return filepath.ToSlash(rel)
}

// Fence of the claim that the visit is part of.
func (v *Visit) Fence() uint64 { return v.claim.rec.Fence }

// Touch says that the tree is looked at from now on, and may be changed where it is not to be read only. It may be
// called by any goroutine.
func (v *Visit) Touch(change bool) {
	v.used.Store(true)
	if change {
		v.touched.Store(true)
	}
}

// News returns what an agent is to be told of the tree; empty for nothing. Others are told nothing meanwhile, and again
// where the visit ends without Told.
func (v *Visit) News(ctx context.Context) string {
	if v.tree.take(ctx) != nil {
		return ""
	}
	defer v.tree.give()
	if v.claim.news != "" {
		v.news, v.claim.news = v.claim.news, ""
		return v.news
	}
	return ""
}

// Settle is called when the work is done, before anything is said of it: where the tree may have been changed it is
// Keep, or where trees are kept at the ends of steps an event that names the call, and where it was looked at
// Check.
func (v *Visit) Settle(ctx context.Context, call string) error {
	switch {
	case v.touched.Load() && v.t.AtSteps():
		full, err := v.note(ctx, call)
		if full {
			return v.Keep(ctx, call)
		}
		return err
	case v.touched.Load():
		return v.Keep(ctx, call)
	case v.used.Load():
		return v.Check(ctx)
	}
	return nil
}

// Check returns ErrLost where the tree belongs to somebody else now: what was read in it may be of long ago.
func (v *Visit) Check(ctx context.Context) error {
	if err := v.tree.take(ctx); err != nil {
		return err
	}
	defer v.tree.give()
	return v.t.check(ctx, v.tree, v.claim)
}

// check must be called with the turn of the tree.
func (t *Trees) check(ctx context.Context, tr *tree, c *claim) error {
	if c.lost {
		return ErrLost
	}
	s, err := t.cfg.Log.Known(ctx, tr.workspace)
	if err != nil {
		return err
	}
	if !c.ownedBy(t.cfg.Instance, s) {
		if tr.held == c {
			t.lose(tr)
		}
		return ErrLost
	}
	return nil
}

// changing is how often, and how long after each other in the beginning, a snapshot is tried of a tree that changes.
const (
	changing      = 8
	changingPause = 10 * time.Millisecond
)

// Keep takes a snapshot of the tree and returns once the log names it. ErrLost means that nothing was kept, because
// the tree belongs to somebody else now; ErrChanging that the tree does not come to rest. With any other error it may
// have been kept, and should be called again.
func (v *Visit) Keep(ctx context.Context, call string) error {
	if err := v.tree.take(ctx); err != nil {
		return err
	}
	defer v.tree.give()
	c := v.claim
	if v.at == 0 {
		c.ended++
		v.at = c.ended
	}
	pause := changingPause
	for tries := 1; ; tries++ {
		if v.at <= c.kept && !c.lost { // a snapshot that began later has it
			v.saved()
			return nil
		}
		err := v.t.keep(ctx, v.tree, c, v.run+"/"+call)
		if err == nil {
			v.saved()
		}
		if !errors.Is(err, ErrChanging) || tries >= changing && c.visits <= 1 {
			return err
		}
		if err := v.rest(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, time.Second)
	}
}

// saved notes that all that was done until now is kept.
func (v *Visit) saved() {
	v.touched.Store(false)
	v.at = 0
}

// rest lets others have their turn, until one of them has left or some time has passed.
func (v *Visit) rest(ctx context.Context, pause time.Duration) error {
	left := v.claim.left
	v.tree.give()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
	case <-ctx.Done():
	}
	// The turn is given back by whoever called; it is taken whatever becomes of ctx.
	return errors.Join(v.tree.take(context.WithoutCancel(ctx)), ctx.Err())
}

// keep must be called with the turn of the tree.
func (t *Trees) keep(ctx context.Context, tr *tree, c *claim, covers string) error {
	if c.lost || c.keeper == nil {
		return t.check(ctx, tr, c)
	}
	began, parent := c.ended, c.rec.Snapshot
	if len(c.rec.Packs) >= t.cfg.Chain {
		parent = ""
	}
	shot, err := c.keeper.Snapshot(ctx, parent)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnkept, tr.workspace, err)
	}
	d := &events.WorkspaceSnapshottedData{Event: "workspace_snapshotted", Fence: c.rec.Fence, Covers: covers,
		WorkspaceLearned: c.learned()}
	if shot.Pack == nil && len(c.rec.Unkept) == 0 {
		if err := t.check(ctx, tr, c); err != nil {
			return err
		}
		c.savedAll(began)
		return nil
	}
	if shot.Pack != nil { // else the calls that wait have changed nothing after all
		pack, err := storePack(ctx, t.cfg.Blobs, shot.ID, shot.Pack)
		if err = errors.Join(err, shot.Pack.Close()); err != nil {
			return fmt.Errorf("keep workspace %s: %w", tr.workspace, err)
		}
		_, git := os.Lstat(filepath.Join(c.dir, ".git"))
		d.Taken = &events.WorkspaceSnapshot{Pack: pack, Whole: shot.Parent == "", Files: shot.Files, Bytes: shot.Bytes,
			Repository: git == nil}
	}
	if err := t.append(ctx, tr, c, d); err != nil {
		return err
	}
	c.savedAll(began)
	return nil
}

// append appends what the owner of a claim has to say. It must be called with the turn of the tree.
func (t *Trees) append(ctx context.Context, tr *tree, c *claim, p events.Payload) error {
	now, err := t.cfg.Log.Append(ctx, tr.workspace, c.sequence, p)
	if err == nil {
		c.rec, c.sequence = now.Workspace, now.Sequence
		return nil
	}
	if !errors.Is(err, kernel.ErrExists) {
		return err
	}
	// It may be our own event of before, whose acknowledgement was lost.
	if now, err = t.cfg.Log.Known(ctx, tr.workspace); err != nil {
		return err
	}
	ours := treelog.After(c.rec, p)
	if now.Fence == c.rec.Fence && now.Owner == ours.Owner && now.Snapshot == ours.Snapshot && slices.Equal(now.Unkept,
		ours.Unkept) && slices.Equal(now.Runs, ours.Runs) && now.Sequence > c.sequence {
		c.rec, c.sequence = now.Workspace, now.Sequence
		return nil
	}
	if now.Fence == c.rec.Fence && now.Owner == t.cfg.Instance {
		if now.Sequence <= c.sequence {
			return fmt.Errorf("log of workspace %s: read of a replica that is behind: %w", tr.workspace, kernel.ErrUnsettled)
		}
		c.rec, c.sequence = now.Workspace, now.Sequence
		return fmt.Errorf("log of workspace %s went on: %w", tr.workspace, kernel.ErrExists)
	}
	if tr.held == c {
		t.lose(tr)
	}
	return ErrLost
}

// Leave ends the visit. It may be called once.
func (v *Visit) Leave() {
	_ = v.tree.take(context.Background()) // that one never ends
	defer v.tree.give()
	c := v.claim
	c.visits--
	c.dirty = c.dirty || v.touched.Load()
	if v.reported {
		c.reported = true
	} else if v.news != "" {
		c.news = v.news
	}
	c.used = v.t.cfg.Now()
	close(c.left)
	c.left = make(chan struct{})
	if c.lost && c.visits == 0 {
		c.remove()
	}
}
