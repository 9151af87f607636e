package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// dreamEvery is the interval of runs that take checkpoints by the clock. A slow call takes longer.
const dreamEvery = 20 * time.Second

// inDream lets a task take checkpoints by the clock.
func inDream(t *events.Task) {
	ms := dreamEvery.Milliseconds()
	t.Mode, t.CheckpointIntervalMS = events.ModeDream, &ms
}

// dreams draws which runs do.
func (s *Scene) dreams(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0xd2ea3))
	for i := range s.Runs {
		r := &s.Runs[i]
		r.Dream = rng.IntN(4) == 0 && !r.Direct && !r.Kid
	}
}

// dreamAudit is what the audit knows of the checkpoints of a run.
type dreamAudit struct {
	mode     events.RunMode
	interval time.Duration
	// last is when the last checkpoint was taken, or the run began; number is how many there were.
	last           time.Time
	number         int
	running, moved bool
}

// quarters of its interval that a run waits at each level of autonomy.
var quarters = map[int]time.Duration{1: 8, 2: 6, 3: 4, 4: 3, 5: 2}

// dreamt holds PERS-7 and PERS-9: checkpoints by the clock are taken by runs in Dream Mode alone, while they run, never
// closer together than their level of autonomy says, never where nothing happened, and each has a number of its own.
func (a *audit) dreamt(l *ledger, f events.Event, p events.Payload) string {
	d := &l.dream
	checkpoint := func() { d.number, d.last, d.moved = d.number+1, f.Time, false }
	switch e := p.(type) {
	case *events.RunCreatedData:
		d.mode, d.interval = e.Options.Mode, time.Duration(e.Options.CheckpointIntervalMS)*time.Millisecond
	case *events.RunStartedData:
		d.running, d.last, d.moved = true, f.Time, true
	case *events.RunPausedData:
		d.running, d.moved = false, true
	case *events.RunStoppingData:
		d.running, d.moved = false, true
	case *events.RunResumedData:
		d.running, d.moved = true, true
	case *events.StepFinishedData:
		if e.Checkpoint > 0 {
			checkpoint()
		}
	case *events.StepFailedData:
		if e.Checkpoint > 0 {
			checkpoint()
		}
	case *events.CheckpointSavedData:
	case *events.CheckpointTakenData:
		least := max(time.Second, d.interval/4*quarters[l.autonomy])
		switch {
		case d.mode != events.ModeDream || !d.running:
			return fmt.Sprintf("mode %q, running %v", d.mode, d.running)
		case f.Time.Sub(d.last) < least:
			return fmt.Sprintf("%s after the one before, want at least %s", f.Time.Sub(d.last), least)
		case !d.moved:
			return "nothing happened since the one before"
		case e.Number != d.number+1 || e.Name != events.IntervalCheckpoint(e.Number) || e.IntervalMS != least.Milliseconds():
			return fmt.Sprintf("it is number %d (%s, %d ms) where %d is next", e.Number, e.Name, e.IntervalMS, d.number+1)
		}
		a.w.tale.counts["checkpoints by the clock"]++
		checkpoint()
	default:
		d.moved = true
	}
	return ""
}

func TestDreams(t *testing.T) {
	t.Run("PERS-7 PERS-9 checkpoints by the clock hold their rules with crashes, lost timers and two planners", func(t *testing.T) {
		taken, plays := 0, 0
		for seed := uint64(1); plays < 24; seed++ {
			p := playOf(seed)
			for i := range p.Scene.Runs {
				r := &p.Scene.Runs[i]
				r.Dream = !r.Direct && !r.Kid
			}
			taken += must(t, p).Counts["checkpoints by the clock"]
			plays++
		}
		if taken < 12 {
			t.Errorf("only %d checkpoints in %d plays", taken, plays)
		}
		t.Logf("%d checkpoints in %d plays", taken, plays)
	})
	t.Run("PERS-7 SAFE-7 a crash or a duplicate at operations of a run that dreams", func(t *testing.T) {
		plays, taken := 0, 0
		someOf(t, smallDream("put", "note"), 23, func(out Outcome) {
			plays++
			taken += out.Counts["checkpoints by the clock"]
		})
		if taken < plays/2 {
			t.Errorf("only %d checkpoints in %d plays", taken, plays)
		}
		t.Logf("%d checkpoints in %d plays", taken, plays)
	})
}

// smallDream is the small world with checkpoints by the clock, in a run that has a slow call.
func smallDream(first, second string) Scene {
	s := small(first, second)
	s.Runs[0].Dream, s.Runs[0].Steps[0].Turns[0][0].Slow = true, true
	return s
}
