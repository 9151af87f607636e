package toolrunner

import (
	"context"
	"time"
)

// endedTime bounds how long the end of a run is looked at.
const endedTime = 10 * time.Second

// Ended takes note of a run that may have ended. It may wait for those who write files of sessions.
func (r *Role) Ended(runID string) {
	r.cfg.Janitor.MayGiveBack(runID)
	r.cfg.Jobs.MayHaveEnded(runID)
	r.cfg.Sessions.Ended(runID)
	r.close(runID)
	r.cfg.Janitor.MayRemove(runID) // last: the files above are in the workspace
}

// close writes what a run came to into its workspace, lets go of what is known of that, and takes the artifacts out of
// it where its agent wants that (ART-14). The log is asked whether the run has ended: of one that goes on all stays.
func (r *Role) close(runID string) {
	knows := r.cfg.Artifacts.Knows(runID)
	if !knows && !r.cfg.Files.Knows(runID) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endedTime)
	defer cancel()
	s, err := r.cfg.Ledger.Fresh(ctx, runID)
	if err != nil || !s.Status.Ended() {
		return // the files stay, and the records tell of them
	}
	if r.cfg.Workspaces.Trees == nil && s.Created != nil { // else another machine may have it by now
		r.cfg.Files.Result(s, s.Created.Workspace)
	}
	if knows {
		r.cfg.Artifacts.Ended(s)
	}
}
