package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// staleAfter is how long the list of a run is kept that no one took away: its toolrunner was not there when it ended.
const staleAfter = 30 * 24 * time.Hour

// maxDesks is how many runs have their list in memory; others are read again.
const maxDesks = 64

// desk is what is known here of the workspace of a run.
type desk struct {
	// files as they were when the run began, and since then as they were when something was stored of them.
	files sheet
	// restored is true once what other machines made was brought here.
	restored bool
}

// listPath is where the list of what a run began with is.
func (k *Keeper) listPath(runID string) string {
	return filepath.Join(k.cfg.Lists, runID+".json")
}

// begun returns the desk of a run, nil where nothing is known of it on this machine.
func (k *Keeper) begun(runID string) (*desk, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.desks[runID]; d != nil {
		return d, nil
	}
	b, err := os.ReadFile(k.listPath(runID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list of the files that run %s began with: %w", runID, err)
	}
	d := &desk{files: sheet{}, restored: true}
	if json.Unmarshal(b, &d.files) != nil {
		return nil, nil // half of it: it was not there when the first call of the run began
	}
	k.put(runID, d)
	return d, nil
}

// put keeps a desk and lets go of another one where there are too many. mu is held.
func (k *Keeper) put(runID string, d *desk) {
	for other := range k.desks {
		if len(k.desks) < maxDesks {
			break
		}
		delete(k.desks, other)
	}
	k.desks[runID] = d
}

// Begin lists the files of a workspace before the first call of a run may change any. It does so once on a machine; a
// list that an earlier process made stands.
func (k *Keeper) Begin(ctx context.Context, runID, dir string) error {
	if d, err := k.begun(runID); err != nil || d != nil {
		return err
	}
	select {
	case k.bringing <- struct{}{}: // another call of the run may still bring files
		defer func() { <-k.bringing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	files, err := listed(ctx, dir)
	if err != nil {
		return err
	}
	if err := k.write(runID, files); err != nil {
		return fmt.Errorf("list of the files that run %s begins with: %w", runID, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.desks[runID] == nil {
		k.put(runID, &desk{files: files})
	}
	return nil
}

// listed lists the files of a workspace as they are.
func listed(ctx context.Context, dir string) (sheet, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	defer root.Close()
	files, _, err := look(ctx, root)
	return files, err
}

// write keeps a list, unless there is one.
func (k *Keeper) write(runID string, files sheet) error {
	b, err := json.Marshal(files)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(k.cfg.Lists, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(k.cfg.Lists, "."+runID+"-")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Close()); err == nil {
		if err = os.Link(tmp.Name(), k.listPath(runID)); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	return errors.Join(err, os.Remove(tmp.Name()))
}

// Knows reports whether something is known of the workspace of a run on this machine.
func (k *Keeper) Knows(runID string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.desks[runID] != nil {
		return true
	}
	_, err := os.Lstat(k.listPath(runID))
	return err == nil
}

// Forget lets go of what is known of a run that has ended.
func (k *Keeper) Forget(runID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.desks, runID)
	_ = os.Remove(k.listPath(runID)) // what stays is taken away when it is old
	_ = os.Remove(k.emptyPath(runID))
}

// tidy takes away lists of long ago.
func (k *Keeper) tidy(now time.Time) {
	entries, err := os.ReadDir(k.cfg.Lists)
	if err != nil {
		return // there are none yet
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > staleAfter {
			_ = os.Remove(filepath.Join(k.cfg.Lists, e.Name())) // it is tried again at the next start
		}
	}
}
