package service

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/services/toolrunner"
)

// reclaiming takes the workspaces of ephemeral runs that have ended away while run runs; what is left then is found at the next start.
func (h *Host) reclaiming(role runlog.Role, log zerolog.Logger, run func(context.Context) error) func(context.Context) error {
	r, ok := role.(*toolrunner.Role)
	if !ok {
		return run
	}
	after := h.cfg.CleanupAfter
	if after <= 0 {
		after = workspace.StandardAfter
	}
	return func(ctx context.Context) error {
		inner, stop := context.WithCancel(ctx)
		var looking sync.WaitGroup
		looking.Go(func() {
			r.Reclaim(inner, after, func(at string, k gitwork.Published) {
				log.Info().Str("workspace", at).Str("branch", k.Branch).Str("commit", k.Commit).Str("kept", k.Artifact).Msg("unpushed work kept before the workspace is removed")
			}, func(err error) { log.Warn().Err(err).Msg("ephemeral workspaces not looked after, will try again") })
		})
		err := run(ctx)
		stop()
		looking.Wait()
		return err
	}
}
