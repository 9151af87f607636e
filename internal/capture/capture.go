package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// patience bounds one look with all that is stored.
const patience = time.Minute

// Config of a Keeper.
type Config struct {
	// Store takes the bytes; nil keeps them in the workspace alone.
	Store kernel.Artifacts
	// Mode is where the bytes go where an agent does not say: events.StoredInBucket or StoredInWorkspace. Empty means
	// the first.
	Mode string
	// Off takes nothing by itself where an agent does not say.
	Off bool
	// TTL after the end of the run; 0 means artifact.DefaultTTL. TTLs are those of the runs of projects, whatever an
	// agent says.
	TTL  time.Duration
	TTLs map[string]time.Duration
	// MaxFile bounds each file in bytes, whatever an agent says; 0 means artifact.MaxTransfer, and no more than that is
	// possible.
	MaxFile int64
	// Lists is the absolute path of a folder, outside of all workspaces, for the lists of what runs began with.
	Lists string
	// Mask takes secrets out of a text; a file in which it finds one is left out. Nil finds none.
	Mask func(string) string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Keeper captures what calls make. It is safe for concurrent use.
type Keeper struct {
	cfg Config
	mu  sync.Mutex
	// desks by run, guarded by mu.
	desks map[string]*desk
	// bringing holds a token while files are brought from the store: two at once would be in each other's way.
	bringing chan struct{}
}

// New checks the configuration and takes lists of long ago away.
func New(cfg Config) (*Keeper, error) {
	if !filepath.IsAbs(cfg.Lists) {
		return nil, fmt.Errorf("folder of lists %q is not an absolute path", cfg.Lists)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.TTL <= 0 {
		cfg.TTL = artifact.DefaultTTL
	}
	if cfg.Mode == "" {
		cfg.Mode = events.StoredInBucket
	}
	if err := CheckMode(cfg.Mode); err != nil {
		return nil, err
	}
	k := &Keeper{cfg: cfg, desks: map[string]*desk{}, bringing: make(chan struct{}, 1)}
	k.tidy(cfg.Now())
	return k, nil
}

// CheckMode says what is wrong with a storage mode.
func CheckMode(mode string) error {
	switch mode {
	case events.StoredInBucket, events.StoredInWorkspace:
		return nil
	case "cloudship":
		return errors.New("storage mode cloudship is not supported: it would upload to a CloudShip platform, and no setting has the address, key and upload API: use nats, from which others fetch artifacts by key, or local")
	}
	return fmt.Errorf("unknown storage mode %q: use nats or local", mode)
}

// Job is what a call may have touched.
type Job struct {
	// Dir is the absolute path of the workspace.
	Dir  string
	Step string
	// Rules of the agent; nil means those of the station.
	Rules *events.ArtifactRules
	// All says that a command ran, which may have touched any file; else Paths are those that were written.
	All   bool
	Paths []string
	// Unseen passes files by that the run has an artifact of already, but for Paths: something goes on writing, and
	// each look would store all of a growing log again.
	Unseen bool
}

// Off reports whether nothing is taken by itself.
func (k *Keeper) Off(r *events.ArtifactRules) bool {
	if r != nil && (r.Off || r.On) {
		return r.Off
	}
	return k.cfg.Off
}

// Look is what one look found. Commit, once what was found is said.
type Look struct {
	artifact.Found
	commit func()
}

// Then adds what Commit does after all else.
func (l *Look) Then(do func()) {
	before := Look{commit: l.commit}
	l.commit = func() { before.Commit(); do() }
}

// Commit remembers the files that were dealt with, so that the next look passes them by.
func (l *Look) Commit() {
	if l.commit != nil {
		l.commit()
	}
}

// limits are those of an agent on this station.
func (k *Keeper) limits(r *events.ArtifactRules) artifact.Limits {
	return artifact.LimitsOf(r).Within(k.cfg.MaxFile)
}

// Look finds what a call made or changed and stores it. What could not be taken is in Left; the call itself goes on in
// any case. more are artifacts that the call has stored by name.
func (k *Keeper) Look(ctx context.Context, s run.State, job Job, more ...events.Artifact) *Look {
	l := &Look{Found: artifact.Found{Limits: k.limits(job.Rules), Artifacts: more}}
	if k.Off(job.Rules) || !job.All && len(job.Paths) == 0 {
		return l
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h := &harvest{Keeper: k, s: s, job: job, look: l, done: sheet{}, tally: artifact.NewTally(s, l.Limits)}
	if err := h.run(ctx); err != nil {
		l.Left = append(l.Left, events.LeftOut{Path: ".", Code: events.LeftUnreadable, Reason: "the workspace is unreadable"})
	}
	l.commit = func() { k.remember(s.HarnessID, h.done) }
	return l
}

// remember adds files to a run's desk.
func (k *Keeper) remember(runID string, done sheet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.desks[runID]
	if d == nil || len(done) == 0 {
		return
	}
	next := *d
	next.files = maps.Clone(d.files)
	maps.Copy(next.files, done)
	k.desks[runID] = &next
}

// harvest is one look under way.
type harvest struct {
	*Keeper
	s     run.State
	job   Job
	look  *Look
	tally *artifact.Tally
	// done are the files that need not be looked at again until they change.
	done sheet
	// away is why nothing more is stored.
	away *unfit
}

func (h *harvest) run(ctx context.Context) error {
	root, err := os.OpenRoot(h.job.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	names, marks, err := h.names(ctx, root)
	if err != nil {
		return err
	}
	ignored, err := readIgnore(root)
	if err != nil {
		h.look.Left = append(h.look.Left, events.LeftOut{Path: IgnoreFile, Code: events.LeftUnreadable,
			Reason: "no file is captured, because this file cannot be tracked: " + faultOf(err)})
		return nil
	}
	w, own := wants(h.job.Rules, ignored), h.own()
	for _, name := range names {
		if !w.file(name) || h.job.Unseen && !slices.Contains(own, name) && h.tally.Has(artifact.KeyOf(artifact.OwnerOf(h.s),
			name)) {
			continue
		}
		h.one(ctx, root, name, marks[name])
	}
	return nil
}

// names lists the files to take, and how they were seen.
func (h *harvest) names(ctx context.Context, root *os.Root) ([]string, sheet, error) {
	if !h.job.All {
		return h.own(), nil, nil
	}
	d, err := h.begun(h.s.HarnessID)
	if err != nil {
		return nil, nil, err
	}
	if d == nil {
		return nil, nil, nil // nothing is known of what was there before: everything would look new
	}
	now, more, err := look(ctx, root)
	if more {
		h.look.Left = append(h.look.Left, events.LeftOut{Path: ".", Code: events.LeftTooMany,
			Reason: fmt.Sprintf("the workspace has more than %d files, the limit of a scan", maxFiles)})
	}
	return changed(d.files, now), now, err
}

// own are the files that the call itself wrote.
func (h *harvest) own() []string {
	var names []string
	for _, p := range h.job.Paths {
		if name, ok := Inside(h.job.Dir, p); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Inside is a path as a tool names it, relative to the workspace and with slashes; ok is false for one outside of it.
func Inside(dir, name string) (string, bool) {
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return "", false
		}
		name = rel
	}
	name = path.Clean(filepath.ToSlash(name))
	return name, name != "." && filepath.IsLocal(name)
}

// one takes one file, or says why not.
func (h *harvest) one(ctx context.Context, root *os.Root, name string, seen mark) {
	a, state, err := h.take(ctx, root, name, false)
	var u *unfit
	switch {
	case err == nil:
		h.done[name] = state
		if !h.tally.Known(a.Key, a.SHA256) {
			h.tally.Add(a)
			h.look.Artifacts = append(h.look.Artifacts, a)
		}
	case errors.As(err, &u):
		switch u.code {
		case events.LeftTooLarge, events.LeftBadName, events.LeftSecret, events.LeftRunFull, events.LeftTooMany:
			if seen != (mark{}) {
				h.done[name] = seen
			}
		}
		h.look.Left = append(h.look.Left, events.LeftOut{Path: artifact.Shown(name), Size: max(u.size, seen.Size),
			Code: u.code, Reason: u.reason})
	}
}

// take reads a file and stores its bytes. Its error is an *unfit.
func (h *harvest) take(ctx context.Context, root *os.Root, name string, saved bool) (events.Artifact, mark, error) {
	data, state, err := read(root, name, func(size int64) (string, string) { return h.tally.Refuse(name, size, saved) })
	if err != nil {
		return events.Artifact{}, state, err
	}
	a := h.record(name, digest(data), data)
	if h.tally.Known(a.Key, a.SHA256) {
		return a, state, nil
	}
	if code, reason := h.tally.Full(a.SHA256, a.Size); code != "" {
		return a, state, &unfit{code: code, reason: reason, size: a.Size}
	}
	if h.cfg.Mask != nil && h.cfg.Mask(string(data)) != string(data) {
		return a, state, &unfit{code: events.LeftSecret, reason: "it contains a secret of the station", size: a.Size}
	}
	if h.away != nil {
		return a, state, &unfit{code: h.away.code, reason: h.away.reason, size: a.Size}
	}
	if a.Kept == events.StoredInBucket {
		if _, err := h.cfg.Store.Put(ctx, h.s.HarnessID, data, time.Duration(a.TTLMS)*time.Millisecond); err != nil {
			h.away = storeFault(err)
			return a, state, &unfit{code: h.away.code, reason: h.away.reason, size: a.Size, err: err}
		}
	}
	return a, state, nil
}

func digest(data []byte) string { return events.HashOf(data) }

// faultOf is what may be told of an error of a file.
func faultOf(err error) string {
	if u, ok := errors.AsType[*unfit](err); ok {
		return u.reason
	}
	return "it cannot be read"
}

// storeFault puts the refusal of a store into words. What it says itself may name subjects and is not for the model.
func storeFault(err error) *unfit {
	switch {
	case errors.Is(err, kernel.ErrFull):
		return &unfit{code: events.LeftStoreFull, reason: "the artifact store is full"}
	case errors.Is(err, kernel.ErrTooLarge):
		return &unfit{code: events.LeftTooLarge, reason: "it exceeds the size limit of the store"}
	}
	return &unfit{code: events.LeftStoreAway, reason: "the artifact store is unavailable or refused it"}
}

// record describes a file.
func (h *harvest) record(name, sum string, data []byte) events.Artifact {
	a := events.Artifact{Type: artifact.TypeOf(name), Name: path.Base(name), Path: name, Size: int64(len(data)),
		SHA256:      sum,
		ContentType: artifact.ContentType(name), CreatedAt: h.cfg.Now().UTC(), Key: artifact.KeyOf(artifact.OwnerOf(h.s),
			name), Kept: h.mode(h.job.Rules),
		Session: h.s.Identity.Session, Run: h.s.HarnessID, Step: h.job.Step}
	if a.ContentType == "" {
		a.ContentType = http.DetectContentType(data[:min(len(data), 512)])
	}
	if a.Kept == events.StoredInBucket {
		a.TTLMS = h.ttl(h.s, h.job.Rules).Milliseconds()
	}
	return a
}

func (k *Keeper) mode(r *events.ArtifactRules) string {
	if k.cfg.Store == nil || r != nil && r.Mode == events.StoredInWorkspace {
		return events.StoredInWorkspace
	}
	if r != nil && r.Mode != "" {
		return r.Mode
	}
	return k.cfg.Mode
}

func (k *Keeper) ttl(s run.State, r *events.ArtifactRules) time.Duration {
	if s.Created != nil {
		if ttl := k.cfg.TTLs[s.Created.Project]; ttl > 0 {
			return ttl
		}
	}
	if r != nil && r.TTLMS > 0 {
		return time.Duration(r.TTLMS) * time.Millisecond
	}
	return k.cfg.TTL
}

// Save stores one file that the agent asked for, whatever its patterns say. Its error says what to do.
func (k *Keeper) Save(ctx context.Context, s run.State, job Job, file, kind, name string) (events.Artifact, error) {
	inside, ok := Inside(job.Dir, file)
	if !ok {
		return events.Artifact{}, fmt.Errorf("%q is not a path inside the workspace", artifact.Shown(file))
	}
	root, err := os.OpenRoot(job.Dir)
	if err != nil {
		return events.Artifact{}, fmt.Errorf("open the workspace: %w", err)
	}
	defer root.Close()
	h := &harvest{Keeper: k, s: s, job: job, tally: artifact.NewTally(s, k.limits(job.Rules))}
	a, _, err := h.take(ctx, root, inside, true)
	if err != nil {
		return events.Artifact{}, err
	}
	a.Saved = true
	if kind != "" {
		a.Type = kind
	}
	if name != "" {
		a.Name = name
	}
	return a, nil
}

// Refused reports whether Save refused a file for what it is, so that trying again does not help.
func Refused(err error) bool {
	var u *unfit
	return errors.As(err, &u) && u.code != events.LeftStoreAway && u.code != events.LeftChanging
}

// wanted is what an agent's patterns and the workspace's ignore file say.
type wanted struct {
	include, exclude patterns
	ignored          ignore
}

func wants(r *events.ArtifactRules, ignored ignore) wanted {
	include, exclude := artifact.DefaultInclude(), artifact.DefaultExclude()
	if r != nil && r.Include != nil {
		include = r.Include
	}
	if r != nil && r.Exclude != nil {
		exclude = r.Exclude
	}
	return wanted{newPatterns(include), newPatterns(exclude), ignored}
}

// file reports whether a file is to be taken.
func (w wanted) file(name string) bool {
	if name == IgnoreFile || Own(name) || !w.include.match(name) || w.exclude.match(name) || w.ignored.excludes(name,
		false) {
		return false
	}
	for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
		if alwaysSkipped(folder) || w.exclude.folder(folder) || w.ignored.excludes(folder, true) {
			return false
		}
	}
	return true
}

// readIgnore reads the ignore file of a workspace. One that is there and cannot be followed is an error: what it was to
// keep out is not known.
func readIgnore(root *os.Root) (ignore, error) {
	if _, err := root.Lstat(IgnoreFile); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f, info, err := open(root, IgnoreFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxIgnore {
		return nil, &unfit{code: events.LeftTooLarge,
			reason: fmt.Sprintf("it has %d bytes, the limit is %d", info.Size(), maxIgnore)}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxIgnore))
	return parseIgnore(strings.ToValidUTF8(string(b), "\uFFFD")), err
}
