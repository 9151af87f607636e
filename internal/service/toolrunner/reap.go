package toolrunner

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/sandbox/reap"
	"github.com/inspan/inspan/internal/service"
)

// reapEvery is how often a toolrunner looks for what lost ones left: one that is lost while this one lives left
// something too.
const reapEvery = 10 * time.Minute

// reaper removes what lost toolrunners left on this machine. What could not be removed is told, and is no reason not to
// work.
type reaper struct {
	log zerolog.Logger
	// base is where private directories of sandboxes are made; empty means the system's place for temporary files.
	base  string
	every time.Duration
	// more reap what is not in this machine's own lists, and return how many things they removed.
	more []func(context.Context) (int, error)
}

// during reaps at once and then now and then, until run has returned.
func (r reaper) during(run service.Run) service.Run {
	return func(ctx context.Context) error {
		inner, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			tick := time.NewTicker(r.every)
			defer tick.Stop()
			for inner.Err() == nil {
				r.once(inner)
				select {
				case <-inner.Done():
				case <-tick.C:
				}
			}
		}()
		err := run(ctx)
		stop()
		<-done
		return err
	}
}

// processes ends those of lost toolrunners, without waiting for the next look at all that they left.
func (r reaper) processes(ctx context.Context) {
	if n := reap.Processes(ctx); n > 0 {
		r.log.Info().Int("processes", n).Msg("what a lost toolrunner left was removed")
	}
}

func (r reaper) once(ctx context.Context) {
	found, err := reap.Reap(ctx, r.base)
	if found.Any() {
		r.log.Info().Int("processes", found.Processes).Int("groups", found.Groups).Int("directories",
			found.Directories).Msg("what a lost toolrunner left was removed")
	}
	for _, reap := range r.more {
		n, failed := reap(ctx)
		if err = errors.Join(err, failed); n > 0 {
			r.log.Info().Int("containers", n).Msg("what a lost toolrunner left was removed")
		}
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn().Err(err).Msg("what a lost toolrunner left was not all removed, will try again")
	}
}
