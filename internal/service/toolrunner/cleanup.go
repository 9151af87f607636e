package toolrunner

import (
	"cmp"
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/janitor"
	role "github.com/inspan/inspan/services/toolrunner"
)

// uses notes the use of workspaces where they stay on this machine; elsewhere the trees know it, and a host that is
// given its sandboxes has no workspaces of its own.
func (h *wiring) uses(trees *workspace.Trees) *workspace.Uses {
	if trees != nil || h.deps.Sandboxes != nil || h.cfg.Workspace == "" {
		return nil
	}
	return workspace.NewUses(h.cfg.Workspace)
}

// cleaning takes the workspaces of runs that have ended away while run runs; what is left then is found at the next
// start.
func (h *wiring) cleaning(r *role.Role, log zerolog.Logger, run service.Run) service.Run {
	when := janitor.Policy{After: cmp.Or(h.cfg.CleanupAfter, workspace.StandardAfter), AtEnd: h.cfg.CleanupOnComplete}
	return func(ctx context.Context) error {
		inner, stop := context.WithCancel(ctx)
		var looking sync.WaitGroup
		looking.Go(func() {
			r.Janitor().Run(inner, when, func(at string, k gitwork.Published) {
				log.Info().Str("workspace", at).Str("branch", k.Branch).Str("commit", k.Commit).Str("kept",
					k.Artifact).Msg("unpushed work kept before the workspace is removed")
			}, func(err error) { log.Warn().Err(err).Msg("workspaces of ended runs not removed, will try again") })
		})
		err := run(ctx)
		stop()
		looking.Wait()
		return err
	}
}
