package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/pkg/run"
)

// Keeper saves the runs of a station while they go on. Touch and Save may be called before Run and after it.
type Keeper struct {
	saver *Saver
	every time.Duration
	log   zerolog.Logger
	mu    sync.Mutex
	// dirty runs have events that are not saved, since when; guarded by mu.
	dirty map[string]time.Time
	// again are runs whose workspace is looked at once more, because it may be kept after their last event; guarded by
	// mu.
	again map[string]struct{}
	// expire is when artifacts are looked for next whose time is over. Only Run has it.
	expire time.Time
	// saving is held while runs are saved, by whoever saves some.
	saving sync.Mutex
	// wake has a message when a run is to be saved now and not with the next tick.
	wake chan struct{}
}

// NewKeeper makes a keeper that saves running runs that often.
func NewKeeper(s *Saver, every time.Duration, log zerolog.Logger) (*Keeper, error) {
	if s == nil || s.Dir == nil || s.Journal == nil || s.Blobs == nil || s.State == nil || s.Config == nil || every <= 0 {
		return nil, errors.New("an archive needs a folder, a journal, blobs, the two key-value stores and an interval above 0")
	}
	return &Keeper{saver: s, every: every, log: log, dirty: map[string]time.Time{}, again: map[string]struct{}{},
		wake: make(chan struct{}, 1)}, nil
}

// Touch says that a run has new events.
func (k *Keeper) Touch(runID string) {
	k.touch(runID, time.Now())
}

func (k *Keeper) touch(runID string, since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if was, ok := k.dirty[runID]; !ok || since.Before(was) {
		k.dirty[runID] = since
	}
}

// Waits is for how long the run has waited that waits longest to be saved; 0 where none does.
func (k *Keeper) Waits() (longest time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, since := range k.dirty {
		longest = max(longest, time.Since(since))
	}
	return longest
}

// Save saves a run now. Over a network it only sees to it that Run does: an archive that does not answer holds up
// nothing else. A run whose log is not the one that is saved stays as it is saved, and is reported to a person: it is
// no reason to receive the event again.
func (k *Keeper) Save(ctx context.Context, runID string) error {
	if k.saver.Dir.Shared() {
		k.Touch(runID)
		select {
		case k.wake <- struct{}{}:
		default: // it is to be woken already
		}
		return nil
	}
	k.saving.Lock()
	defer k.saving.Unlock()
	return k.save(ctx, runID)
}

// save saves a run. saving is held.
func (k *Keeper) save(ctx context.Context, runID string) error {
	k.mu.Lock()
	since, waited := k.dirty[runID]
	if !waited {
		since = time.Now()
	}
	delete(k.dirty, runID)
	if k.saver.Trees != nil {
		k.again[runID] = struct{}{}
	}
	k.mu.Unlock()
	m, err := k.saver.Save(ctx, runID)
	if _, bad := errors.AsType[*run.FoldError](err); bad || errors.Is(err, ErrShorter) || errors.Is(err, ErrDamaged) {
		k.log.Error().Err(err).Str("run", runID).Msg("run not archived: check it with inspan audit")
		return nil
	}
	if err != nil {
		k.touch(runID, since)
		return fmt.Errorf("archive: %w", err)
	}
	if len(m.Missing) > 0 {
		k.log.Warn().Str("run", runID).Int("objects", len(m.Missing)).Msg("archived, but objects are missing at the station")
	}
	return nil
}

// abreast is how many runs are saved at a time over a network. On a disk, which they share, it is one.
const abreast = 16

// saveAll saves runs; those that were not are touched.
func (k *Keeper) saveAll(ctx context.Context, runs []string) {
	k.saving.Lock()
	defer k.saving.Unlock()
	workers := 1
	if k.saver.Dir.Shared() {
		workers = abreast
	}
	next := make(chan string)
	var wg sync.WaitGroup
	for range min(workers, len(runs)) {
		wg.Go(func() {
			for id := range next {
				err := k.save(ctx, id)
				if errors.Is(err, ErrChanged) { // another persister saved it: what is left to do is in the next round
					k.log.Debug().Err(err).Str("run", id).Msg("archived by another program meanwhile, will look again")
				} else if err != nil {
					k.log.Warn().Err(err).Str("run", id).Msg("not archived, will try again")
				}
			}
		})
	}
	for _, id := range runs {
		next <- id
	}
	close(next)
	wg.Wait()
}

// Run saves what was missed while no one kept the archive, then what is touched, until ctx ends; then once more all
// that is touched.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(k.every)
	defer tick.Stop()
	if !k.reach(ctx, tick.C) {
		return
	}
	k.catchUp(ctx)
	for {
		select {
		case <-tick.C:
			k.flush(ctx)
		case <-k.wake:
			k.flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
			defer cancel()
			k.flush(last)
			return
		}
	}
}

// reach waits until an archive that is reached over a network can be written; false means that ctx has ended. What
// comes meanwhile is touched.
func (k *Keeper) reach(ctx context.Context, tick <-chan time.Time) bool {
	for tries := 1; k.saver.Dir.Shared(); tries++ {
		err := k.saver.Dir.Prepare(ctx)
		if err == nil && tries > 1 {
			k.log.Info().Int("tries", tries).Msg("the archive can be written now: what was missed is archived")
		}
		if err == nil {
			return true
		}
		k.log.Error().Err(err).Msg("the archive cannot be written, will try again: nothing is archived until then")
		select {
		case <-tick:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// lastSave bounds the save at the end.
const lastSave = 20 * time.Second

// flush saves all touched runs, and the agents where any was.
func (k *Keeper) flush(ctx context.Context) {
	k.mu.Lock()
	some := slices.Sorted(maps.Keys(k.dirty))
	again := slices.Sorted(maps.Keys(k.again))
	clear(k.again)
	k.mu.Unlock()
	for _, id := range again {
		if !slices.Contains(some, id) {
			k.lookAgain(ctx, id)
		}
	}
	k.tidy(ctx)
	k.saveAll(ctx, some)
	if len(some) > 0 {
		k.agents(ctx)
	}
}

func (k *Keeper) agents(ctx context.Context) {
	k.saving.Lock()
	defer k.saving.Unlock()
	if err := k.saver.Agents(ctx); err != nil {
		k.log.Warn().Err(err).Msg("agents not archived, will try again")
	}
}

// catchUp touches the runs of the index that have more events than are saved.
func (k *Keeper) catchUp(ctx context.Context) {
	const prefix = "run."
	err := k.saver.State.Each(ctx, prefix, func(key string, row []byte) error {
		id := strings.TrimPrefix(key, prefix)
		var info run.Info
		m, _, err := k.saver.Dir.Manifest(ctx, k.saver.Station, id)
		if err != nil || json.Unmarshal(row, &info) != nil || info.Sequence > m.Sequence {
			k.Touch(id)
		}
		return nil
	})
	if err != nil {
		k.log.Warn().Err(err).Msg("index not read: runs without new events are archived with their next event")
	}
	k.agents(ctx)
	k.flush(ctx)
}

// lookAgain saves what became of the workspace of a run after its last event.
func (k *Keeper) lookAgain(ctx context.Context, runID string) {
	k.saving.Lock()
	defer k.saving.Unlock()
	if _, err := k.saver.Save(ctx, runID); err != nil && ctx.Err() == nil {
		k.log.Warn().Err(err).Str("run", runID).Msg("workspace not archived, will try again with the next event of the run")
	}
}

// expireEvery is how often artifacts are looked for whose time is over.
const expireEvery = time.Hour

// tidy removes artifacts whose time is over.
func (k *Keeper) tidy(ctx context.Context) {
	now := k.saver.now()
	if now.Before(k.expire) {
		return
	}
	k.expire = now.Add(expireEvery)
	k.saving.Lock()
	defer k.saving.Unlock()
	if _, err := k.saver.Dir.Expire(ctx, k.saver.Station, now); err != nil && ctx.Err() == nil {
		k.log.Warn().Err(err).Msg("expired artifacts are still in the archive, will try again")
	}
}
