package program

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// logWatch compares the log of a station whose servers are elsewhere with what it was known to have: it has no empty
// position, and does not end before its mark. The persister keeps the mark, beside the index; all roles look.
type logWatch struct {
	role   events.Service
	log    zerolog.Logger
	st     logger
	state  kernel.KV
	config kernel.KV

	mu sync.Mutex
	// fault is guarded by mu.
	fault error
}

// logger tells about the log of a station.
type logger interface {
	Log(ctx context.Context) (jet.LogState, error)
	Name() string
}

// How often the log is looked at, and how often and soon again before it is called damaged: a new leader may not have
// applied yet what was acknowledged.
const (
	logEvery = time.Minute
	logLooks = 5
	logAgain = time.Second
)

// Fault says what the log has lost, nil for nothing.
func (w *logWatch) Fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

// begin looks every so often until ctx ends; the function returned waits for that.
func (w *logWatch) begin(ctx context.Context) (wait func()) {
	ctx, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(logEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := w.look(ctx); err != nil && ctx.Err() == nil {
				w.log.Warn().Err(err).Msg("the log was not compared with its mark, will try again")
			}
		}
	})
	return func() { stop(); done.Wait() }
}

// look compares once, and again where something seems to be missing.
func (w *logWatch) look(ctx context.Context) error {
	var lost storecheck.Report
	for n := range logLooks {
		now, mark, accepted, err := w.known(ctx)
		if err != nil {
			return err
		}
		if lost = mark.Missing(topology.Log(w.st.Name()), now.Stream(), accepted); !lost.Damaged() {
			w.settle(nil)
			return w.keep(ctx, now, mark)
		}
		if n == logLooks-1 {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(logAgain):
		}
	}
	w.settle(fmt.Errorf("loss %s: %w", lost.ID(), lost))
	return nil
}

func (w *logWatch) settle(fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fault != nil && w.fault == nil {
		w.log.Error().Err(fault).Msg("the log is damaged: no new run begins, see docs/runbook.md")
	}
	w.fault = fault
}

// known reads the log's state, its mark, and what was accepted.
func (w *logWatch) known(ctx context.Context) (now jet.LogState, mark storecheck.LogMark, accepted storecheck.Status,
	err error) {
	// The mark first: it can only be behind.
	if err := load(ctx, w.state, storecheck.LogMarkKey, &mark); err != nil {
		return now, mark, accepted, fmt.Errorf("mark of the log: %w", err)
	}
	if err := load(ctx, w.config, topology.DamageKey, &accepted); err != nil {
		return now, mark, accepted, fmt.Errorf("accepted losses: %w", err)
	}
	now, err = w.st.Log(ctx)
	return now, mark, accepted, err
}

// load reads a value; one that is not there leaves v as it is.
func load(ctx context.Context, kv kernel.KV, key string, v any) error {
	b, err := kv.Get(ctx, key)
	// rights of an earlier version do not reach so far
	if errors.Is(err, kernel.ErrNotFound) || errors.Is(err, jet.ErrDenied) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// keep writes how far the log has come.
func (w *logWatch) keep(ctx context.Context, now jet.LogState, mark storecheck.LogMark) error {
	next := storecheck.LogMark{Created: now.Created, Last: now.Last}
	if w.role != events.Persister || next == mark || mark.Created.Equal(now.Created) && mark.Last >= now.Last {
		return nil
	}
	b, err := json.Marshal(next)
	if err == nil {
		err = w.state.Put(ctx, storecheck.LogMarkKey, b)
	}
	if err != nil {
		return fmt.Errorf("write the mark of the log: %w", err)
	}
	return nil
}

// ErrNoLoss means that a loss was to be accepted that the store does not have.
var ErrNoLoss = errors.New("the store has not lost that")

// AcceptLoss lets a station whose servers are elsewhere go on with what is left of its log, as the setup user. id is
// that of the loss that readiness, the service's log and inspan doctor name; ErrNoLoss means that it is another one.
func AcceptLoss(ctx context.Context, cfg service.Config, id string, log zerolog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, setupWait)
	defer cancel()
	conn, err := jet.Connect(ctx, jet.Config{URL: cfg.NATSURL, Creds: cfg.NATSCreds, User: cfg.NATSUser,
		Password: cfg.NATSPassword,
		Name:     "inspan-setup", Buckets: cfg.Buckets(), Log: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	st, err := conn.Station(cfg.Station)
	if err != nil {
		return err
	}
	w := &logWatch{st: st, state: st.KV(topology.StateBucket), config: st.KV(topology.ConfigBucket), log: log}
	return w.accept(ctx, id)
}

func (w *logWatch) accept(ctx context.Context, id string) error {
	now, mark, accepted, err := w.known(ctx)
	if err != nil {
		return err
	}
	lost := mark.Missing(topology.Log(w.st.Name()), now.Stream(), accepted)
	if lost.ID() != id || id == "" {
		return fmt.Errorf("loss %q: %w: %s", id, ErrNoLoss, cmp.Or(lost.Error(), "nothing is lost"))
	}
	b, err := json.Marshal(storecheck.Status{Deleted: uint64(max(0, now.Deleted)), Reached: mark.Last, First: now.First, Notes: []string{"accepted at " + time.Now().UTC().Format(time.RFC3339) + ": " + lost.Error()}}) //nolint:gosec // not below 0
	if err == nil {
		err = w.config.Put(ctx, topology.DamageKey, b)
	}
	if err != nil {
		return fmt.Errorf("record the loss: %w", err)
	}
	return nil
}
