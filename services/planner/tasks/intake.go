// Package tasks reads tasks, and decides whether they may begin a run now.
//
// Promises: a task whose shape is wrong is refused with the fault named. What the station has no room for waits or is
// refused before anything of it is stored: no limit is passed by more than what other planners let through meanwhile.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/core/quota"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events/ce"
)

// Quotas of a station. The zero value is without limits but those of its stores.
type Quotas struct {
	quota.Limits
	// PerSender bounds the tasks that one sender may give in a minute, 0 for no limit. Each planner counts for itself.
	PerSender int
}

// CodeDamaged is the code of what a station refuses because its store has lost something.
const CodeDamaged = "station_damaged"

// Config holds what decides. The zero value lets every task through.
type Config struct {
	Quotas Quotas
	// StationStats tells how busy the station is; nil takes every task on.
	StationStats kernel.StationStats
	// Damage says what the station has lost, nil for nothing: then no new run begins. It may be nil.
	Damage func() error
}

// Intake decides whether a task may begin a run now. The counts come from the log, so they survive restarts and hold
// for all planners together; between two counts, each planner adds only what it let through itself. So at most what
// the other planners let through within the age of a count is above a limit.
type Intake struct {
	cfg Config
	mu  sync.Mutex
	// load as of at, good until then; passed counts the tasks let through since, under way those of them that have not
	// returned. All are guarded by mu, as are the senders.
	load             quota.Load
	at, until        time.Time
	passed, underWay int
	senders          *quota.Rate
}

// How long a count is good for: leastAge, and so long that counting takes no more than a twentieth of the time.
const (
	leastAge = time.Second
	perCount = 20
)

// New returns one that counts from now on.
func New(cfg Config) *Intake {
	return &Intake{cfg: cfg, senders: quota.NewRate(cfg.Quotas.PerSender)}
}

// Admit lets a task of which there is no run yet through, or returns a *kernel.RetryAfter or a *kernel.Refusal. done
// must be called when the run exists or could not be made.
func (in *Intake) Admit(ctx context.Context, sender string, m kernel.Message) (done func(), err error) {
	if in.cfg.Damage != nil {
		if lost := in.cfg.Damage(); lost != nil {
			return nil, kernel.Refuse(CodeDamaged, "inspan doctor says what is lost, docs/runbook.md what to do",
				"the station's store is damaged, and it begins no run until an operator has looked: %v", lost)
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	now := time.Now()
	if m.Deliveries() == 1 { // one that waited was counted before
		if again, ok := in.senders.Take(sender, now); !ok {
			return nil, refusal(quota.Often("tasks", sender, in.cfg.Quotas.PerSender, again))
		}
	}
	if !now.Before(in.until) {
		if err := in.count(ctx, now); err != nil {
			return nil, err
		}
	}
	load := in.load
	load.Running += in.passed
	load.Minute += in.passed
	wait, refused := quota.Intake(in.cfg.Quotas.Limits, load, now.Sub(m.Time()), m.Deliveries())
	switch {
	case refused != nil:
		return nil, refusal(refused)
	case wait > 0:
		return nil, &kernel.RetryAfter{After: wait}
	}
	in.passed++
	in.underWay++
	return func() {
		in.mu.Lock()
		in.underWay--
		in.mu.Unlock()
	}, nil
}

// count asks the log and the stores. Called with mu held.
func (in *Intake) count(ctx context.Context, now time.Time) (err error) {
	if in.cfg.StationStats == nil {
		return nil
	}
	in.load = quota.Load{}
	if in.cfg.Quotas.Running > 0 {
		if in.load.Running, err = in.cfg.StationStats.Running(ctx); err != nil {
			return err
		}
	}
	if in.cfg.Quotas.PerMinute > 0 {
		if in.load.Minute, err = in.cfg.StationStats.Created(ctx, now.Add(-time.Minute)); err != nil {
			return err
		}
	}
	fills, err := in.cfg.StationStats.Fills(ctx)
	if err != nil {
		return err
	}
	for _, f := range fills {
		next := in.load
		next.Store, next.Used, next.Limit, next.Reserve = f.Store, f.Used, f.Limit, f.Reserve
		if next.Fill() > in.load.Fill() || in.load.Limit == 0 {
			in.load = next
		}
	}
	in.passed = in.underWay // those may not be in the count yet
	in.until = time.Now().Add(max(leastAge, perCount*time.Since(now)))
	return nil
}

func refusal(r *quota.Refused) *kernel.Refusal {
	return &kernel.Refusal{Code: r.Code, Reason: r.Reason, Hint: r.Hint}
}

// SenderOf names who gave a task: the project of its subject, which permissions can bind to a user, and the source of
// its CloudEvent, which is only claimed.
func SenderOf(m kernel.Message, env ce.Envelope) string {
	return fmt.Sprintf("%s %s", ProjectOf(m), env.Source)
}

// FullAtBirth makes the error of a run of which nothing could be stored a refusal: its sender can do something about
// it.
func FullAtBirth(err error, born bool) error {
	if born || !errors.Is(err, kernel.ErrFull) {
		return err
	}
	return refusal(quota.Full("the station's log"))
}
