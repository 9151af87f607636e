package git

import (
	"context"

	"github.com/inspan/inspan/internal/git/wall"
)

// Around has f called between the look at a repository and the start of each git in it, and what f gives when that has
// ended.
func (g *Git) Around(f func(op string) (after func())) { g.isolation.around = f }

// Through makes a Git raise its walls in one way.
func (g *Git) Through(w wall.Way) { g.isolation.tried, g.isolation.way, g.isolation.err = true, w, nil }

// RepackAt makes a store be packed anew at so many packs; before is at how many it was.
func (k *Keeper) RepackAt(packs int) (before int) {
	before, k.repackAt = k.repackAt, packs
	return before
}

// UndoSome is Undo that ends after so many files, and reports whether these were all.
func (r *Result) UndoSome(ctx context.Context, base string, n int) (all bool, err error) {
	_, err = r.undo(ctx, base, false, func(steps int) int {
		all = n >= steps
		return min(n, steps)
	})
	return all, err
}
