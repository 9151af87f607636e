package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/halt"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// haltEvery is how often a process asks the log whether the station is halted: so long a role may begin something after
// a halt.
const haltEvery = 500 * time.Millisecond

// errHalted ends all that a role does when the station is halted.
var errHalted = errors.New("the station is halted")

// ErrRestoring holds a station that has a part of a backup: what was done in the rest of it would be done again.
var ErrRestoring = errors.New("a restore of this station, or a move to it, is not done: run inspan restore again with the same backup, or the same inspan stations move")

// Halted reports whether a context ended because the station was halted: then nothing is brought to its end first.
func Halted(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errHalted) }

// halting runs the roles of a process while the station is not halted. It is closed by default: until the log was asked
// once, no role does anything. Where the log does not answer later on, what it said last holds.
type halting struct {
	log zerolog.Logger
	mu  sync.Mutex
	// ledger reads the log with the rights of the role that began first; guarded by mu, as is all below.
	ledger *halt.Ledger
	// config has topology.RestoreKey while the station is being restored; it is looked at until that is not there.
	config kernel.KV
	// state is that of the log, known whether it was asked; changed is closed, and replaced, when that changes.
	state   halt.State
	known   bool
	changed chan struct{}
	// roles is how many are served; the last one that ends calls stop, which ends the watch and waits for it.
	roles int
	stop  func()
}

// Halts opens the log of the halts of a station for a role.
func Halts(p Ports, station string, by events.Service) (*halt.Ledger, error) {
	l, err := halt.NewLedger(halt.LedgerConfig{Station: station, By: by, Journal: p.HaltLog,
		Snapshots: halt.View().Snapshots(p.Sessions), Entropy: p.Entropy})
	if err != nil {
		return nil, fmt.Errorf("log of halts: %w", err)
	}
	return l, nil
}

// halting is what holds a role when the station is halted; nil where nothing does.
func (h *Host) halting(role events.Service) *halting {
	if h.ports.HaltLog == nil || role == events.Persister { // which only records and shows what the others did
		return nil
	}
	return h.halts
}

// openHalts opens the log of halts with the rights of a role, unless another role of this process did.
func (h *Host) openHalts(role events.Service) error {
	g := h.halting(role)
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ledger != nil {
		return nil
	}
	var err error
	g.config = h.ports.Config
	g.ledger, err = Halts(h.ports, h.cfg.Station, role)
	return err
}

// err is why nothing is done, or nil.
func (g *halting) err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch s := g.state; {
	case !g.known:
		return errUnknown
	case s.Halted:
		return fmt.Errorf("%w since %s, by %s: %s", errHalted, s.Since.UTC().Format(time.RFC3339), s.By, s.Reason)
	}
	return nil
}

// stood is how long the station was halted between two times.
func (g *halting) stood(since, now time.Time) time.Duration {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state.Stood(since, now)
}

// until waits until the station is halted, or may work, and reports whether that came before ctx ended.
func (g *halting) until(ctx context.Context, halted bool) bool {
	for {
		g.mu.Lock()
		now, changed := !g.known || g.state.Halted, g.changed
		g.mu.Unlock()
		if now == halted {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// look asks the log once.
func (g *halting) look(ctx context.Context) error {
	s, err := g.ledger.Fresh(ctx, events.HaltID)
	if err != nil && !errors.Is(err, kernel.ErrHeld) {
		return err
	}
	if err != nil { // no one knows what a damaged log means: nothing is done until a person has looked
		s.Halted, s.By, s.Reason = true, "the log of halts", err.Error()
	}
	if err := g.restored(ctx); errors.Is(err, ErrRestoring) {
		s.Halted, s.By, s.Reason = true, "inspan restore", err.Error()
	} else if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known && g.state.Number == s.Number && g.state.Halted == s.Halted {
		return nil
	}
	before := g.known && g.state.Halted
	g.state, g.known = s, true
	close(g.changed)
	g.changed = make(chan struct{})
	switch {
	case s.Halted:
		g.log.Error().Int("halt", s.Number).Str("by", s.By).Str("reason", s.Reason).Msg("halted")
	case before:
		g.log.Warn().Int("halt", s.Number).Str("by", s.ReleasedBy).Msg("released")
	}
	return nil
}

// restored returns ErrRestoring while a restore of the station is not done. Once it is, that is not asked again: a
// restore fills a station whose services do not run.
func (g *halting) restored(ctx context.Context) error {
	g.mu.Lock()
	config := g.config
	g.mu.Unlock()
	if config == nil {
		return nil
	}
	err := Restored(ctx, config)
	if err == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.config = nil
	}
	return err
}

// Restored returns ErrRestoring where a restore of the station was begun and is not done. config is its configuration.
func Restored(ctx context.Context, config kernel.KV) error {
	switch _, err := config.Get(ctx, topology.RestoreKey); {
	case err == nil:
		return ErrRestoring
	case !errors.Is(err, kernel.ErrNotFound):
		return fmt.Errorf("whether the station is being restored: %w", err)
	}
	return nil
}

// always runs what a role also does while the station is halted, which is nothing while the station is being restored
// or moved.
func (h *Host) always(ctx context.Context, w Wiring, halts *halting) error {
	for h.ports.Config != nil && errors.Is(Restored(ctx, h.ports.Config), ErrRestoring) {
		if err := kernel.Sleep(ctx, haltEvery); err != nil {
			return err
		}
	}
	return w.Always(ctx, h.instance(w.Role, halts))
}

// join has the log watched for one role more, until leave is called.
func (g *halting) join(ctx context.Context) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.roles++; g.roles == 1 {
		g.known = false
		hold, end := context.WithCancel(context.WithoutCancel(ctx))
		var watching sync.WaitGroup
		watching.Go(func() { g.watch(hold) })
		g.stop = func() {
			end()
			watching.Wait()
		}
	}
	return func() {
		g.mu.Lock()
		stop := g.stop
		g.roles--
		last := g.roles == 0
		g.mu.Unlock()
		if last {
			stop()
		}
	}
}

// watch looks until ctx ends.
func (g *halting) watch(ctx context.Context) {
	for ctx.Err() == nil {
		wait := haltEvery
		if g.look(ctx) != nil {
			wait = firstRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// during runs run while the station is not halted, until ctx ends: a halt ends all that run does, and after the release
// it is run again, as after a kill.
func (g *halting) during(ctx context.Context, run Run) error {
	if g == nil {
		return run(ctx)
	}
	defer g.join(ctx)()
	for g.until(ctx, false) && ctx.Err() == nil {
		part, end := context.WithCancelCause(ctx)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if g.until(part, true) {
				end(errHalted)
			}
		})
		err := run(part)
		halted := Halted(part)
		end(nil)
		waiting.Wait()
		switch {
		case !halted:
			return err
		case err != nil:
			g.log.Warn().Err(err).Msg("ended by a halt")
		}
	}
	return nil
}

// cut is an inbox whose handlers end when the station is halted.
type cut struct{ kernel.Inbox }

// Listen implements kernel.Inbox.
func (c cut) Listen(ctx context.Context, role events.Service, workers int,
	receive func(context.Context, kernel.Message)) error {
	return c.Inbox.Listen(ctx, role, workers, func(work context.Context, m kernel.Message) {
		work, end := context.WithCancelCause(work)
		defer end(nil)
		defer context.AfterFunc(ctx, func() {
			if Halted(ctx) {
				end(errHalted)
			}
		})()
		if Halted(ctx) {
			end(errHalted)
		}
		receive(work, m)
	})
}
