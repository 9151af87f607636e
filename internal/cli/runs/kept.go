package runs

import (
	"cmp"
	"context"

	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/cli/workcopy"
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

// kept are the runs whose stores were kept, of this directory or with --all of any, the newest first.
func (a *listCommand) kept(ctx context.Context, name string) (out []listed) {
	for _, k := range workcopy.KeptRuns(ctx, a.App, name, a.all, a.limit) {
		if k.Opened || a.only == "" && a.agent == "" {
			out = append(out, listed{Info: k.Info, Store: k.Path, Work: cmp.Or(k.Work, "untaken"), opened: k.Opened})
		}
	}
	return out
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
