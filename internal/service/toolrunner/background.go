package toolrunner

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/service"
	role "github.com/inspan/inspan/services/toolrunner"
)

// minding looks after what runs beyond its calls while run runs, and ends it when run has ended: then no call is under
// way.
func minding(r *role.Role, log zerolog.Logger, run service.Run) service.Run {
	return func(ctx context.Context) error {
		hold, stop := context.WithCancel(context.WithoutCancel(ctx))
		var minding sync.WaitGroup
		minding.Go(func() {
			r.Jobs().Run(hold, func(err error) {
				log.Warn().Err(err).Msg("commands in the background not looked after, will try again")
			})
		})
		err := run(ctx)
		stop()
		minding.Wait()
		return err
	}
}
