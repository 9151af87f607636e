//go:build !linux

package git

// bounded is the command line of a call that keeps it within its limits, which its helpers inherit.
func (g *runner) bounded(c call) (args []string, limit func(pid int) error) {
	return g.byShell(c), func(int) error { return nil }
}
