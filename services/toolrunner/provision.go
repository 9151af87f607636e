package toolrunner

import (
	"context"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/janitor"
	"github.com/inspan/inspan/internal/workspace/provision"
	"github.com/inspan/inspan/pkg/events"
)

// provisioner writes the readable files of a session and of a run into an acquired workspace.
type provisioner struct {
	sessions  *provision.SessionFiles
	files     *provision.RunFiles
	janitor   *janitor.Janitor
	artifacts *capture.Calls
}

// provision writes the files of the session before the first call of a run in it. A workspace whose directory is
// spoiled comes back broken.
func (p provisioner) provision(ctx context.Context, a acquired) (acquired, error) {
	if a.Broken != nil {
		return a, nil
	}
	err := p.sessions.Write(ctx, a.state, a.Dir, func(ctx context.Context, e events.Session) error {
		return p.janitor.Clear(ctx, a.Dir, events.DeletedScope(e))
	})
	if workspace.Spoiled(err) {
		a.Broken, err = err, nil
	}
	return a, err
}

// first returns what is done before a call first touches the workspace: the files of the run are written, and what is
// there is listed. A run whose calls touch none leaves nothing.
func (p provisioner) first(ctx context.Context, a acquired, note func(line string)) func() error {
	prepare := p.artifacts.Prepare(ctx, a.state, a.duty.Call, a.Dir, note)
	return func() error {
		p.files.Provide(ctx, a.state, a.Dir)
		return prepare()
	}
}
