package archive

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/core/checkpoint"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ErrUnsound means that what is saved is not a log as it was said. Nothing of it is restored.
var ErrUnsound = errors.New("the saved data is damaged")

// Restorer is a station that runs are brought to.
type Restorer struct {
	station string
	ledgers map[events.Service]writer
	journal kernel.Journal
	blobs   kernel.Blobs
	timers  kernel.Timers
	config  kernel.KV
	state   kernel.KV
	// workspaces, trees, made and sessions are nil where the place keeps nothing beside the logs of runs.
	workspaces Workspaces
	trees      kernel.KV
	made       kernel.Artifacts
	sessions   kernel.KV
	now        func() time.Time
}

// RestorerConfig holds what a place needs. The journals say each kind under the user who may say it.
type RestorerConfig struct {
	Station  string
	Journals map[events.Service]kernel.Journal
	Blobs    kernel.Blobs
	// Timers and Config are the planner's.
	Timers kernel.Timers
	Config kernel.KV
	State  kernel.KV
	// Workspaces, Trees and Artifacts are the toolrunner's, Sessions the planner's; without them only logs and their
	// objects are brought.
	Workspaces Workspaces
	Trees      kernel.KV
	Artifacts  kernel.Artifacts
	Sessions   kernel.KV
	Entropy    io.Reader
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// writer is what a restore does with the ledger of a role. An interface, as whoever knows a Restorer would compile the
// ledger once more.
type writer interface {
	Copy(ctx context.Context, id string, stored []byte, whole uint64) error
	Write(ctx context.Context, id string, decide kernel.Decide[run.State]) (kernel.Written[run.State], error)
}

// NewRestorer checks the configuration.
func NewRestorer(cfg RestorerConfig) (*Restorer, error) {
	if cfg.Blobs == nil || cfg.Timers == nil || cfg.Config == nil || cfg.State == nil {
		return nil, errors.New("a restore needs blobs, timers and the configuration")
	}
	p := &Restorer{station: cfg.Station, ledgers: map[events.Service]writer{},
		journal: cfg.Journals[events.Planner],
		blobs:   cfg.Blobs, timers: cfg.Timers, config: cfg.Config, state: cfg.State, now: cfg.Now}
	if p.now == nil {
		p.now = time.Now
	}
	if cfg.Workspaces != nil && cfg.Trees != nil && cfg.Artifacts != nil && cfg.Sessions != nil {
		p.workspaces, p.trees, p.made, p.sessions = cfg.Workspaces, cfg.Trees, cfg.Artifacts, cfg.Sessions
	}
	pages := runlog.NewPages(0)
	for _, by := range events.Services() {
		l, err := runlog.NewLedger(runlog.LedgerConfig{Station: cfg.Station, By: by, Journal: cfg.Journals[by], Pages: pages,
			Entropy: cfg.Entropy})
		if err != nil {
			return nil, fmt.Errorf("as %s: %w", by, err)
		}
		p.ledgers[by] = l
	}
	return p, nil
}

// How a run is brought.
type How struct {
	// By is who does it.
	By string
	// SameKey says that the station has the key of idempotency keys that the run's station had.
	SameKey bool
	// Keys, where there are any, are the only ones whose anchors are believed.
	Keys []ed25519.PublicKey
	// Progress, where it is not nil, is told how many bytes of something large are there.
	Progress func(what string, done, total int64)
}

// Brought says what was done.
type Brought struct {
	Run    string        `json:"run"`
	From   string        `json:"from_station"`
	Status events.Status `json:"status"`
	// Events the run has, Copied those that were not there before, Objects what was put.
	Events  uint64 `json:"facts"`
	Copied  uint64 `json:"copied"`
	Objects int    `json:"objects"`
	// Missing are objects that were not saved either.
	Missing int `json:"missing_objects"`
	// Workspace of the run, and what became of its files: FilesBrought, FilesThere or FilesLeft; empty where the place
	// keeps none. Stale files are older than the log.
	Workspace  string `json:"workspace,omitempty"`
	Files      string `json:"files,omitempty"`
	FilesCount int    `json:"files_count,omitempty"`
	FilesBytes int64  `json:"files_bytes,omitempty"`
	Stale      bool   `json:"files_stale,omitempty"`
	// Artifacts and Branches are there now; MissingArtifacts were not saved, and their time is not over.
	Artifacts        int `json:"artifacts,omitempty"`
	MissingArtifacts int `json:"missing_artifacts,omitempty"`
	Branches         int `json:"branches,omitempty"`
	// Left is what was not in the archive.
	Left []Left `json:"left,omitempty"`
}

// Bring copies a saved run here: the objects and files first, then the events, then, where the run is open, run.moved.
// It may be interrupted and done again. Nothing is written where the saved data is damaged (ErrUnsound) or other events
// are there (kernel.ErrDiverged). A run that is here already and went on is left as it is.
func (p *Restorer) Bring(ctx context.Context, src Source, m Manifest, how How) (Brought, error) {
	b := Brought{Run: m.Run, From: m.Station, Events: m.Sequence}
	evs, state, err := sound(ctx, src, m, how.Keys)
	if err != nil {
		return b, err
	}
	b.Status = state.Status
	there, err := readAll(ctx, p.journal, m.Run, 0)
	if err != nil {
		return b, err
	}
	for i := range min(len(there), len(evs)) {
		if !bytes.Equal(there[i].Bytes, evs[i]) {
			return b, fmt.Errorf("run %s, event %d: %w: nothing was changed", m.Run, i+1, kernel.ErrDiverged)
		}
	}
	if err := p.objects(ctx, src, evs, &b); err != nil {
		return b, err
	}
	if err := p.beside(ctx, src, m, state, how, &b); err != nil {
		return b, err
	}
	whole := m.Sequence
	if !state.Status.Ended() {
		whole++ // with run.moved
	}
	for i := len(there); i < len(evs); i++ {
		f, err := events.Decode(evs[i])
		if err != nil {
			return b, err
		}
		if err := p.ledgers[f.Author()].Copy(ctx, m.Run, evs[i], whole); err != nil {
			return b, err
		}
		b.Copied++
	}
	if state.Status.Ended() {
		return b, nil
	}
	return b, p.goOn(ctx, state, m, how)
}

// sound checks a saved log from its first byte to its last.
func sound(ctx context.Context, src Source, m Manifest, keys []ed25519.PublicKey) ([][]byte, run.State, error) {
	evs, err := Events(ctx, src, m)
	if err != nil {
		return nil, run.State{}, err
	}
	var anchors []run.Anchor
	if m.Anchor != nil {
		anchors = append(anchors, *m.Anchor)
	}
	a := audit.New(audit.Config{Run: m.Run, Anchors: anchors, Keys: keys})
	for _, b := range evs {
		a.Event(ctx, kernel.Record{Bytes: b})
	}
	r := a.End()
	if !r.Sound {
		return nil, run.State{}, fmt.Errorf("run %s: %w: %w", m.Run, ErrUnsound, *r.First)
	}
	if r.Events != m.Sequence || r.Head != m.Head {
		return nil, run.State{}, fmt.Errorf("run %s: %w: it has %d events, its manifest states %d", m.Run, ErrUnsound,
			r.Events, m.Sequence)
	}
	state, err := run.Fold(run.State{}, evs...)
	return evs, state, err
}

// objects puts what the events refer to.
func (p *Restorer) objects(ctx context.Context, src Source, evs [][]byte, b *Brought) error {
	for _, stored := range evs {
		_, payload, err := events.Read(stored)
		if err != nil {
			return err
		}
		for queue := events.Refs(payload); len(queue) > 0; queue = queue[1:] {
			ref := queue[0]
			data, err := src.Object(ctx, ref)
			if errors.Is(err, kernel.ErrNotFound) {
				b.Missing++
				continue
			}
			if err != nil {
				return err
			}
			if _, err := p.blobs.Put(ctx, ref.Type, data); err != nil {
				return fmt.Errorf("put object of run %s: %w", b.Run, err)
			}
			b.Objects++
			queue = append(queue, events.Inside(ref, data)...)
		}
	}
	return nil
}

// goOn says that the run is here, unless that was said or it went on already, and sets its deadline: timers are not
// part of the log.
func (p *Restorer) goOn(ctx context.Context, saved run.State, m Manifest, how How) error {
	w, err := p.ledgers[events.Planner].Write(ctx, m.Run, func(s run.State, _ time.Time) ([]events.Payload, error) {
		if s.Sequence != saved.Sequence {
			return nil, nil
		}
		return lifecycle.Move(s, m.Fork, how.SameKey, how.By), nil
	})
	if err != nil {
		return err
	}
	if at, ok := checkpoint.Wake(w.State, p.now()); ok {
		if err := p.timers.Set(ctx, m.Run, "run.checkpoint", at, w.State.Sequence); err != nil {
			return err
		}
	}
	if at, ok := lifecycle.Deadline(w.State); ok && !w.State.Status.Ended() {
		return p.timers.Set(ctx, m.Run, "run.deadline", at, w.State.Sequence)
	}
	return nil
}

// Agents registers the saved agents that the station does not have; it returns their names.
func (p *Restorer) Agents(ctx context.Context, src Source, station string) (names []string, err error) {
	all, err := src.Agents(ctx, station)
	if err != nil {
		return nil, err
	}
	for name, b := range all {
		if !events.ValidID(name) {
			continue
		}
		err := p.config.Create(ctx, "agent."+name, b)
		if errors.Is(err, kernel.ErrExists) {
			continue
		}
		if err != nil {
			return names, fmt.Errorf("register agent %s: %w", name, err)
		}
		names = append(names, name)
	}
	return names, nil
}
