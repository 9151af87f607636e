package git

import "github.com/inspan/inspan/internal/git/wall"

// Around has f called between the look at a repository and the start of each git in it, and what f gives when that has
// ended.
func (g *Git) Around(f func(op string) (after func())) { g.isolation.around = f }

// Through makes a Git raise its walls in one way.
func (g *Git) Through(w wall.Way) { g.isolation.tried, g.isolation.way, g.isolation.err = true, w, nil }
