package station

import (
	"context"
	"fmt"
	"time"
)

// healthEvery is how often the server in this process is asked whether it is well, restartEvery how soon one that is
// not is started again after the last time.
const (
	healthEvery  = 5 * time.Second
	restartEvery = time.Minute
)

// nurse looks after a server that does not forget a failed write: once its disk has room it is started again.
type nurse struct {
	// ailment says what the server cannot do, nil where it is well; room whether its disk has some.
	ailment  func() error
	hasSpace func() bool
	restart  func() error
	// report is told what ails the server when that begins or changes, and nil when it is over.
	report func(error)
}

// sit looks every so often until ctx ends or the server cannot be started again.
func (n nurse) sit(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	told := ""
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, text := n.ailment(), ""
		if now != nil {
			text = now.Error()
		}
		if text != told {
			told = text
			n.report(now)
		}
		if now == nil || !n.hasSpace() || time.Since(last) < restartEvery {
			continue
		}
		last = time.Now()
		if err := n.restart(); err != nil {
			return fmt.Errorf("start the NATS server again: %w", err)
		}
	}
}

// nursed looks after the server in this process until ctx ends.
func (s *Station) nursed(ctx context.Context) {
	n := nurse{ailment: s.server.Ailment, hasSpace: s.server.HasRoom,
		restart: func() error {
			s.cfg.Log.Warn().Msg("the disk of the NATS server in this process has room again: it is started again")
			s.server.Shutdown()
			return s.server.Restart()
		},
		report: func(err error) {
			if err == nil {
				s.cfg.Log.Warn().Msg("the NATS server in this process is well again")
				return
			}
			s.cfg.Log.Error().Err(err).Str("store",
				s.cfg.StoreDir).Msg("the NATS server in this process cannot write: make room on the disk of the store, then it is started again by itself")
		}}
	if err := n.sit(ctx, healthEvery); err != nil {
		s.tasks.fail(err)
	}
}
