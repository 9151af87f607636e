package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// maxSegments is how many parts a log may have before they are made one.
const maxSegments = 16

// Saver saves the runs of one station.
type Saver struct {
	Dir     *Dir
	Station string
	Journal kernel.Journal
	Blobs   kernel.Blobs
	// State has the rows of the index with their anchors, Config the agents.
	State, Config kernel.KV
	// Workspaces has the workspaces, Trees the published branches, Artifacts what runs made; nil saves none of them.
	Workspaces Workspaces
	Trees      kernel.KV
	Artifacts  kernel.Artifacts
	// MostBytes is how large the packs of a workspace, a published branch, or all artifacts of one run may be to be
	// saved.
	MostBytes int64
	// Bundle says that the folder is to be a bundle: what is saved of a workspace stays where the station forgets it.
	Bundle bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

func (s *Saver) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// Save adds what a run has beyond what is saved of it. It is not called for one run by two at a time.
func (s *Saver) Save(ctx context.Context, runID string) (Manifest, error) {
	m, _, err := s.Dir.Manifest(ctx, s.Station, runID)
	if err != nil {
		return m, err
	}
	m, fresh, err := s.news(ctx, runID, m)
	if err != nil {
		return m, err
	}
	if len(fresh) == 0 {
		return s.again(ctx, m)
	}
	if m.Sequence == 0 && fresh[0].Kind == events.RunPruned { // there is nothing to save of it here
		return m, nil
	}
	state, err := s.state(ctx, m, fresh)
	if err != nil {
		return m, err
	}
	for _, b := range fresh {
		if err := s.objects(ctx, &m, b.Bytes); err != nil {
			return m, err
		}
	}
	if err := s.beside(ctx, &m, state); err != nil {
		return m, err
	}
	return s.seal(ctx, m, fresh, state)
}

// news returns the events behind those that are saved. Positions may be others than they were; then the whole log is
// read, and must begin with what is saved.
func (s *Saver) news(ctx context.Context, runID string, m Manifest) (Manifest, []kernel.Record, error) {
	fresh, err := readAll(ctx, s.Journal, runID, m.Seq)
	if err != nil {
		return m, nil, err
	}
	if m.Sequence == 0 || len(fresh) > 0 && fresh[0].Kind != events.RunPruned && follows(m, fresh[0].Bytes) {
		m.Format, m.Station, m.Run = Format, s.Station, runID
		return m, fresh, nil
	}
	all, err := readAll(ctx, s.Journal, runID, 0)
	if err != nil {
		return m, nil, err
	}
	if len(all) == 1 && all[0].Kind == events.RunPruned && follows(m, all[0].Bytes) {
		return m, nil, nil // the events that it stands for are saved
	}
	if uint64(len(all)) < m.Sequence || run.HashOf(all[m.Sequence-1].Bytes) != m.Head {
		return m, nil, fmt.Errorf("save run %s: %w: %d events are saved up to %.12s, the log has %d", runID, ErrShorter,
			m.Sequence, m.Head, len(all))
	}
	return m, all[m.Sequence:], nil
}

func follows(m Manifest, stored []byte) bool {
	f, err := events.Decode(stored)
	return err == nil && f.Sequence == m.Sequence+1 && f.PrevHash == m.Head
}

func readAll(ctx context.Context, j kernel.Journal, runID string, after uint64) ([]kernel.Record, error) {
	var all []kernel.Record
	for {
		evs, more, err := j.Read(ctx, runID, after)
		if err != nil {
			return nil, fmt.Errorf("read run %s: %w", runID, err)
		}
		all = append(all, evs...)
		if !more {
			return all, nil
		}
		after = all[len(all)-1].Seq
	}
}

// state folds the run; a log that does not fold is not saved over one that does.
func (s *Saver) state(ctx context.Context, m Manifest, fresh []kernel.Record) (run.State, error) {
	saved, err := Events(ctx, s.Dir, m)
	if err != nil {
		return run.State{}, err
	}
	state, err := run.Fold(run.State{}, saved...)
	if err != nil {
		return state, fmt.Errorf("save run %s: %w: %w", m.Run, ErrDamaged, err)
	}
	for _, r := range fresh {
		if state, err = runlog.Apply(m.Run, state, r); err != nil {
			return state, fmt.Errorf("save run %s: %w", m.Run, err)
		}
	}
	return state, nil
}

// objects saves what an event refers to, and what that refers to. What the station does not have whole is noted: there
// is nothing to wait for.
func (s *Saver) objects(ctx context.Context, m *Manifest, stored []byte) error {
	_, p, err := events.Read(stored)
	if err != nil {
		return err
	}
	type found struct {
		ref  events.Ref
		data []byte
	}
	var all []found
	for queue := events.Refs(p); len(queue) > 0; queue = queue[1:] {
		ref := queue[0]
		if !validDigest(ref.SHA256) || s.Dir.has(ctx, ref) {
			continue
		}
		b, err := s.Blobs.Get(ctx, ref)
		if err != nil && ctx.Err() == nil && !isTransient(err) {
			m.Missing = append(m.Missing, ref)
			continue
		}
		if err != nil {
			return fmt.Errorf("save object of run %s: %w", m.Run, err)
		}
		all = append(all, found{ref, b})
		queue = append(queue, events.Inside(ref, b)...)
	}
	for _, f := range slices.Backward(all) { // what an object refers to first: one that is there has all of it
		if _, err := s.Dir.put(ctx, f.ref.Type, f.data); err != nil {
			return err
		}
	}
	return nil
}

// isTransient tells a station that does not answer from one that does not have the object.
func isTransient(err error) bool {
	return !errors.Is(err, kernel.ErrNotFound) && !errors.Is(err, kernel.ErrDamagedObject)
}

// seal writes the segment, then the manifest that names it, then lets go of what no manifest names any more.
func (s *Saver) seal(ctx context.Context, m Manifest, fresh []kernel.Record, state run.State) (Manifest, error) {
	from, lines := m.Sequence+1, [][]byte{}
	old := m.Segments
	join := len(old) >= maxSegments
	if join {
		saved, err := Events(ctx, s.Dir, m)
		if err != nil {
			return m, err
		}
		from, lines, m.Segments = 1, saved, nil
	}
	for _, r := range fresh {
		lines = append(lines, r.Bytes)
	}
	ref, err := s.Dir.put(ctx, "facts", append(joined(lines), '\n'))
	if err != nil {
		return m, err
	}
	m.Segments = append(m.Segments[:len(m.Segments):len(m.Segments)], Segment{From: from, To: state.Sequence, Ref: ref})
	m.Sequence, m.Head, m.Seq, m.Status, m.SavedAt = state.Sequence, state.Hash, fresh[len(fresh)-1].Seq, state.Status,
		time.Now().UTC()
	if err := s.anchor(ctx, &m); err != nil {
		return m, err
	}
	m, err = s.Dir.writeManifest(ctx, m)
	if err != nil {
		return m, err
	}
	if join {
		for _, seg := range old {
			s.Dir.drop(ctx, seg.Ref)
		}
	}
	return m, nil
}

// anchor takes the signed head of the row, where it is not beyond what is saved.
func (s *Saver) anchor(ctx context.Context, m *Manifest) error {
	b, err := s.State.Get(ctx, "run."+m.Run)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("anchor of run %s: %w", m.Run, err)
	}
	var info run.Info
	if json.Unmarshal(b, &info) == nil && info.Anchor != nil && info.Anchor.Sequence <= m.Sequence {
		m.Anchor = info.Anchor
	}
	return nil
}

// Agents saves the definitions of the agents of the station, all where none is named.
func (s *Saver) Agents(ctx context.Context, only ...string) error {
	const prefix = "agent."
	names, err := s.Config.Keys(ctx, prefix)
	if err != nil {
		return fmt.Errorf("list agents: %w", err)
	}
	saved, err := s.Dir.Agents(ctx, s.Station)
	if err != nil {
		return err
	}
	for _, key := range names {
		name := strings.TrimPrefix(key, prefix)
		b, err := s.Config.Get(ctx, key)
		if errors.Is(err, kernel.ErrNotFound) || err == nil && (!events.ValidID(name) || bytes.Equal(saved[name], b)) ||
			len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		if err != nil {
			return fmt.Errorf("agent %s: %w", name, err)
		}
		if err := s.Dir.write(ctx, agentName(s.Station, name), b); err != nil {
			return err
		}
	}
	return nil
}

func joined(evs [][]byte) []byte { return bytes.Join(evs, []byte("\n")) }
