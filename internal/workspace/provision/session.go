package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Files of a session, in its directory. They are for people: nothing but the age of the directory is read from them,
// and who works there may change them.
const (
	metaFile    = ".session.meta"
	lockFile    = ".session.lock"
	harnessDir  = ".harness"
	historyFile = ".harness/history.json"
	runsDir     = ".harness/runs"
)

const (
	// maxRuns is how many runs are remembered whose files were written.
	maxRuns = 4096
)

// SessionFiles writes the readable files of sessions (SESS-18) into their workspaces.
type SessionFiles struct {
	root  string
	kv    kernel.KV
	blobs kernel.Blobs
	// turn holds a token while a caller is at work, who may have to wait for a store: others can give up.
	turn chan struct{}
	// written by run, with the run's workspace, and the runs in their order; guarded by turn.
	written map[string]string
	order   []string
}

// NewSessionFiles writes into workspaces below a root. A nil shelf has no sessions: nothing is written.
func NewSessionFiles(root string, kv kernel.KV, blobs kernel.Blobs) *SessionFiles {
	return &SessionFiles{root: root, kv: kv, blobs: blobs, turn: make(chan struct{}, 1), written: map[string]string{}}
}

// Lock waits until no other caller is at work on the files of sessions, or until ctx ends.
func (f *SessionFiles) Lock(ctx context.Context) (unlock func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case f.turn <- struct{}{}:
		return func() { <-f.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// meta is what the file of a session says. Born distinguishes one session from another that had its name.
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

// Write writes the files of a session before the first call of a run in it. clear is called first where a deleted
// session of the same name left files. A session that cannot be read now is no reason to hold up the run.
func (f *SessionFiles) Write(ctx context.Context, s run.State, at workdir.Dir, clear func(context.Context,
	events.Session) error) error {
	c := s.Created
	if f.kv == nil || c == nil || c.SessionFence == 0 || c.Workspace != "session/"+c.Session {
		return nil
	}
	unlock, err := f.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if _, done := f.written[s.HarnessID]; done {
		return nil
	}
	var e events.Session
	b, err := f.kv.Get(ctx, "session."+c.Session)
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil || e.Fence < c.SessionFence {
		return ctx.Err() // away or behind: the next call tries again
	}
	if err := f.write(ctx, s, e, at, clear); err != nil {
		return fmt.Errorf("files of session %s: %w", c.Session, err)
	}
	if len(f.order) >= maxRuns {
		delete(f.written, f.order[0])
		f.order = slices.Delete(f.order, 0, 1)
	}
	f.written[s.HarnessID], f.order = at.Path, append(f.order, s.HarnessID)
	return nil
}

// Ended removes the lock file of a run that may have ended.
func (f *SessionFiles) Ended(runID string) {
	unlock, err := f.Lock(context.Background())
	if err != nil {
		return // it never ends
	}
	defer unlock()
	workspace, ok := f.written[runID]
	if !ok {
		return
	}
	if _, err := os.Lstat(filepath.Join(f.root, filepath.FromSlash(workspace))); err != nil {
		return // it went before
	}
	root, err := workdir.Open(f.root, workspace)
	if err != nil {
		return // there is nothing to remove
	}
	defer root.Close()
	var l lock
	if b, err := readSmall(root, lockFile); err == nil && json.Unmarshal(b, &l) == nil && l.Run == runID {
		_ = root.Remove(lockFile) // it is for people, and says when it lapses
	}
}

// write writes the files of a session. Before its first call it clears what an earlier session left.
func (f *SessionFiles) write(ctx context.Context, s run.State, e events.Session, at workdir.Dir,
	clear func(context.Context, events.Session) error) error {
	root, err := workdir.Open(f.root, at.Path)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read through what is closed already
	var old meta
	if text, err := readSmall(root, metaFile); err == nil && json.Unmarshal(text, &old) == nil && old.Born > 0 &&
		old.Born < e.Born && s.TotalToolCalls == 0 {
		if err := root.Close(); err != nil {
			return err
		}
		if err := clear(ctx, e); err != nil {
			return err
		}
		if root, err = workdir.Open(f.root, at.Path); err != nil {
			return err
		}
	}
	h, _ := e.Holder(s.HarnessID)
	files := map[string]any{
		metaFile: meta{note, e.ID, e.Born, e.Mode, e.Branch, e.Runs, e.CreatedAt, e.UsedAt},
		lockFile: lock{note, s.HarnessID, os.Getpid(), s.Created.SessionFence, h.Since, h.Until},
	}
	parts, _, err := history.Load(ctx, f.blobs, s.Created.History, nil)
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
		_ = writeJSON(root, name, v) // they are for people: where they cannot be written the run goes on without
	}
	_ = exclude(root)
	return nil
}
