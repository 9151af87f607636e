package toolrunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Files of a session, in its directory. They are for people: nothing but the age of the directory is read from them, and
// whoever works there may change them.
const (
	metaFile    = ".session.meta"
	lockFile    = ".session.lock"
	historyDir  = ".harness"
	historyFile = ".harness/history.json"
	runsDir     = ".harness/runs"
)

const (
	// maxDressed is how many runs are remembered whose files were written.
	maxDressed = 4096
	// sweepAgain and sweepTries bound how long the files of a session wait that is not deleted yet as far as is known here.
	sweepAgain = 500 * time.Millisecond
	sweepTries = 10
)

// wardrobe remembers for which runs the files of their session were written.
type wardrobe struct {
	// dressing holds a token while somebody is at work, who may have to wait for a store: others can give up.
	dressing chan struct{}
	// dressed by run, with the run's workspace, and the runs in their order; guarded by dressing.
	dressed map[string]string
	order   []string
}

func newWardrobe() wardrobe { return wardrobe{dressing: make(chan struct{}, 1)} }

// alone waits until nobody else is at work on the files of sessions, or until ctx ends.
func (w *wardrobe) alone(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case w.dressing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *wardrobe) release() { <-w.dressing }

// meta is what the file of a session says. Born tells one session from another that had its name.
type meta struct {
	Note      string             `json:"note"`
	Session   string             `json:"session_id"`
	Born      uint64             `json:"born"`
	Mode      events.SessionMode `json:"mode"`
	Branch    string             `json:"branch,omitempty"`
	Runs      int                `json:"total_runs"`
	CreatedAt time.Time          `json:"created_at"`
	UsedAt    time.Time          `json:"last_used_at"`
}

// lock is what the lock file says.
type lock struct {
	Note  string    `json:"note"`
	Run   string    `json:"run"`
	PID   int       `json:"pid"`
	Fence uint64    `json:"fence"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"expires_at,omitzero"`
}

const note = "for people: inspan session info tells what is true"

// dress writes the readable files of a session before the first call of a run in it (SESS-18), and takes away what a
// deleted session of the same name left. A session that can not be read now is no reason to hold up the run.
func (r *Role) dress(ctx context.Context, s run.State, p place) error {
	c := s.Created
	if r.cfg.Sessions == nil || c == nil || c.SessionFence == 0 || c.Workspace != "session/"+c.Session {
		return nil
	}
	if err := r.alone(ctx); err != nil {
		return err
	}
	defer r.release()
	if _, done := r.dressed[s.HarnessID]; done {
		return nil
	}
	var e events.Session
	b, err := r.cfg.Sessions.Get(ctx, "session."+c.Session)
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil || e.Fence < c.SessionFence {
		return ctx.Err() // away or behind: the next call tries again
	}
	clear := func() error { return r.clear(ctx, p, events.DeletedScope(e)) }
	if err := dressFiles(ctx, r.cfg.Blobs, r.cfg.Sandboxes.Root(), s, e, p.Dir, clear); err != nil {
		return fmt.Errorf("files of session %s: %w", c.Session, err)
	}
	if r.dressed == nil {
		r.dressed = map[string]string{}
	}
	if len(r.order) >= maxDressed {
		delete(r.dressed, r.order[0])
		r.order = slices.Delete(r.order, 0, 1)
	}
	r.dressed[s.HarnessID], r.order = p.Path, append(r.order, s.HarnessID)
	return nil
}

// Undress takes the lock file of a run away that may have ended.
func (r *Role) Undress(runID string) {
	r.mayEnd(runID)
	r.jobs.MayHaveEnded(runID)
	if r.alone(context.Background()) != nil {
		return // it never ends
	}
	defer r.release()
	workspace, ok := r.dressed[runID]
	if !ok {
		return
	}
	if _, err := os.Lstat(filepath.Join(r.cfg.Sandboxes.Root(), filepath.FromSlash(workspace))); err != nil {
		return // it went before
	}
	root, err := workdir.Open(r.cfg.Sandboxes.Root(), workspace)
	if err != nil {
		return // there is nothing to take away
	}
	defer root.Close()
	var l lock
	if b, err := readSmall(root, lockFile); err == nil && json.Unmarshal(b, &l) == nil && l.Run == runID {
		_ = root.Remove(lockFile) // it is for people, and says when it lapses
	}
}

// Input implements kernel.Role: the files of a session that was deleted go.
func (r *Role) Input(ctx context.Context, m kernel.Message) error {
	id, verb, ok := events.ParseSession(m.Subject())
	if !ok || verb != "sweep" || r.cfg.Sessions == nil {
		return kernel.Refuse("bad_subject", "publish on station.{station}.session.{session}.sweep", "nothing is known of the subject %q", m.Subject())
	}
	b, err := r.cfg.Sessions.Get(ctx, "session."+id)
	var e events.Session
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		return err
	}
	if e.Status != events.SessionDeleted {
		if m.Deliveries() < sweepTries {
			return &kernel.Later{After: sweepAgain}
		}
		return kernel.Refuse("session_lives", "delete it first: inspan session delete "+id, "session %q is not deleted", id)
	}
	if err := r.alone(ctx); err != nil {
		return err
	}
	defer r.release()
	r.pool.DropWorkspace("session/" + id)
	return r.vacate(ctx, m, e)
}

// sweep takes a workspace and its cache away.
func sweep(o *pool.Opener, p workdir.Dir) error {
	for dir, path := range map[string]string{o.Root(): p.Path, o.Cache(): p.Workspace} {
		if dir == "" {
			continue
		}
		root, err := os.OpenRoot(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("sweep %s: %w", p.Workspace, err)
		}
		err = root.RemoveAll(path)
		if err = errors.Join(err, root.Close()); err != nil {
			return fmt.Errorf("sweep %s: %w", p.Workspace, err)
		}
	}
	return gitwork.Forget(o.Root(), p.Path)
}

// dressFiles writes the files of a session. Before its first call it clears what is of an earlier session.
func dressFiles(ctx context.Context, blobs kernel.Blobs, at string, s run.State, e events.Session, p workdir.Dir, clear func() error) error {
	root, err := workdir.Open(at, p.Path)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read through what is closed already
	var old meta
	if text, err := readSmall(root, metaFile); err == nil && json.Unmarshal(text, &old) == nil && old.Born > 0 && old.Born < e.Born && s.TotalToolCalls == 0 {
		if err := root.Close(); err != nil {
			return err
		}
		if err := clear(); err != nil {
			return err
		}
		if root, err = workdir.Open(at, p.Path); err != nil {
			return err
		}
	}
	h, _ := e.Holder(s.HarnessID)
	files := map[string]any{
		metaFile: meta{note, e.ID, e.Born, e.Mode, e.Branch, e.Runs, e.CreatedAt, e.UsedAt},
		lockFile: lock{note, s.HarnessID, os.Getpid(), s.Created.SessionFence, h.Since, h.Until},
	}
	parts, _, err := history.Load(ctx, blobs, s.Created.History, nil)
	if err != nil {
		return err
	}
	if ownFolder(root) && root.MkdirAll(runsDir, 0o755) == nil {
		for i, p := range parts {
			name := fmt.Sprintf("%s/run_%03d_%s.json", runsDir, i+1, p.Run)
			if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
				files[name] = p
			}
		}
		files[historyFile] = map[string]any{"note": note, "session_id": e.ID, "messages": history.Messages(parts)}
	}
	for name, v := range files {
		_ = writeJSON(root, name, v) // they are for people: where they can not be written the run goes on without
	}
	_ = exclude(root)
	return nil
}

// writeJSON puts a new file in the place of whatever has that name.
func writeJSON(root *os.Root, name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

// maxSmall bounds what is read of a file that anybody may have written, in bytes.
const maxSmall = 64 << 10

func readSmall(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSmall))
}

// exclude keeps the files out of the commits of a git repository that is the workspace.
func exclude(root *os.Root) error {
	const file = ".git/info/exclude"
	if info, err := root.Lstat(path.Dir(file)); err != nil || !info.IsDir() {
		return nil
	}
	text, err := readSmall(root, file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(text) == maxSmall {
		return nil // it is not as git makes it: leave it
	}
	lines := strings.Split(string(text), "\n")
	for _, name := range []string{metaFile, lockFile, historyDir + "/"} {
		if !slices.Contains(lines, "/"+name) {
			lines = append(lines, "/"+name)
		}
	}
	f, err := root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.TrimLeft(strings.Join(lines, "\n"), "\n") + "\n")
	return errors.Join(err, f.Close())
}
