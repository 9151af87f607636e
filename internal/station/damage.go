package station

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// ErrNoLoss means that a loss was to be accepted that the store does not have.
var ErrNoLoss = program.ErrNoLoss

// streamsFolder is where the server keeps its files, below the store.
const streamsFolder = "nats"

// HasStreams reports whether the folder of a station has streams. It changes nothing.
func HasStreams(store string) bool { return !empty(filepath.Join(store, streamsFolder)) }

// fallbackFile is what stands in for the log.
const fallbackFile = "fallback.bolt"

// unchecked are the files of a store that only their digest speaks for.
var unchecked = []string{fallbackFile, KeyFile}

// DefaultMarkEvery is how often a station compares its streams with its marks, and writes new ones.
const DefaultMarkEvery = 5 * time.Second

// store is what a station knows of the files below it.
type store struct {
	cfg Config
	// server is nil until the files were examined.
	server *natsserver.Server
	// fail reports what ends the station.
	fail func(error)
	dir  string
	// lazy stores are synced before a mark is written, which must never be ahead of what is on disk.
	lazy bool
	// views is the stream of the index and the snapshots.
	views string
	// old are the marks that were found at the start, back the consumers that must be put back before anybody works.
	old  *storecheck.Marks
	back map[string]map[string]uint64

	// spare are the files beside the streams that held nothing when the station ended.
	spare []string
	// spareEarlier is whether the local store of an earlier version held nothing when its station ended.
	spareEarlier bool

	mu sync.Mutex
	// marks as last written, nil before the first; guarded by mu, as are the losses and the notes.
	marks  *storecheck.Marks
	losses storecheck.Losses
	notes  []storecheck.Finding
}

// newStore is a store that was not examined yet.
func newStore(cfg Config, fail func(error)) *store {
	return &store{cfg: cfg, fail: fail, dir: cfg.StoreDir, lazy: cfg.LazySync,
		views: topology.KVStream(cfg.buckets().Of(topology.StateBucket))}
}

// Damage is what the store has lost and no one has accepted yet; the zero Report is none. While there is some, the
// station takes no work: what is left can be read, audited, exported and restored.
func (s *Station) Damage() storecheck.Report {
	if s.store == nil {
		return storecheck.Report{}
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.losses.Open
}

// Repairs are faults of the store that were found at this start and cost nothing.
func (s *Station) Repairs() []storecheck.Finding {
	if s.store == nil {
		return nil
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return slices.Clone(s.store.notes)
}

// examine checks the files of the store before a server opens them.
func (st *store) examine() error {
	var err error
	if st.losses, err = storecheck.LoadLosses(st.dir); err != nil {
		st.losses.Open.Add(storecheck.Finding{Outcome: storecheck.Lost, File: storecheck.LossesFile,
			What: "the record of what was lost and accepted is damaged"})
	}
	st.sweep()
	if empty(filepath.Join(st.dir, streamsFolder)) && st.cfg.Still {
		// The streams were taken away, to be filled from an archive: nothing is left to compare.
		if st.losses.Open.Damaged() {
			st.losses.Accept(person(), time.Now(), true)
			err = st.losses.Save(st.dir)
		}
		return errors.Join(err, storecheck.Forget(st.dir))
	}
	marks, damaged, err := storecheck.Load(st.dir)
	switch {
	case errors.Is(err, storecheck.ErrMarks):
		st.note(storecheck.Finding{Outcome: storecheck.Rebuilt,
			What: "both copies of the marks are damaged: there is nothing to compare the streams with, the marks begin anew"})
	case err != nil:
		return err
	case marks == nil && !empty(filepath.Join(st.dir, streamsFolder)):
		st.cfg.Log.Info().Str("store",
			st.dir).Msg("the store has no marks yet, so nothing can be compared with them; they are kept from now on")
	}
	for _, name := range damaged {
		if marks != nil {
			st.note(storecheck.Finding{Outcome: storecheck.Repaired, File: name,
				What: "a copy of the marks was damaged, the other one is whole"})
		}
	}
	found, err := storecheck.Run(storecheck.Config{Store: st.dir, Streams: streamsFolder, Extra: unchecked,
		Views: st.views, Marks: marks, Known: st.losses.Known(), Now: time.Now()})
	if err != nil {
		return fmt.Errorf("check the store: %w", err)
	}
	for _, f := range found.Findings {
		st.take(f)
	}
	st.old, st.back = marks, found.Back
	if marks == nil {
		return st.record()
	}
	st.spareEarlier = marks.Clean && slices.Contains(marks.Spare, localstore.EarlierPath(fallbackFile))
	// From here on the files are written to: what is known of them holds only until then.
	now := *marks
	now.Clean, now.At, now.Files = false, time.Now(), found.Read
	st.marks = &now
	if st.cfg.Still {
		st.spare = marks.Spare // nothing opens them
	}
	return errors.Join(now.Save(st.dir), st.record())
}

// sweep removes what a crash left of files that were being replaced.
func (st *store) sweep() {
	left, _ := filepath.Glob(filepath.Join(st.dir, ".part-*")) // the pattern is constant
	for _, path := range left {
		_ = os.Remove(path) // the next start tries again
	}
}

func empty(dir string) bool {
	all, err := os.ReadDir(filepath.Join(dir, "jetstream"))
	return err != nil || len(all) == 0
}

// take sorts a finding: what is lost stands until a person accepts it.
func (st *store) take(f storecheck.Finding) {
	if f.Outcome == storecheck.Lost {
		st.losses.Open.Add(f)
		return
	}
	st.note(f)
}

func (st *store) note(f storecheck.Finding) { st.notes = append(st.notes, f) }

// record writes what is lost, before a server can make it look sound.
func (st *store) record() error {
	if !st.losses.Open.Damaged() {
		return nil
	}
	if st.losses.Found.IsZero() {
		st.losses.Found = time.Now().UTC()
	}
	return st.losses.Save(st.dir)
}

// compare compares the streams as the server has opened them with the marks, and settles whether the station may work.
func (st *store) compare(ctx context.Context, conn *jet.Conn) error {
	now, err := st.server.Marks()
	if err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.losses.Open.Damaged() { // else the files speak for themselves, and the marks are those of before the loss
		st.lacking(now)
		if st.doubtful(topology.Log(st.cfg.Station)) {
			found, err := st.heads(ctx, conn)
			if err != nil {
				st.cfg.Log.Warn().Err(err).Msg("the log was not compared with the index")
			}
			for _, f := range found {
				st.take(f)
			}
		}
	}
	if err := st.record(); err != nil {
		return err
	}
	if err := st.accept(now); err != nil {
		return err
	}
	for _, f := range st.notes {
		st.cfg.Log.Warn().Str("store", st.dir).Str("finding",
			f.String()).Msg("the store had a fault that costs nothing; the file as it was is in its folder damaged")
	}
	if lost := st.losses.Open; lost.Damaged() {
		st.cfg.Log.Error().Str("store", st.dir).Str("loss", lost.ID()).Int("findings", len(lost.Lost())).
			Msg("the store is damaged: the station takes no work, see docs/runbook.md")
	}
	return st.publish(ctx, conn, now)
}

// lacking takes what streams lack that they had. Where there are no marks, a log must have no empty position that was
// not accepted.
func (st *store) lacking(now map[string]storecheck.Stream) {
	for key, is := range now {
		var was storecheck.Stream
		if st.old != nil {
			was = st.old.Streams[key]
		}
		found := was.Lacks(storecheck.NameOf(key), st.views, is)
		for _, f := range found {
			st.take(f)
		}
		if len(found) > 0 && st.marks != nil && !st.losses.Open.Damaged() {
			st.marks.Streams[key] = is // it is made again, and begins with what is left
		}
	}
}

// accept takes note of what a person accepted. The marks of what is left come first: after a crash in between, the loss
// is still open.
func (st *store) accept(now map[string]storecheck.Stream) error {
	id := st.cfg.AcceptLoss
	switch {
	case id == "":
		return nil
	case id != st.losses.Open.ID():
		return fmt.Errorf("loss %q: %w: %s", id, ErrNoLoss, cmp.Or(st.losses.Open.Error(), "nothing is lost"))
	}
	if err := st.write(st.cfg.Station, now, false); err != nil {
		return err
	}
	st.losses.Accept(person(), time.Now(), false)
	st.cfg.Log.Warn().Str("loss",
		id).Msg("what is lost was accepted and is recorded in losses.json; the station works again")
	return st.losses.Save(st.dir)
}

// person is who runs this program.
func person() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// logKey is the key of the station's log among the marks.
func (st *store) logKey() string {
	return storecheck.Key(topology.StreamsAccount(st.cfg.Station), topology.Log(st.cfg.Station))
}

// behind are the consumers that must be put back: those whose state nothing proves, and the persister's where its views
// are gone.
func (st *store) behind() map[string]map[string]uint64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	log := st.logKey()
	if slices.ContainsFunc(st.notes, func(f storecheck.Finding) bool { return f.Views(st.views) }) {
		if st.back[log] == nil {
			st.back[log] = map[string]uint64{}
		}
		st.back[log][string(events.Persister)] = 0
	}
	return st.back
}

// publish tells the users of the station what is lost, in its configuration. mu of the store is held.
func (st *store) publish(ctx context.Context, conn *jet.Conn, now map[string]storecheck.Stream) error {
	place, err := conn.Station(st.cfg.Station)
	if err != nil {
		return err
	}
	open := st.losses.Open
	status := storecheck.Status{ID: open.ID()}
	for _, f := range open.Lost() {
		status.Lost = append(status.Lost, f.String())
		status.Runs = append(status.Runs, f.Runs...)
	}
	for _, f := range st.notes {
		status.Notes = append(status.Notes, f.String())
	}
	if !open.Damaged() {
		status.Deleted = now[st.logKey()].Deleted
	}
	b, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encode the state of the store: %w", err)
	}
	err = place.KV(topology.ConfigBucket).Put(ctx, topology.DamageKey, b)
	if err != nil && open.Damaged() {
		st.cfg.Log.Warn().Err(err).Msg("what is lost could not be recorded in the station's configuration")
		return nil // the bucket may be what is damaged
	}
	return err
}

// watch keeps the marks, and compares the streams with them, until ctx ends.
func (st *store) watch(ctx context.Context) {
	every := st.cfg.MarkEvery
	if every <= 0 {
		every = DefaultMarkEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := st.mark(); err != nil {
			st.cfg.Log.Warn().Err(err).Msg("marks of the store not written, will try again")
		}
	}
}

// mark writes how far the streams have come, unless they lack something that they had: then that is reported, and the
// marks stay.
func (st *store) mark() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	now, err := st.server.Marks()
	if errors.Is(err, natsserver.ErrDown) || st.losses.Open.Damaged() {
		return nil
	}
	if err != nil {
		return err
	}
	if st.marks != nil {
		for key, was := range st.marks.Streams {
			is, there := now[key]
			if !there {
				continue // the server is being started again
			}
			for _, f := range was.Lacks(storecheck.NameOf(key), st.views, is) {
				st.take(f)
			}
		}
	}
	if st.losses.Open.Damaged() {
		st.fail(fmt.Errorf("the streams lack what they had while the station ran; start it again to see what is left: %w",
			st.losses.Open))
		return st.record()
	}
	return st.write(st.cfg.Station, now, false)
}

// write writes marks where anything has changed. mu is held.
func (st *store) write(station string, streams map[string]storecheck.Stream, clean bool) error {
	next := storecheck.Marks{Station: station, At: time.Now(), Clean: clean, Streams: streams,
		Files: map[string]storecheck.File{}}
	if clean {
		next.Spare = st.spare
	}
	before := map[string]storecheck.File{}
	if st.marks != nil {
		before = st.marks.Files
		for key, was := range st.marks.Streams {
			if _, there := streams[key]; !there {
				streams[key] = was // of another station in this store, whose streams are not open now
			}
		}
	}
	all, err := st.files()
	if err != nil {
		return err
	}
	for _, rel := range all {
		f, err := st.digest(rel, before[rel])
		if errors.Is(err, fs.ErrNotExist) {
			continue // the server removed it meanwhile
		}
		if err != nil {
			return err
		}
		next.Files[rel] = f
	}
	if st.marks != nil && next.Same(*st.marks) {
		return nil
	}
	if err := next.Save(st.dir); err != nil {
		return err
	}
	st.marks = &next
	return nil
}

// files are those that have a digest in the marks.
func (st *store) files() (all []string, err error) {
	for _, pattern := range []string{"*/streams/*/msgs/*", "*/streams/*/meta.*", "*/streams/*/obs/*/*"} {
		found, err := filepath.Glob(filepath.Join(st.dir, streamsFolder, "jetstream", pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			rel, err := filepath.Rel(st.dir, path)
			if err != nil {
				return nil, err
			}
			if !strings.HasSuffix(rel, ".tmp") {
				all = append(all, rel)
			}
		}
	}
	return append(all, unchecked...), nil
}

// digest reads a file, unless neither its size nor its time has changed since it was read before.
func (st *store) digest(rel string, before storecheck.File) (storecheck.File, error) {
	path := filepath.Join(st.dir, rel)
	info, err := os.Stat(path)
	if err != nil {
		return before, err
	}
	if before.Size == info.Size() && before.Changed == info.ModTime().UnixNano() {
		return before, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return before, err
	}
	defer f.Close()
	is, err := storecheck.FileFrom(f)
	if err == nil && st.lazy {
		err = f.Sync()
	}
	if err != nil {
		return before, err
	}
	is.Changed = info.ModTime().UnixNano()
	return is, nil
}

// spared notes whether the local store holds anything that would be missed.
func (st *store) spared(ctx context.Context, local *localstore.Station) error {
	empty, err := local.Empty(context.WithoutCancel(ctx))
	if empty {
		st.spare = []string{fallbackFile}
	}
	return err
}

// leave writes the last marks once the server has let go of its files; last is how far its streams had come before
// that.
func (st *store) leave(last map[string]storecheck.Stream) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.losses.Open.Damaged() {
		return nil
	}
	return st.write(st.cfg.Station, last, true)
}

// down ends the server, and marks its files as those of a station that ended by itself.
func (s *Station) down() error {
	var last map[string]storecheck.Stream
	var err error
	if s.compared {
		last, err = s.server.Marks()
	}
	s.server.Shutdown()
	if errors.Is(err, natsserver.ErrDown) || last == nil && err == nil {
		return nil
	}
	if err == nil {
		err = s.store.leave(last)
	}
	if err != nil {
		return fmt.Errorf("last marks of the store: %w", err)
	}
	return nil
}
