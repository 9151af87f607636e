package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// What became of the files of a workspace.
const (
	// FilesBrought: the station has them now, and a toolrunner whose workspaces follow their runs restores them.
	FilesBrought = "brought"
	// FilesThere: the station had a record of the workspace, which stands.
	FilesThere = "there"
	// FilesLeft: they are not in what the run was brought from.
	FilesLeft = "left"
)

// sessionKeys is what the keys of sessions begin with.
const sessionKeys = "session."

// beside brings what is saved of a run beside its log. It is done before the first event is there: a run goes on once
// its events are.
func (p *Restorer) beside(ctx context.Context, src Source, m Manifest, state run.State, how How, b *Brought) error {
	if state.Created == nil {
		return nil
	}
	b.Workspace = state.Created.Workspace
	if m.Extras != nil {
		b.Left = m.Extras.Left
	}
	if p.trees == nil {
		return nil
	}
	if err := p.artifacts(ctx, src, m, state, b); err != nil {
		return err
	}
	if err := p.branches(ctx, src, m.Station, delivery.Scope(state.Created, state.HarnessID), b); err != nil {
		return err
	}
	return p.tree(ctx, src, m.Station, state.Created.Workspace, how, b)
}

// tree brings what is saved of a workspace. A record that is there stands: somebody works there, or will. Objects that
// it names and that were lost are brought all the same.
func (p *Restorer) tree(ctx context.Context, src Source, station, workspace string, how How, b *Brought) error {
	b.Files = FilesLeft
	if !places.MatchString(workspace) {
		return nil
	}
	if id, of := strings.CutPrefix(workspace, "session/"); of && station != p.station {
		_, err := p.sessions.Get(ctx, sessionKeys+id)
		if err == nil {
			b.Left = append(b.Left, Left{What: "files of workspace " + workspace,
				Why: "the station already has a session with that name"})
			return nil
		}
		if !errors.Is(err, kernel.ErrNotFound) {
			return fmt.Errorf("session %s: %w", id, err)
		}
	}
	now, err := p.workspaces.Record(ctx, workspace)
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		return fmt.Errorf("record of workspace %s: %w", workspace, err)
	}
	if err == nil {
		b.Files = FilesThere
		rec, err := readTree(now, workspace)
		if err != nil {
			return err
		}
		return p.treeParts(ctx, src, station, rec, how, true)
	}
	t, err := src.Tree(ctx, station, workspace)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	rec, err := readTree(t.Record, workspace)
	if err != nil {
		return err
	}
	if err := p.treeParts(ctx, src, station, rec, how, false); err != nil {
		return err
	}
	record, err := handedOver(t, rec)
	if err != nil {
		return err
	}
	err = p.workspaces.Restore(ctx, workspace, record)
	if errors.Is(err, kernel.ErrExists) {
		b.Files = FilesThere
		return nil
	}
	if err != nil {
		return fmt.Errorf("record of workspace %s: %w", workspace, err)
	}
	b.Files, b.FilesCount, b.FilesBytes, b.Stale = FilesBrought, rec.Files, rec.Bytes, t.Stale
	return nil
}

// handedOver is the record of a workspace that no one holds any more. Its fence is above the one that was saved, so
// that whoever held it finds that it was lost.
func handedOver(t Tree, rec treeRecord) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(t.Record, &all); err != nil {
		return nil, fmt.Errorf("record of workspace %s: %w", rec.Workspace, errors.Join(ErrDamaged, err))
	}
	delete(all, "owner")
	delete(all, "log") // of the station that it was saved in
	all["fence"] = json.RawMessage(fmt.Sprint(rec.Fence + 1))
	if rec.Owner != "" || t.Stale {
		all["lost"] = json.RawMessage("true")
	}
	return json.Marshal(all)
}

// treeParts puts the objects of a record's packs; few says that those that are not saved are passed by.
func (p *Restorer) treeParts(ctx context.Context, src Source, station string, rec treeRecord, how How, few bool) error {
	var done int64
	for _, ref := range rec.parts() {
		data, err := src.TreePart(ctx, station, rec.Workspace, ref)
		if few && errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("workspace %s: %w", rec.Workspace, err)
		}
		if _, err := p.blobs.Put(ctx, "tree", data); err != nil {
			return fmt.Errorf("put workspace %s: %w", rec.Workspace, err)
		}
		if done += ref.Size; how.Progress != nil {
			how.Progress("workspace "+rec.Workspace, done, rec.size())
		}
	}
	return nil
}

// branches brings published branches that the station does not have.
func (p *Restorer) branches(ctx context.Context, src Source, station, scope string, b *Brought) error {
	if !places.MatchString(scope) {
		return nil
	}
	all, err := src.Branches(ctx, station, scope)
	if err != nil {
		return err
	}
	for key, record := range all {
		rec, err := readBranch(record, scope)
		if err != nil {
			return err
		}
		for _, ref := range rec.Parts {
			data, err := src.Object(ctx, ref)
			if err == nil {
				_, err = p.blobs.Put(ctx, ref.Type, data)
			}
			if err != nil {
				return fmt.Errorf("branch %.200q: %w", rec.Branch, err)
			}
		}
		err = p.trees.Create(ctx, key, record)
		if err != nil && !errors.Is(err, kernel.ErrExists) {
			return fmt.Errorf("branch %.200q: %w", rec.Branch, err)
		}
		b.Branches++
	}
	return nil
}

// artifacts brings the bytes of what a run made.
func (p *Restorer) artifacts(ctx context.Context, src Source, m Manifest, state run.State, b *Brought) error {
	seen := map[string]bool{}
	for _, a := range run.All(state.Artifacts) {
		one := SavedArtifact{SHA256: a.SHA256, Size: a.Size, TTLMS: a.TTLMS}
		if a.Kept != events.StoredInBucket || seen[a.SHA256] || one.due(state.EndedAt, p.now()) {
			continue
		}
		seen[a.SHA256] = true
		data, err := src.Artifact(ctx, m.Station, m.Run, a.Ref())
		if errors.Is(err, kernel.ErrNotFound) {
			b.MissingArtifacts++
			continue
		}
		if err == nil {
			_, err = p.made.Put(ctx, ownerOf(a, m.Run), data, time.Duration(a.TTLMS)*time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("artifact %s of run %s: %w", a.Key, m.Run, err)
		}
		b.Artifacts++
	}
	return nil
}
