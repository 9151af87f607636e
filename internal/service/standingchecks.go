package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// How often a service looks whether it may work, and how soon it asks again where it could not find out at first.
const (
	lookEvery  = 5 * time.Second
	firstRetry = 250 * time.Millisecond
)

// errUnknown holds a service until it has found out whether it may work.
var errUnknown = errors.New("starting: not yet known whether this service has the station's settings")

// Check is a condition under which a service works, such as that its policy is the station's.
type Check func(ctx context.Context) error

// ErrHeld is wrapped by what a check finds wrong; any other error means that it could not look.
var ErrHeld = errors.New("this service is held: it takes nothing, and others with the right settings go on")

// standing says whether a service may take anything. It is closed by default: until all checks have passed once nothing
// is taken. A check that cannot look later on changes nothing: the bus is away then, and nothing is taken anyway.
type standing struct {
	log    zerolog.Logger
	checks []Check
	mu     sync.Mutex
	// why is nil where the service may work; changed is closed, and replaced, when that changes. Both are guarded by
	// mu.
	why     error
	changed chan struct{}
}

func newStanding(log zerolog.Logger, checks ...Check) *standing {
	s := &standing{log: log, checks: checks, changed: make(chan struct{})}
	if len(checks) > 0 {
		s.why = errUnknown
	}
	return s
}

// err is why nothing is taken, or nil.
func (s *standing) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// until waits until the service may work, or may not, and reports whether that came before ctx ended.
func (s *standing) until(ctx context.Context, sound bool) bool {
	for {
		s.mu.Lock()
		now, changed := s.why == nil, s.changed
		s.mu.Unlock()
		if now == sound {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// look asks all checks once and reports whether they could look.
func (s *standing) look(ctx context.Context) bool {
	var found error
	for _, c := range s.checks {
		err := c(ctx)
		if err != nil && !errors.Is(err, ErrHeld) {
			return false
		}
		found = errors.Join(found, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.why
	if before == nil && found == nil || before != nil && found != nil && before.Error() == found.Error() {
		return true
	}
	s.why = found
	close(s.changed)
	s.changed = make(chan struct{})
	switch {
	case found != nil:
		s.log.Error().Err(found).Msg("held")
	case !errors.Is(before, errUnknown):
		s.log.Warn().Msg("no longer held")
	}
	return true
}

// during looks while run runs.
func (s *standing) during(run Run) Run {
	if len(s.checks) == 0 {
		return run
	}
	return func(ctx context.Context) error {
		hold, stop := context.WithCancel(ctx)
		var looking sync.WaitGroup
		looking.Go(func() {
			for wait := firstRetry; hold.Err() == nil; {
				if s.look(hold) {
					wait = lookEvery
				}
				select {
				case <-hold.Done():
				case <-time.After(wait):
				}
			}
		})
		err := run(ctx)
		stop()
		looking.Wait()
		return err
	}
}

// inbox takes messages only while the service may work. What it was given before is finished.
func (s *standing) inbox(all kernel.Inbox) kernel.Inbox {
	if len(s.checks) == 0 {
		return all
	}
	return held{all, s}
}

type held struct {
	kernel.Inbox
	s *standing
}

// Listen implements kernel.Inbox.
func (h held) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context,
	kernel.Message)) error {
	for ctx.Err() == nil && h.s.until(ctx, true) {
		part, stop := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() {
			if h.s.until(part, false) {
				stop()
			}
		})
		err := h.Inbox.Listen(part, role, workers, receive)
		stop()
		watching.Wait()
		if err != nil {
			return err
		}
	}
	return nil
}

// Held says why a role takes nothing although it runs; nil where it does.
func (h *Host) Held(role events.Service) error {
	h.mu.Lock()
	s := h.standings[role]
	h.mu.Unlock()
	if g := h.halting(role); g != nil {
		if err := g.err(); err != nil {
			return err
		}
	}
	if s == nil {
		return nil
	}
	return s.err()
}

// standing makes that of a role.
func (h *Host) standing(role events.Service, log zerolog.Logger, more []Check) *standing {
	var checks []Check
	if readsPolicy(role) && h.ports.Config != nil {
		checks = append(checks, h.samePolicy)
	}
	s := newStanding(log, append(checks, more...)...)
	h.mu.Lock()
	h.standings[role] = s
	h.mu.Unlock()
	return s
}
