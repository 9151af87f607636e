package planner

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

// intake decides whether a task may begin a run now. The counts come from the log, so they survive restarts and hold
// for all planners together; between two counts, each planner adds only what it let through itself. So at most what
// the other planners let through within the age of a count is above a limit.
type intake struct {
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

func newIntake(cfg Config) *intake {
	return &intake{cfg: cfg, senders: quota.NewRate(cfg.Quotas.PerSender)}
}

// admit lets a task of which there is no run yet through, or returns a *kernel.RetryAfter or a *kernel.Refusal. done
// must be called when the run exists or could not be made.
func (in *intake) admit(ctx context.Context, sender string, m kernel.Message) (done func(), err error) {
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
func (in *intake) count(ctx context.Context, now time.Time) (err error) {
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

// senderOf names who gave a task: the project of its subject, which permissions can bind to a user, and the source of
// its CloudEvent, which is only claimed.
func senderOf(m kernel.Message, env ce.Envelope) string {
	return fmt.Sprintf("%s %s", projectOf(m), env.Source)
}

// fullAtBirth makes the error of a run of which nothing could be stored a refusal: its sender can do something about
// it.
func fullAtBirth(err error, born bool) error {
	if born || !errors.Is(err, kernel.ErrFull) {
		return err
	}
	return refusal(quota.Full("the station's log"))
}
