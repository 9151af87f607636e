package workcopy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/run"
)

// keptTime is how long kept stores are opened for a list; those that are left are listed by their names.
const keptTime = 5 * time.Second

// KeptRun is a kept store with what it says of its run.
type KeptRun struct {
	Kept
	Info run.Info
	// Opened is false for a store that was not read: it is in use, or there was no time. Of its run, Info has the id and
	// the time alone.
	Opened bool
}

// KeptRuns reads the kept stores of this directory, or with all of any, the newest first, at most so many. The name is
// that of their stations. Where a server is named, none is meant.
func KeptRuns(ctx context.Context, a *app.App, name string, all bool, most int) []KeptRun {
	if a.Local || a.NamesServer() {
		return nil
	}
	stores, err := Stores()
	if err != nil {
		return nil // without a home nothing is kept
	}
	root := rootHere(ctx)
	own := *a
	own.Station, own.Err = name, io.Discard
	ctx, cancel := context.WithTimeout(ctx, keptTime)
	defer cancel()
	var out []KeptRun
	for _, k := range stores {
		if !all && k.Root != root || len(out) >= most {
			continue
		}
		r := KeptRun{Kept: k, Info: run.Info{HarnessID: k.Run, CreatedAt: k.At}}
		if ctx.Err() == nil && station.Stopped(k.Path) {
			if c, shut, err := own.OpenStore(ctx, k.Path); err == nil {
				if info, err := c.Runs().Get(ctx, k.Run); err == nil {
					r.Info, r.Opened = info, true
				}
				c.Close()
				shut()
			}
		}
		out = append(out, r)
	}
	return out
}

// rootHere is the working tree that this directory is in, or the directory itself.
func rootHere(ctx context.Context) string {
	if c, err := Find(ctx, ".", nil); err == nil {
		defer c.Close()
		return c.Root()
	}
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// startFile is beside the store of a kept run: a Start.
const startFile = "start.json"

// Start is how the station of a kept run was started, for whoever goes on with the run.
type Start struct {
	Scripts   string `json:"scripts,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Sandbox   string `json:"sandbox,omitempty"`
	Lazy      bool   `json:"lazy,omitempty"`
}

// NoteStart notes how the station of a kept store was started.
func NoteStart(store string, s Start) error {
	b, err := json.Marshal(s)
	if err == nil {
		err = disk.Replace(filepath.Join(store, startFile), append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("how the station of the run was started: %w", err)
	}
	return nil
}

// StartOf is what NoteStart noted; ok is false where that is nothing that can be read.
func StartOf(store string) (s Start, ok bool) {
	b, err := os.ReadFile(filepath.Join(store, startFile))
	if err != nil || json.Unmarshal(b, &s) != nil {
		return Start{}, false
	}
	return s, true
}
