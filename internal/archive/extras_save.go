package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// beside saves what the station keeps of a run beside its log. It is done before the events are named by the manifest:
// what a call did to a workspace is in the record before the end of the call is in the log, so the saved workspace has
// at least what the saved log speaks of.
func (s *Saver) beside(ctx context.Context, m *Manifest, state run.State) error {
	if state.Created == nil {
		return nil
	}
	b := &Extras{Workspace: state.Created.Workspace, Scope: delivery.Scope(state.Created, state.HarnessID),
		EndedAt: state.EndedAt}
	if err := s.artifacts(ctx, b, m.Run, state); err != nil {
		return err
	}
	if err := s.branches(ctx, b); err != nil {
		return err
	}
	if err := s.tree(ctx, b); err != nil {
		return err
	}
	m.Extras = b
	return nil
}

// Workspace saves what the station keeps of the workspace of a run now. For a bundle it is called before the run is
// stopped: a workspace may go with its run.
func (s *Saver) Workspace(ctx context.Context, state run.State) error {
	if state.Created == nil {
		return nil
	}
	return s.tree(ctx, &Extras{Workspace: state.Created.Workspace})
}

// again looks at the workspace of a run that has no new events: at the end of a run or a step it may be kept after the
// event.
func (s *Saver) again(ctx context.Context, m Manifest) (Manifest, error) {
	if m.Extras == nil || s.Trees == nil {
		return m, nil
	}
	b := *m.Extras
	b.Snapshot, b.Files, b.Bytes, b.Branches = "", 0, 0, 0
	b.Left = slices.DeleteFunc(slices.Clone(b.Left), func(l Left) bool {
		return l.What == b.files() ||
			l.What == b.published()
	})
	if err := s.branches(ctx, &b); err != nil {
		return m, err
	}
	if err := s.tree(ctx, &b); err != nil {
		return m, err
	}
	was, err := json.Marshal(m.Extras)
	if err != nil {
		return m, err
	}
	is, err := json.Marshal(b)
	if err != nil || bytes.Equal(was, is) {
		return m, err
	}
	m.Extras = &b
	return s.Dir.writeManifest(ctx, m)
}

// files and published are what is left out, in words.
func (b *Extras) files() string     { return "files of workspace " + b.Workspace }
func (b *Extras) published() string { return "published branches of " + b.Scope }

func (b *Extras) leave(what, why string) { b.Left = append(b.Left, Left{What: what, Why: why}) }

// tree saves what is kept of a workspace: the parts of its packs, then the record that names them.
func (s *Saver) tree(ctx context.Context, b *Extras) error {
	name, err := treeName(s.Station, b.Workspace)
	if err != nil || s.Workspaces == nil {
		b.leave(b.files(), "the station stores no workspace files: they are only on the machine of the toolrunner")
		return nil //nolint:nilerr // no workspace has such a name, so none is kept
	}
	record, err := s.Workspaces.Record(ctx, b.Workspace)
	if errors.Is(err, kernel.ErrNotFound) {
		b.leave(b.files(), "they are only on the machine of the toolrunner; INSPAN_WORKSPACE_MODE=follow stores them")
		return nil
	}
	if err != nil {
		return fmt.Errorf("record of workspace %s: %w", b.Workspace, err)
	}
	rec, err := readTree(record, b.Workspace)
	if err != nil {
		b.leave(b.files(), err.Error())
		return s.stale(ctx, b)
	}
	switch {
	case rec.Snapshot == "" && rec.Owner == "":
		if s.Bundle { // it went with the run, which was stopped for the bundle
			return s.saved(ctx, b)
		}
		forgetTree(ctx, s.Dir, name)
		fallthrough
	case rec.Snapshot == "":
		b.leave(b.files(), "the station stores none of them")
		return nil
	case s.MostBytes <= 0 || rec.size() > s.MostBytes:
		b.leave(b.files(), fmt.Sprintf("they take %d bytes, the limit is %d (INSPAN_ARCHIVE_FILES_MAX_BYTES)", rec.size(),
			s.MostBytes))
		return s.stale(ctx, b)
	}
	old, err := s.Dir.Tree(ctx, s.Station, b.Workspace)
	if err != nil || old.Stale || !bytes.Equal(old.Record, compact(record)) {
		if why, err := s.parts(ctx, name, rec); err != nil {
			return fmt.Errorf("save workspace %s: %w", b.Workspace, err)
		} else if why != "" {
			b.leave(b.files(), why)
			return s.stale(ctx, b)
		}
		if err := s.Dir.writeTree(ctx, name, Tree{Record: record, version: old.version}); err != nil {
			return err
		}
		s.Dir.keepOnly(ctx, name, rec.parts())
	}
	b.Snapshot, b.Files, b.Bytes = rec.Snapshot, rec.Files, rec.Bytes
	return nil
}

// parts saves those parts of packs that are not there yet; why is not empty where the station does not have all.
func (s *Saver) parts(ctx context.Context, name string, rec treeRecord) (why string, err error) {
	var done int64
	for _, ref := range rec.parts() {
		done += ref.Size
		if s.Dir.holds(ctx, name, ref) {
			continue
		}
		data, err := s.Blobs.Get(ctx, ref)
		if err != nil && ctx.Err() == nil && !isTransient(err) {
			return "the station does not have all of it: " + err.Error(), nil
		}
		if err != nil {
			return "", err
		}
		if err := s.Dir.write(ctx, name+"/"+ref.SHA256, data); err != nil {
			return "", err
		}
		if s.Dir.progress != nil {
			s.Dir.progress("workspace "+rec.Workspace, done, rec.size())
		}
	}
	return "", nil
}

// stale marks what is saved of a workspace: the log that is saved goes on beyond it.
func (s *Saver) stale(ctx context.Context, b *Extras) error {
	t, err := s.Dir.Tree(ctx, s.Station, b.Workspace)
	if err != nil || t.Stale {
		return nil //nolint:nilerr // nothing that can be used is saved
	}
	name, err := treeName(s.Station, b.Workspace)
	if err != nil {
		return err
	}
	t.Stale = true
	return s.Dir.writeTree(ctx, name, t)
}

// saved tells what is saved of a workspace.
func (s *Saver) saved(ctx context.Context, b *Extras) error {
	t, err := s.Dir.Tree(ctx, s.Station, b.Workspace)
	if errors.Is(err, kernel.ErrNotFound) {
		b.leave(b.files(), "the station stores none of them")
		return nil
	}
	if err != nil {
		return err
	}
	rec, err := readTree(t.Record, b.Workspace)
	b.Snapshot, b.Files, b.Bytes = rec.Snapshot, rec.Files, rec.Bytes
	return err
}

// compact is JSON without room, as it is in a file that was written.
func compact(record []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, record) != nil {
		return record
	}
	return b.Bytes()
}

func (d *Dir) writeTree(ctx context.Context, name string, t Tree) error {
	b, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	_, err = d.replace(ctx, name+"/"+treeFile, append(b, '\n'), t.version)
	return err
}

// forgetTree removes what is saved of a workspace that the station has forgotten, the record first.
func forgetTree(ctx context.Context, d *Dir, name string) {
	_ = d.place.Remove(ctx, name+"/"+treeFile)
	d.keepOnly(ctx, name, nil)
}

// branches saves the records of published branches and their objects.
func (s *Saver) branches(ctx context.Context, b *Extras) error {
	if s.Trees == nil || !places.MatchString(b.Scope) {
		return nil
	}
	keys, err := s.Trees.Keys(ctx, events.BranchKeysOf(b.Scope))
	if err != nil {
		return fmt.Errorf("%s: %w", b.published(), err)
	}
	for _, key := range keys {
		record, err := s.Trees.Get(ctx, key)
		if errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.published(), err)
		}
		why, err := s.branch(ctx, b.Scope, key, record)
		if err != nil {
			return err
		}
		if why != "" {
			b.leave(b.published(), why)
			continue
		}
		b.Branches++
	}
	return nil
}

func (s *Saver) branch(ctx context.Context, scope, key string, record []byte) (why string, err error) {
	rec, err := readBranch(record, scope)
	if err != nil || events.BranchKey(scope, rec.Branch) != key {
		return "a record is unreadable", nil //nolint:nilerr // it is said so
	}
	if s.MostBytes <= 0 || rec.Bytes > s.MostBytes {
		return fmt.Sprintf("%.200q takes %d bytes, the limit is %d", rec.Branch, rec.Bytes, s.MostBytes), nil
	}
	for _, ref := range rec.Parts {
		if !validDigest(ref.SHA256) || s.Dir.has(ctx, ref) {
			continue
		}
		data, err := s.Blobs.Get(ctx, ref)
		if err != nil && ctx.Err() == nil && !isTransient(err) {
			return fmt.Sprintf("%.200q: %s", rec.Branch, err), nil
		}
		if err == nil {
			_, err = s.Dir.put(ctx, ref.Type, data)
		}
		if err != nil {
			return "", fmt.Errorf("save branch %.200q: %w", rec.Branch, err)
		}
	}
	name := branchName(s.Station, key)
	was, version, err := s.Dir.place.Read(ctx, name)
	if err == nil && bytes.Equal(bytes.TrimSpace(was), record) {
		return "", nil
	}
	_, err = s.Dir.replace(ctx, name, append(bytes.Clone(record), '\n'), version)
	return "", err
}

// artifacts saves the bytes of what a run made, as far as they are in the store of artifacts.
func (s *Saver) artifacts(ctx context.Context, b *Extras, runID string, state run.State) error {
	folder, err := artifactName(s.Station, runID)
	if err != nil || s.Artifacts == nil {
		return err
	}
	var sum int64
	seen := map[string]bool{}
	var wanted []events.Ref
	for _, a := range run.All(state.Artifacts) {
		if a.Kept != events.StoredInBucket || seen[a.SHA256] || !validDigest(a.SHA256) {
			continue
		}
		one := SavedArtifact{SHA256: a.SHA256, Size: a.Size, TTLMS: a.TTLMS}
		if seen[a.SHA256] = true; one.due(state.EndedAt, s.now()) {
			continue
		}
		if sum += a.Size; s.MostBytes <= 0 || sum > s.MostBytes {
			b.leave("artifact "+a.Key, fmt.Sprintf("with it those of the run take more than %d bytes (INSPAN_ARCHIVE_FILES_MAX_BYTES)", s.MostBytes))
			sum -= a.Size
			continue
		}
		if !s.Dir.holds(ctx, folder, a.Ref()) {
			data, err := s.Artifacts.Get(ctx, ownerOf(a, runID), a.Ref())
			if err != nil && ctx.Err() == nil && !isTransient(err) {
				b.leave("artifact "+a.Key, "the station does not have it")
				continue
			}
			if err == nil {
				err = s.Dir.write(ctx, folder+"/"+a.SHA256, data)
			}
			if err != nil {
				return fmt.Errorf("save artifact %s: %w", a.Key, err)
			}
		}
		b.Artifacts, wanted = append(b.Artifacts, one), append(wanted, a.Ref())
	}
	s.Dir.keepOnly(ctx, folder, wanted)
	return nil
}

// ownerOf is the run that an artifact is kept for: a fork has those of the run that it was forked from.
func ownerOf(a events.Artifact, runID string) string {
	if a.Run != "" && events.ValidID(a.Run) {
		return a.Run
	}
	return runID
}
