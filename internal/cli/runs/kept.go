package runs

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/run"
)

// listed is a run of a list. Store is where it was kept, empty for a run of the station; Work what became of its work.
type listed struct {
	run.Info
	Store string `json:"store,omitempty"`
	Work  string `json:"work,omitempty"`
	// opened is false for a store that was not read: it is in use, or there was no time.
	opened bool
}

// keptTime is how long kept stores are opened for a list; those that are left are listed by their names.
const keptTime = 5 * time.Second

// kept are the runs whose stores were kept, of this directory or with --all of any, the newest first.
func (a *listCommand) kept(ctx context.Context, name string) []listed {
	if a.Local || a.NamesServer() {
		return nil
	}
	stores, err := workcopy.Stores()
	if err != nil {
		return nil // without a home nothing is kept
	}
	root := rootHere(ctx)
	own := *a.App
	own.Station, own.Err = name, io.Discard
	ctx, cancel := context.WithTimeout(ctx, keptTime)
	defer cancel()
	var out []listed
	for _, k := range stores {
		if !a.all && k.Root != root || len(out) >= a.limit {
			continue
		}
		i := listed{Info: run.Info{HarnessID: k.Run, CreatedAt: k.At}, Store: k.Path, Work: cmp.Or(k.Work, "untaken")}
		if ctx.Err() == nil && station.Stopped(k.Path) {
			if c, shut, err := own.OpenStore(ctx, k.Path); err == nil {
				if info, err := c.Runs().Get(ctx, k.Run); err == nil {
					i.Info, i.opened = info, true
				}
				c.Close()
				shut()
			}
		}
		if i.opened || a.only == "" && a.agent == "" {
			out = append(out, i)
		}
	}
	return out
}

// rootHere is the working tree that this directory is in, or the directory itself.
func rootHere(ctx context.Context) string {
	if c, err := workcopy.Find(ctx, ".", nil); err == nil {
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

// status is what the list shows.
func (i listed) status() string {
	if i.Store != "" && !i.opened {
		return "in use"
	}
	return runtree.StatusOf(i.Info)
}

// where says where a run is, and for one that was kept what became of its work.
func (i listed) where() string {
	switch {
	case i.Store == "":
		return "station"
	case i.Work == workcopy.Taken:
		return "kept, merged"
	case i.Work == workcopy.Nothing:
		return "kept, no change"
	}
	return "kept, not merged"
}
