package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

// Extras is what was saved of a run beside its log.
type Extras struct {
	// Workspace of the run, and what is saved of it; Snapshot is empty where nothing is. Bytes are those of its files.
	Workspace string `json:"workspace"`
	Snapshot  string `json:"snapshot,omitempty"`
	Files     int    `json:"files,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`
	// Scope is where the run publishes branches.
	Scope     string          `json:"scope"`
	Branches  int             `json:"branches,omitempty"`
	Artifacts []SavedArtifact `json:"artifacts,omitempty"`
	EndedAt   *time.Time      `json:"ended_at,omitempty"`
	// Left is what is not in the archive.
	Left []Left `json:"left,omitempty"`
}

// Left is something that is not in an archive, and why.
type Left struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// SavedArtifact are the bytes of something that a run made.
type SavedArtifact struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	// TTLMS counts from the end of the run, in milliseconds; 0 means that it does not expire.
	TTLMS int64 `json:"ttl_ms,omitempty"`
}

// due reports whether the time of an artifact is over.
func (a SavedArtifact) due(ended *time.Time, now time.Time) bool {
	return ended != nil && a.TTLMS > 0 && !now.Before(ended.Add(time.Duration(a.TTLMS)*time.Millisecond))
}

// Workspaces are the workspaces of a station.
type Workspaces interface {
	// Record returns what is known of one, as JSON, or kernel.ErrNotFound.
	Record(ctx context.Context, workspace string) ([]byte, error)
	// Restore lets one begin with a record that was saved elsewhere; kernel.ErrExists for one that the station knows.
	Restore(ctx context.Context, workspace string, record []byte) error
}

// Tree is what is saved of a workspace.
type Tree struct {
	// Record is that of the station, as it was.
	Record json.RawMessage `json:"record"`
	// Stale is true where the log went on and what the workspace was then could not be saved.
	Stale bool `json:"stale,omitempty"`
	// version is that of the file it was read from.
	version Version
}

// treeRecord are the parts of a record of a workspace that an archive must understand. The others are kept as they are.
type treeRecord struct {
	Workspace string    `json:"workspace"`
	Owner     string    `json:"owner"`
	Fence     uint64    `json:"fence"`
	Snapshot  string    `json:"snapshot"`
	Lost      bool      `json:"lost"`
	Files     int       `json:"files"`
	Bytes     int64     `json:"bytes"`
	At        time.Time `json:"at"`
	Packs     []struct {
		Parts []events.Ref `json:"parts"`
	} `json:"packs"`
}

func readTree(record []byte, workspace string) (treeRecord, error) {
	var r treeRecord
	if err := json.Unmarshal(record, &r); err != nil || r.Workspace != workspace {
		return r, fmt.Errorf("record of workspace %s: %w", workspace, errors.Join(ErrDamaged, err))
	}
	for _, ref := range r.parts() {
		if !validDigest(ref.SHA256) || ref.Size < 0 {
			return r, fmt.Errorf("record of workspace %s: it names %.80q: %w", workspace, ref.SHA256, ErrDamaged)
		}
	}
	return r, nil
}

func (r treeRecord) parts() (all []events.Ref) {
	for _, p := range r.Packs {
		all = append(all, p.Parts...)
	}
	return all
}

// size in bytes of all parts.
func (r treeRecord) size() (n int64) {
	for _, ref := range r.parts() {
		n += ref.Size
	}
	return n
}

// places are the names that workspaces and scopes may have.
var places = pattern.New(`^[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){0,3}$`)

func token(workspace string) (string, error) {
	if !places.MatchString(workspace) {
		return "", fmt.Errorf("workspace %.200q: want ids with slashes between them", workspace)
	}
	return strings.ReplaceAll(workspace, "/", "="), nil
}

const treeFile = "tree.json"

// treeName is the folder of a workspace.
func treeName(station, workspace string) (string, error) {
	name, err := token(workspace)
	return "trees/" + station + "/" + name, errors.Join(err, events.CheckID("station", station))
}

// Tree implements Source.
func (d *Dir) Tree(ctx context.Context, station, workspace string) (Tree, error) {
	var t Tree
	name, err := treeName(station, workspace)
	if err != nil {
		return t, err
	}
	b, version, err := d.place.Read(ctx, name+"/"+treeFile)
	t.version = version
	if errors.Is(err, fs.ErrNotExist) {
		return t, fmt.Errorf("workspace %s in the archive: %w", workspace, kernel.ErrNotFound)
	}
	if err != nil {
		return t, fmt.Errorf("workspace %s in the archive: %w", workspace, err)
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return t, fmt.Errorf("workspace %s: %w", workspace, ErrDamaged)
	}
	_, err = readTree(t.Record, workspace)
	return t, err
}

// TreePart implements Source.
func (d *Dir) TreePart(ctx context.Context, station, workspace string, ref events.Ref) ([]byte, error) {
	name, err := treeName(station, workspace)
	if err != nil {
		return nil, err
	}
	return d.byContent(ctx, name, ref)
}

// Artifact implements Source.
func (d *Dir) Artifact(ctx context.Context, station, runID string, ref events.Ref) ([]byte, error) {
	name, err := artifactName(station, runID)
	if err != nil {
		return nil, err
	}
	return d.byContent(ctx, name, ref)
}

func artifactName(station, runID string) (string, error) {
	return "artifacts/" + station + "/" + runID, errors.Join(events.CheckID("station", station),
		events.CheckID("run", runID))
}

// byContent reads a file of a folder whose files are named by their digests.
func (d *Dir) byContent(ctx context.Context, folder string, ref events.Ref) ([]byte, error) {
	if !validDigest(ref.SHA256) {
		return nil, fmt.Errorf("archive %s: %.80q is not a digest", folder, ref.SHA256)
	}
	name := folder + "/" + ref.SHA256
	s, err := d.place.Stat(ctx, name)
	if err == nil && s.Size != ref.Size {
		return nil, fmt.Errorf("archive %s: %w", name, ErrDamaged)
	}
	var b []byte
	if err == nil {
		b, _, err = d.place.Read(ctx, name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("archive %s: %w", name, kernel.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", name, err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != ref.SHA256 {
		return nil, fmt.Errorf("archive %s: %w", name, ErrDamaged)
	}
	return b, nil
}

// holds reports whether a folder has a file of a digest; its content is looked at when it is read.
func (d *Dir) holds(ctx context.Context, folder string, ref events.Ref) bool {
	s, err := d.place.Stat(ctx, folder+"/"+ref.SHA256)
	return err == nil && s.Size == ref.Size
}

// settled is how old a file is that no program that saves something now can be about to name.
const settled = time.Hour

// keepOnly removes the files of a folder that are named by digests which are not wanted. What stays is only room.
func (d *Dir) keepOnly(ctx context.Context, folder string, wanted []events.Ref) {
	keep := map[string]bool{}
	for _, ref := range wanted {
		keep[ref.SHA256] = true
	}
	var unwanted []string
	_ = d.place.List(ctx, folder+"/", func(name string, s Stat) error {
		if base := path.Base(name); validDigest(base) && !keep[base] && (!d.Shared() || s.Age >= settled) {
			unwanted = append(unwanted, name)
		}
		return nil
	})
	for _, name := range unwanted {
		_ = d.place.Remove(ctx, name)
	}
}

// branchFile matches the names of records of branches, without .json: the key without its beginning.
var branchFile = pattern.New(`^[A-Za-z0-9_=-]{1,260}\.[0-9a-f]{32}$`)

func branchName(station, key string) string {
	return "branches/" + station + "/" + strings.TrimPrefix(key, events.BranchKeys) + ".json"
}

// Branches implements Source.
func (d *Dir) Branches(ctx context.Context, station, scope string) (map[string][]byte, error) {
	if _, err := token(scope); err != nil || events.CheckID("station", station) != nil {
		return nil, errors.Join(err, events.CheckID("station", station))
	}
	of := strings.TrimPrefix(events.BranchKeysOf(scope), events.BranchKeys)
	found, err := names(ctx, d.place, "branches/"+station+"/", ".json")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, name := range found {
		if !strings.HasPrefix(name, of) || !branchFile.MatchString(name) {
			continue
		}
		b, _, err := d.place.Read(ctx, branchName(station, name))
		if err != nil {
			return nil, fmt.Errorf("branch of the archive: %w", err)
		}
		b = bytes.TrimSpace(b)
		if rec, err := readBranch(b, scope); err != nil || events.BranchKey(scope, rec.Branch) != events.BranchKeys+name {
			return nil, fmt.Errorf("branch %s of the archive: %w", name, ErrDamaged)
		}
		all[events.BranchKeys+name] = b
	}
	return all, nil
}

func readBranch(b []byte, scope string) (events.PublishedBranch, error) {
	var rec events.PublishedBranch
	if err := json.Unmarshal(b, &rec); err != nil || rec.Scope != scope {
		return rec, fmt.Errorf("published branch of %s: %w", scope, errors.Join(ErrDamaged, err))
	}
	return rec, nil
}

// Expire removes the artifacts of a station whose time was over at a moment, and returns how many they were. An
// artifact lives in the archive as long as it does in the station.
func (d *Dir) Expire(ctx context.Context, station string, now time.Time) (removed int, err error) {
	found, err := names(ctx, d.place, "artifacts/"+station+"/", "")
	if err != nil {
		return 0, err
	}
	there := map[string][]string{}
	for _, name := range found {
		if runID, digest, ok := strings.Cut(name, "/"); ok {
			there[runID] = append(there[runID], digest)
		}
	}
	var errs []error
	for runID, digests := range there {
		if ctx.Err() != nil {
			return removed, context.Cause(ctx)
		}
		m, ok, err := d.Manifest(ctx, station, runID)
		if err != nil || !ok || m.Extras == nil {
			errs = append(errs, err)
			continue
		}
		for _, a := range m.Extras.Artifacts {
			if !slices.Contains(digests, a.SHA256) || !a.due(m.Extras.EndedAt, now) {
				continue
			}
			if err := d.place.Remove(ctx, "artifacts/"+station+"/"+runID+"/"+a.SHA256); err != nil {
				errs = append(errs, fmt.Errorf("artifact of run %s: %w", m.Run, err))
				continue
			}
			removed++
		}
	}
	return removed, errors.Join(errs...)
}
