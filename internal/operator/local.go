package operator

import (
	"context"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Local is a client of a station in a local store of this process, without NATS (PERS-17). workspaces is the root of
// its workspaces, empty where it is not known. end, if not nil, is called by Close.
func Local(st *localstore.Station, workspaces string, end func()) *client.Client {
	return client.Over(alone{st, workspaces}, nil, end)
}

// alone is a local store as clients see a station.
type alone struct {
	*localstore.Station
	workspaces string
}

// Files looks at the files of a run, as no toolrunner need run.
func (a alone) Files(ctx context.Context, q events.FilesQuestion) (events.FilesAnswer, error) {
	if a.workspaces == "" {
		return events.FilesAnswer{}, nil
	}
	w := workspace.Workspaces{Uses: workspace.NewUses(a.workspaces)}
	return w.Files(ctx, a.workspaces, q)
}

// Durability in words.
func (alone) Durability() string { return localstore.Durability }

// Artifacts are in the workspaces alone.
func (alone) Artifacts() kernel.Artifacts { return nil }

// Watch sees what is said in this process, which is all that is said.
func (a alone) Watch(ctx context.Context, run string, withLive bool, see func(jet.Seen)) (stop func(), err error) {
	if err := events.CheckID("run", run); err != nil {
		return nil, err
	}
	evs := a.Station.Watch(run, false, func(seq uint64, data []byte) {
		if f, err := events.Decode(data); err == nil {
			kind, _ := f.Kind()
			see(jet.Seen{Run: run, Kind: kind, Seq: seq, Data: data})
		}
	})
	live := func() {}
	if withLive {
		live = a.Station.Watch(run, true, func(_ uint64, data []byte) { see(jet.Seen{Run: run, Live: true, Data: data}) })
	}
	release := context.AfterFunc(ctx, func() { evs(); live() })
	return func() { release(); evs(); live() }, nil
}

// Replay is nothing: who said it is this process, and answers as long as anybody can ask.
func (alone) Replay(_ context.Context, _ string, after uint64) ([][]byte, uint64, error) {
	return nil, after, nil
}

// WatchSubject receives nothing: whoever waits for a dead letter reads the list as well.
func (alone) WatchSubject(string, func(string, []byte)) (stop func(), err error) {
	return func() {}, nil
}

// Dead returns a page of the dead-letter list.
func (a alone) Dead(ctx context.Context, after uint64) (letters []jet.Refused, more bool, err error) {
	page, err := a.Station.Dead(ctx, after)
	for _, r := range page {
		letters = append(letters, jet.Refused{Seq: r.Seq, By: r.By, Letter: r.Letter})
	}
	return letters, len(page) > 0, err
}

// Log says nothing of the log as a whole: the store erases no event, and its positions are not those of a stream.
func (alone) Log(context.Context) (jet.LogState, error) { return jet.LogState{}, nil }

// ReadKind gives nothing: one program uses the store at a time, and knows its own runs.
func (alone) ReadKind(context.Context, events.Kind, uint64) (evs []jet.Logged, more bool, err error) {
	return nil, false, nil
}
