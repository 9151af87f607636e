package operator

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Leave says what becomes here of an open run that is saved in order to go on elsewhere.
type Leave int

// The ways to leave a run. An ended run can always be saved.
const (
	// LeaveEnded is for runs that have ended; an open one is refused with client.ErrOpen.
	LeaveEnded Leave = iota
	// LeaveMoved stops the run here: it goes on only where it is brought to.
	LeaveMoved
	// LeaveForked lets it go on here too.
	LeaveForked
)

// maxBundled is how large a workspace, and all artifacts of a run, may be to be in a bundle, in bytes.
const maxBundled = 1 << 30

// Save writes a run, its objects, what the station keeps of its files and its agents into an archive folder, ready for
// a bundle (EVT-9). A run that moves is stopped first, so that its log here has ended before anything of it is
// elsewhere; done again, Save finishes what was interrupted. Manifest.Beside says what is not in it.
func Save(ctx context.Context, c *client.Client, dir *archive.Dir, runID string, leave Leave,
	by string) (archive.Manifest, error) {
	o, err := of(c)
	if err != nil {
		return archive.Manifest{}, err
	}
	s, err := c.State(ctx, runID)
	if err != nil {
		return archive.Manifest{}, err
	}
	workspaces, err := treelog.New(treelog.Config{Station: o.st.Name(), By: events.Persister, Entropy: rand.Reader,
		Journal: o.st.JournalFor(events.WorkspaceAggregate), Rows: o.st.KV(topology.TreeBucket)})
	if err != nil {
		return archive.Manifest{}, err
	}
	saver := &archive.Saver{Dir: dir, Station: o.st.Name(), Journal: o.st.Journal(), Blobs: o.st.Blobs(),
		State: o.st.KV(topology.StateBucket), Config: o.st.KV(topology.ConfigBucket),
		Workspaces: workspaces, Trees: o.st.KV(topology.TreeBucket), Artifacts: o.st.Artifacts(), MostBytes: maxBundled,
		Bundle: true}
	if !s.Status.Ended() {
		switch leave {
		case LeaveEnded:
			return archive.Manifest{}, fmt.Errorf("run %s is %s: %w", runID, s.Status, client.ErrOpen)
		case LeaveMoved:
			if err := saver.Workspace(ctx, s); err != nil {
				return archive.Manifest{}, err
			}
			if s, err = c.Control(ctx, runID, events.Control{Action: "stop", Reason: archive.MovedAway, By: by}); err != nil {
				return archive.Manifest{}, err
			}
		case LeaveForked:
		}
	}
	m, err := saver.Save(ctx, runID)
	if err != nil {
		return m, err
	}
	if err := saver.Agents(ctx, slices.Sorted(maps.Keys(s.Agents))...); err != nil {
		return m, err
	}
	return dir.Finish(ctx, m, leave == LeaveForked)
}
