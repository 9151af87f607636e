package toolrunner

import (
	"context"
	"encoding/json"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// filesTime bounds how long the files of a run are looked at for whoever asks.
const filesTime = 3 * time.Second

// FilesAsked answers what there is of the files of a run, where that is the question; nil where it is another one.
func (r *Role) FilesAsked(ctx context.Context, question []byte) any {
	var q events.FilesQuestion
	if json.Unmarshal(question, &q) != nil || q.Run == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, filesTime)
	defer cancel()
	a, err := r.cfg.Workspaces.Files(ctx, r.cfg.Sandboxes.Root(), q)
	if err != nil {
		return events.FilesAnswer{} // whoever asked finds out nothing
	}
	return a
}
