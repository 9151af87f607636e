package service

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/services/toolrunner"
)

// minding looks after what runs beyond its calls while run runs, and ends it when run has ended: then no call is under way.
func minding(role runlog.Role, log zerolog.Logger, run func(context.Context) error) func(context.Context) error {
	minds, ok := role.(*toolrunner.Role)
	if !ok {
		return run
	}
	return func(ctx context.Context) error {
		hold, stop := context.WithCancel(context.WithoutCancel(ctx))
		var minding sync.WaitGroup
		minding.Go(func() {
			minds.Jobs().Run(hold, func(err error) {
				log.Warn().Err(err).Msg("commands in the background not looked after, will try again")
			})
		})
		err := run(ctx)
		stop()
		minding.Wait()
		return err
	}
}
