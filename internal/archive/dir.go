// Package archive keeps the logs of runs, their objects, what the station keeps of their files, and the station's
// agents outside of the station, and brings them back.
//
// Promises: what is saved is byte for byte what is in the log, by content, and can be checked without the station. A
// save that is interrupted leaves what was saved before; one made again adds only what is new; none ever puts a shorter
// or another log in the place of one that is there. What is restored has the same bytes, sequences and hashes, goes
// through the same guarded appends as any event, and is never written over events that differ. A run goes on only once
// it is there whole. What is saved of a workspace is never older than the log that is saved with it, unless it says so;
// what is not in an archive is named there.
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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Format of the folder.
const Format = 1

// Manifest says what is saved of a run. It is the last thing that a save writes.
type Manifest struct {
	Format  int    `json:"format"`
	Station string `json:"station"`
	Run     string `json:"run"`
	// Sequence and Head are of the last event saved, Seq is a hint of its position in the station's log.
	Sequence uint64        `json:"sequence"`
	Head     string        `json:"head"`
	Seq      uint64        `json:"seq,omitempty"`
	Status   events.Status `json:"status"`
	// Segments are JSON lines of events, in order.
	Segments []Segment `json:"segments"`
	// Missing are objects that the station itself did not have whole when the events that refer to them were saved.
	Missing []events.Ref `json:"missing,omitempty"`
	Anchor  *run.Anchor  `json:"anchor,omitempty"`
	SavedAt time.Time    `json:"saved_at"`
	// Extras says what was saved of the run beside its log; nil in archives of programs that did not.
	Extras *Extras `json:"beside,omitempty"`
	// Fork says that the run may go on where it came from; only in bundles.
	Fork bool `json:"fork,omitempty"`
	// version is that of the file it was read from.
	version Version
}

// Segment is a part of a log.
type Segment struct {
	From uint64     `json:"from"`
	To   uint64     `json:"to"`
	Ref  events.Ref `json:"ref"`
}

// Source is where runs can be restored from.
type Source interface {
	// Runs lists what is saved.
	Runs(ctx context.Context) ([]Manifest, error)
	// Object returns kernel.ErrNotFound where it is not saved, and never other bytes than those of the reference.
	Object(ctx context.Context, ref events.Ref) ([]byte, error)
	// Agents returns the saved definitions of a station's agents by name.
	Agents(ctx context.Context, station string) (map[string][]byte, error)
	// Tree returns what is saved of a workspace, kernel.ErrNotFound where nothing is, and TreePart an object of it.
	Tree(ctx context.Context, station, workspace string) (Tree, error)
	TreePart(ctx context.Context, station, workspace string, ref events.Ref) ([]byte, error)
	// Branches returns the records of the branches that were published in a scope, by key. Their objects are Objects.
	Branches(ctx context.Context, station, scope string) (map[string][]byte, error)
	// Artifact returns the bytes of what a run made, kernel.ErrNotFound where they are not saved.
	Artifact(ctx context.Context, station, run string, ref events.Ref) ([]byte, error)
}

// Dir is an archive at a place:
//
//	inspan-archive.json            what it is
//	runs/STATION/RUN.json          Manifest
//	objects/ab/abcd...             by SHA-256: segments, and what events refer to
//	agents/STATION/NAME.json
//	trees/STATION/NAME/tree.json   Tree, and with it the parts of its packs by SHA-256
//	branches/STATION/SCOPE.DIGEST.json
//	artifacts/STATION/RUN/...      by SHA-256
type Dir struct {
	place Place
	// progress, where it is not nil, is called with how many bytes of something large are saved.
	progress func(what string, done, total int64)
}

// OnProgress has report called with how many bytes of something large are saved. It is set before anything is.
func (d *Dir) OnProgress(report func(what string, done, total int64)) { d.progress = report }

var _ Source = (*Dir)(nil)

const marker = "inspan-archive.json"

// Open opens an archive in a folder to read it.
func Open(path string) (*Dir, error) { return OpenAt(context.Background(), folder{path: path}) }

// OpenAt opens an archive to read it.
func OpenAt(ctx context.Context, p Place) (*Dir, error) {
	b, _, err := p.Read(ctx, marker)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not an archive: %s is missing: %w", p, marker, ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("open archive %s: %w", p, err)
	}
	var is struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &is); err != nil || is.Format != Format {
		return nil, fmt.Errorf("archive %s has format %d, this program reads %d: use the program that wrote it", p,
			is.Format, Format)
	}
	return &Dir{place: p}, nil
}

// Create opens an archive in a folder to write it, and makes it where there is none. One process writes at a time.
// Close must be called.
func Create(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make archive: %w", err)
	}
	lock, err := disk.TakeLock(filepath.Join(path, ".lock"))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("archive %s: %w: another persister writes to it: give each persister its own folder (%w)",
			path, ErrLocked, err)
	}
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", path, err)
	}
	d := At(folder{path: path, lock: lock})
	if err := d.Prepare(context.Background()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// At is an archive at a place, to write it. Prepare must have succeeded before anything else is done with it.
func At(p Place) *Dir { return &Dir{place: p} }

// Prepare makes the archive where there is none, and checks what is there.
func (d *Dir) Prepare(ctx context.Context) error {
	_, err := d.place.Stat(ctx, marker)
	if errors.Is(err, fs.ErrNotExist) {
		err = mark(ctx, d.place)
	}
	if err != nil {
		return fmt.Errorf("archive %s: %w", d.place, err)
	}
	if _, err := OpenAt(ctx, d.place); err != nil {
		return err
	}
	return d.place.Probe(ctx)
}

// mark says what the place is. Another program may do so at the same time.
func mark(ctx context.Context, p Place) error {
	_, err := p.Write(ctx, marker, fmt.Appendf(nil, "{\"format\": %d}\n", Format), "")
	if errors.Is(err, ErrChanged) {
		return nil
	}
	return err
}

// Close lets another process write.
func (d *Dir) Close() error { return d.place.Close() }

// Shared says that other programs may write to the archive too, and that it is reached over a network.
func (d *Dir) Shared() bool { return d.place.Shared() }

// write puts a file in place at once, over whatever is there.
func (d *Dir) write(ctx context.Context, name string, b []byte) error {
	_, err := d.replace(ctx, name, b, Any)
	return err
}

// replace puts a file in place at once, over one version of it.
func (d *Dir) replace(ctx context.Context, name string, b []byte, over Version) (Version, error) {
	now, err := d.place.Write(ctx, name, b, over)
	if err != nil {
		return over, fmt.Errorf("archive %s: %w", name, err)
	}
	return now, nil
}

func objectFolder(digest string) string { return "objects/" + digest[:2] }
func objectName(digest string) string   { return objectFolder(digest) + "/" + digest }

func validDigest(digest string) bool {
	b, err := hex.DecodeString(digest)
	return err == nil && len(b) == sha256.Size && digest == strings.ToLower(digest)
}

// has reports whether an object is there; its content is looked at when it is read.
func (d *Dir) has(ctx context.Context, ref events.Ref) bool {
	return d.holds(ctx, objectFolder(ref.SHA256), ref)
}

func (d *Dir) put(ctx context.Context, kind string, b []byte) (events.Ref, error) {
	sum := sha256.Sum256(b)
	ref := events.Ref{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(b)), Type: kind}
	if d.has(ctx, ref) {
		return ref, nil
	}
	return ref, d.write(ctx, objectName(ref.SHA256), b)
}

// Object implements Source.
func (d *Dir) Object(ctx context.Context, ref events.Ref) ([]byte, error) {
	if !validDigest(ref.SHA256) {
		return nil, fmt.Errorf("archive object %.80q: not a digest", ref.SHA256)
	}
	return d.byContent(ctx, objectFolder(ref.SHA256), ref)
}

// Errors of an archive.
var (
	// ErrNone means that there is no archive. It is kernel.ErrNotFound.
	ErrNone = kernel.ErrNotFound
	// ErrDamaged means that a file of the archive is not what it was when it was saved.
	ErrDamaged = errors.New("the archive is damaged: restore from another copy of it")
	// ErrShorter means that the log of the station is not the one that is saved, or ends before it. It is not saved.
	ErrShorter = errors.New("the archive has events that the log does not have")
	// ErrLocked means that another process writes to the archive.
	ErrLocked = errors.New("in use")
)

func manifestName(station, runID string) string { return "runs/" + station + "/" + runID + ".json" }

// Manifest returns what is saved of a run; ok is false where nothing is.
func (d *Dir) Manifest(ctx context.Context, station, runID string) (m Manifest, ok bool, err error) {
	if err := errors.Join(events.CheckID("station", station), events.CheckID("run", runID)); err != nil {
		return m, false, err
	}
	b, version, err := d.place.Read(ctx, manifestName(station, runID))
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("archive of run %s: %w", runID, err)
	}
	if err := json.Unmarshal(b, &m); err != nil || m.Run != runID || m.Station != station || m.Format != Format {
		return Manifest{}, false, fmt.Errorf("archive of run %s: %w", runID, ErrDamaged)
	}
	m.version = version
	return m, true, nil
}

// writeManifest returns what is there then.
func (d *Dir) writeManifest(ctx context.Context, m Manifest) (Manifest, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return m, fmt.Errorf("archive of run %s: %w", m.Run, err)
	}
	m.version, err = d.replace(ctx, manifestName(m.Station, m.Run), append(b, '\n'), m.version)
	return m, err
}

// Runs implements Source, in the order of stations and ids.
func (d *Dir) Runs(ctx context.Context) ([]Manifest, error) {
	found, err := names(ctx, d.place, "runs/", ".json")
	if err != nil {
		return nil, err
	}
	slices.Sort(found)
	var all []Manifest
	for _, name := range found {
		station, id, ok := strings.Cut(name, "/")
		if !ok || strings.Contains(id, "/") {
			continue
		}
		m, ok, err := d.Manifest(ctx, station, id)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, m)
		}
	}
	return all, nil
}

func agentName(station, name string) string { return "agents/" + station + "/" + name + ".json" }

// Agents implements Source.
func (d *Dir) Agents(ctx context.Context, station string) (map[string][]byte, error) {
	if err := events.CheckID("station", station); err != nil {
		return nil, err
	}
	found, err := names(ctx, d.place, "agents/"+station+"/", ".json")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, name := range found {
		if strings.Contains(name, "/") {
			continue
		}
		b, _, err := d.place.Read(ctx, agentName(station, name))
		if err != nil {
			return nil, fmt.Errorf("agent of the archive: %w", err)
		}
		all[name] = bytes.TrimSpace(b)
	}
	return all, nil
}

// Events reads the whole saved log of a run from its segments.
func Events(ctx context.Context, src Source, m Manifest) ([][]byte, error) {
	var evs [][]byte
	for _, seg := range m.Segments {
		b, err := src.Object(ctx, seg.Ref)
		if err != nil {
			return nil, fmt.Errorf("events %d to %d of run %s: %w", seg.From, seg.To, m.Run, err)
		}
		lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
		if uint64(len(evs))+1 != seg.From || uint64(len(evs)+len(lines)) != seg.To {
			return nil, fmt.Errorf("events %d to %d of run %s: %w", seg.From, seg.To, m.Run, ErrDamaged)
		}
		evs = append(evs, lines...)
	}
	return evs, nil
}

// drop removes an object that nothing names any more. One that stays is only room.
func (d *Dir) drop(ctx context.Context, ref events.Ref) {
	_ = d.place.Remove(ctx, objectName(ref.SHA256))
}
