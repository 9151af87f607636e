//go:build slow

package e2e

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// TestWorktreeCutEverywhere has the toolrunner die at every event of a publication and of a merge; TestWorktreeCut has a
// sample of that.
func TestWorktreeCutEverywhere(t *testing.T) {
	t.Parallel()
	var all []cut
	for _, tool := range []string{events.GitCommit, events.GitPublish, events.GitMerge} {
		for _, kind := range []events.Kind{events.CallStarted, events.CallFinished} {
			all = append(all, cut{tool, kind, true}, cut{tool, kind, false})
		}
	}
	cutWorktrees(t, all...)
}
