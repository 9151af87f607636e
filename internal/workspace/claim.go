package workspace

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/workspace/treelog"
)

// claim is one time of owning a tree. It is guarded by the turn of its tree.
type claim struct {
	rec Record
	// sequence of the last event that rec includes.
	sequence uint64
	// dir is the place of the tree, base that of all that belongs to it; base is empty where the volume is shared.
	dir, base string
	keeper    Keeper
	// lost: somebody else owns the tree now.
	lost bool
	// visits under way, dirty where one ended without a snapshot of what it did.
	visits int
	dirty  bool
	// runs that came in, true for those that ended.
	runs map[string]bool
	// left is closed when a visit ends, and made anew.
	left chan struct{}
	// ended counts work that ended, kept is how much of it the last snapshot has.
	ended, kept uint64
	// news is what the next agent is to be told of the tree; empty for nothing. told: it was said.
	news     string
	reported bool
	// steps, as run and step, whose calls are not kept.
	steps map[[2]string]bool
	used  time.Time
}

// ownedBy reports whether a claim still stands. A state that was read of a replica that is behind says nothing.
func (c *claim) ownedBy(instance string, s treelog.State) bool {
	if c.lost {
		return false
	}
	if s.Sequence > c.sequence && s.Owner == instance && s.Fence == c.rec.Fence {
		c.rec, c.sequence = s.Workspace, s.Sequence
	}
	return s.Sequence <= c.sequence && c.rec.Owner == instance
}

// fill makes the directories of a claim, with what was kept of its tree.
func (c *claim) fill(ctx context.Context, snapshots Snapshots, blobs kernel.Blobs) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Dir(c.base)), 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.base), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(c.base, 0o755); err != nil { // it must be new
		return err
	}
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return err
	}
	var err error
	if c.keeper, err = snapshots.Keep(ctx, c.dir, filepath.Join(c.base, storeDir)); err != nil || c.rec.Snapshot == "" {
		return err
	}
	return c.restore(ctx, blobs)
}

// restore reads the packs of a claim's snapshot into its directory.
func (c *claim) restore(ctx context.Context, blobs kernel.Blobs) error {
	ctx, stop := context.WithCancel(ctx)
	var packs []io.Reader
	for _, p := range c.rec.Packs {
		one := &parts{ctx: ctx, from: blobs, refs: p.Parts}
		defer one.close()
		packs = append(packs, one)
	}
	defer stop() // before the others: what is under way ends at once
	return c.keeper.Restore(ctx, c.rec.Snapshot, packs...)
}

// remove takes the directory of a claim away. What cannot be removed now is removed by Tidy.
func (c *claim) remove() {
	if c.base != "" {
		_ = git.RemoveAll(c.base)
	}
}

// savedAll notes that a snapshot has all work that had ended when it began.
func (c *claim) savedAll(began uint64) {
	c.kept, c.dirty, c.steps = began, false, nil
}
