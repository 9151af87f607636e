// Package quota decides how much a station and those who speak to it may take on.
//
// Promises: a limit of 0 is none. What is over a limit that passes by itself waits, for a bounded time; what would make
// others wait, and what does not pass by itself, is refused at once, with a hint that says what to do and when.
package quota

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/view"
)

// Limits of what a station takes on. 0 is no limit.
type Limits struct {
	// Running bounds the runs that were created and have not ended; those that wait at a gate are among them.
	Running int
	// PerMinute bounds the runs that are created in a minute.
	PerMinute int
	// Patience is how long a task may wait for its turn.
	Patience time.Duration
}

// Load is how busy a station is.
type Load struct {
	// Running runs, and those created in the last minute.
	Running, Minute int
	// Store that is nearest to its limit, with Used of Limit bytes; Limit 0 means that no store has one. Reserve is the
	// part of a disk that stays free whatever is stored: the store is a disk where it is above 0.
	Store                string
	Used, Limit, Reserve int64
}

// FullAt is the share of a store, in percent, from which on no new run begins: the rest is for the runs under way, so
// that they can still say how they end.
const FullAt = 90

// Refused is what is not taken on, and why.
type Refused struct{ Code, Reason, Hint string }

func (r *Refused) Error() string { return r.Reason }

// The codes of refusals.
const (
	CodeQuota = "quota_exceeded"
	CodeFull  = "station_full"
)

// Full refuses a new run because a store has no room.
func Full(store string) *Refused {
	return &Refused{CodeFull, store + " is full", "free space or raise the limit of " + store + again}
}

// again says how a store that was full goes on.
const again = "; active runs continue, and tasks are accepted again a few seconds after space is free"

// Fill is how full the store that is nearest to its limit is, from 0 to 1 and above.
func (l Load) Fill() float64 {
	if l.Limit <= 0 {
		return 0
	}
	return (float64(max(l.Used, 0)) + float64(l.Reserve)) / float64(l.Limit)
}

// full refuses a new run where a store has no room for more than the runs under way. A disk is described by what is
// free on it: the reserve is not used by anything, and others write to it too, so that it may be smaller than the
// reserve.
func (l Load) full() *Refused {
	kept := l.Limit / (100 / (100 - FullAt)) // rounded down, and nothing overflows
	used, most := max(l.Used, 0), l.Limit-kept-l.Reserve
	if l.Limit <= 0 || used < most {
		return nil
	}
	r := Full(l.Store)
	switch {
	case l.Reserve > 0:
		// What is made free on a disk raises its limit: this is where the limit is high enough for what is stored.
		least := (used+l.Reserve+FullAt/10-1)/(FullAt/10)*10 - used
		r.Reason = fmt.Sprintf("%s has %s free, and new runs need more than %s", l.Store, view.Bytes(max(l.Limit-used, 0)),
			view.Bytes(least))
		r.Hint = "free space on " + l.Store + again
	case used > l.Limit:
		r.Reason = fmt.Sprintf("%s holds %s, more than its limit of %s", l.Store, view.Bytes(used), view.Bytes(l.Limit))
	default:
		r.Reason = fmt.Sprintf("%s holds %s of %s: the last %d %% are reserved for active runs", l.Store, view.Bytes(used),
			view.Bytes(l.Limit), 100-FullAt)
	}
	return r
}

// Waits of a task whose turn has not come.
const (
	waitLeast = 500 * time.Millisecond
	waitMost  = 15 * time.Second
)

// Intake judges a task that waited so long and was looked at so often, this time included. It may begin where wait is 0
// and refused nil; wait is when to look again.
func Intake(l Limits, now Load, waited time.Duration, looks uint64) (wait time.Duration, refused *Refused) {
	if full := now.full(); full != nil {
		return 0, full
	}
	over := ""
	switch {
	case l.Running > 0 && now.Running >= l.Running:
		over = fmt.Sprintf("%d runs have not ended, the limit is %d", now.Running, l.Running)
	case l.PerMinute > 0 && now.Minute >= l.PerMinute:
		over = fmt.Sprintf("%d runs began in the last minute, the limit is %d", now.Minute, l.PerMinute)
	default:
		return 0, nil
	}
	if waited >= l.Patience {
		return 0, &Refused{CodeQuota, fmt.Sprintf("%s; the task waited %s", over, waited.Round(time.Second)),
			"send it again when runs have ended (inspan runs lists them), or raise INSPAN_MAX_RUNS, INSPAN_MAX_RUNS_PER_MINUTE or INSPAN_TASK_PATIENCE"}
	}
	return min(waitLeast<<min(looks, 5), waitMost, max(l.Patience-waited, waitLeast)), nil
}

// maxKeys bounds how many names a Rate tells apart; those beyond share one allowance.
const maxKeys = 4096

// Rate gives each name an allowance that refills evenly. It lives in one process: several of them give as many
// allowances, and a restart gives a new one. It is not safe for concurrent use.
type Rate struct {
	most int
	left map[string]allowance
	// swept is when full allowances were last forgotten.
	swept time.Time
}

// sweepEvery keeps whoever invents names from making each of them cost a look at all the others.
const sweepEvery = time.Second

type allowance struct {
	left float64
	at   time.Time
}

// NewRate allows each name so many at once, and as many a minute after that; 0 allows all.
func NewRate(most int) *Rate { return &Rate{most: most, left: map[string]allowance{}} }

// Take takes one from the allowance of a name. Where nothing is left, ok is false and again is when there will be.
func (r *Rate) Take(name string, now time.Time) (again time.Duration, ok bool) {
	if r.most <= 0 {
		return 0, true
	}
	if _, known := r.left[name]; !known && len(r.left) >= maxKeys {
		if r.forget(now); len(r.left) >= maxKeys {
			name = "" // no one's own name: all that are too many share it
		}
	}
	a, known := r.left[name]
	if !known {
		a = allowance{left: float64(r.most), at: now}
	}
	perSecond := float64(r.most) / 60
	if since := now.Sub(a.at).Seconds(); since > 0 {
		a.left, a.at = min(float64(r.most), a.left+since*perSecond), now
	}
	if a.left < 1 {
		r.left[name] = a
		return time.Duration((1 - a.left) / perSecond * float64(time.Second)), false
	}
	a.left--
	r.left[name] = a
	return 0, true
}

// forget drops the names whose allowance is whole again.
func (r *Rate) forget(now time.Time) {
	if now.Sub(r.swept) < sweepEvery {
		return
	}
	r.swept = now
	for name, a := range r.left {
		if now.Sub(a.at) >= time.Minute {
			delete(r.left, name)
		}
	}
}

// Often refuses what a name says too often.
func Often(what, name string, most int, again time.Duration) *Refused {
	wait := max(again.Round(time.Second), time.Second)
	return &Refused{CodeQuota, fmt.Sprintf("%s of %q: more than %d a minute", what, name, most),
		fmt.Sprintf("send it again in %s", wait)}
}
