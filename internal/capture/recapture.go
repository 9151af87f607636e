package capture

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/inspan/inspan/internal/disk"
)

// Again lists the files of a workspace anew, where a list was made before: what changed since then was brought there
// from elsewhere, such as from a repository, and was not made by the run.
func (k *Keeper) Again(ctx context.Context, runID, dir string) error {
	d, err := k.begun(runID)
	if err != nil || d == nil {
		return err
	}
	files, err := listed(ctx, dir)
	if err != nil {
		return err
	}
	b, err := json.Marshal(files)
	if err != nil {
		return err
	}
	if err := disk.Replace(k.listPath(runID), b, 0o600); err != nil {
		return fmt.Errorf("list of the files of run %s: %w", runID, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.desks[runID] = &desk{files: files, restored: d.restored}
	return nil
}
