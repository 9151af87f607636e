package move

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
)

// Plan says what a move would do.
type Plan struct {
	Station string `json:"station"`
	From    string `json:"from"`
	To      string `json:"to"`
	// Runs and Open ones, Events and Bytes of the log, Objects and ObjectBytes are those of the source.
	Runs        int    `json:"runs"`
	Open        int    `json:"open_runs"`
	Events      uint64 `json:"log_events"`
	Bytes       int64  `json:"log_bytes"`
	Objects     int    `json:"objects"`
	ObjectBytes int64  `json:"object_bytes"`
	// Halted says that the source is halted, By whom and why. Stays says that it was for another reason than the move:
	// the target is not released then.
	Halted bool   `json:"halted"`
	By     string `json:"halted_by,omitempty"`
	Reason string `json:"halt_reason,omitempty"`
	Stays  bool   `json:"stays_halted"`
	// State is fresh, begun, marked or done; Steps are those to come.
	State string `json:"state"`
	Steps []Step `json:"steps"`
	// MovedAt is when the source was marked.
	MovedAt time.Time `json:"moved_at,omitzero"`
	// Keys are those of the station that are needed: --new-keys does without.
	Keys []string `json:"keys"`
}

// Look says what Run would do, and changes nothing. A target that is nil has nothing yet.
func Look(ctx context.Context, cfg Config) (Plan, error) {
	m := &mover{Config: cfg}
	if cfg.To.As != nil {
		var err error
		if m, err = open(ctx, cfg); err != nil {
			return Plan{}, err
		}
	}
	v, err := m.look(ctx)
	if err != nil {
		return Plan{}, err
	}
	phase, err := v.phase()
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Station: cfg.Station, From: cfg.From.Name, To: cfg.To.Name, Halted: v.from.Halted, Stays: v.from.Halted &&
		!ours(v.from), State: []string{"fresh", "begun", "marked", "done"}[phase], MovedAt: v.from.MovedAt, Keys: []string{}}
	if p.Halted {
		p.By, p.Reason = v.from.By, v.from.Reason
	}
	switch phase {
	case fresh, copying:
		p.Steps = Steps()
	case marked:
		p.Steps = Steps()[5:]
	case done:
		p.Steps = []Step{}
	}
	return p, m.size(ctx, &p, phase)
}

// size fills in how much there is, and whether the target has room for it.
func (m *mover) size(ctx context.Context, p *Plan, ph phase) error {
	sum, err := jet.SummaryOf(ctx, m.From.Station)
	if err != nil {
		return err
	}
	p.Runs, p.Open, p.Events, p.Bytes = sum.Runs, sum.Open, sum.Events, sum.Bytes
	names, err := m.From.Station.KeyNames(ctx, topology.ConfigBucket)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == topology.StationKeyKey || name == topology.ChildKeyKey {
			p.Keys = append(p.Keys, name)
		}
	}
	all, err := m.From.Station.Objects(ctx)
	if err != nil {
		return err
	}
	p.Objects = len(all)
	for _, o := range all {
		p.ObjectBytes += o.Size
	}
	if ph != fresh {
		return nil
	}
	return m.fits(ctx, p.Bytes, p.Bytes+p.ObjectBytes)
}

// ready sets the target up before anything is halted. Before that it checks that the target has room, as far as that is
// known, and that the keys of the source are there.
func (m *mover) ready(ctx context.Context, v view) error {
	ph := fresh
	if v.from.Halted { // it was checked
		ph = copying
	}
	var p Plan
	if err := m.size(ctx, &p, ph); err != nil {
		return err
	}
	for _, key := range p.Keys {
		if m.Keys[key] == nil && !m.NewKeys {
			return fmt.Errorf("%w: %s is missing: name the file that inspan backup --keys wrote, or do without it with --new-keys",
				ErrKeys, key)
		}
	}
	if err := m.setUp.Apply(ctx, m.Station, jet.ApplyOptions{}); err != nil {
		return fmt.Errorf("set the target up: %w", err)
	}
	return nil
}

// fits compares what is copied with the room of the target and of the folder of the copy. What is not known is left to
// the server, which refuses what does not fit.
func (m *mover) fits(ctx context.Context, log, need int64) error {
	if free, ok := natsserver.FreeBytes(existing(m.Dir)); ok && free < need {
		return fmt.Errorf("%w: the copy of %d bytes does not fit into the folder %s with %d bytes: name another with --dir",
			ErrRoom, need, m.Dir, free)
	}
	if m.to == nil {
		return nil
	}
	there, err := jet.SummaryOf(ctx, m.to)
	if err == nil && there.Limit > 0 && there.Limit < log {
		return fmt.Errorf("%w: the log has %d bytes, and its log may have %d: raise INSPAN_LOG_MAX_BYTES there and set it up again, then call this again",
			ErrRoom, log, there.Limit)
	}
	if err != nil && !errors.Is(err, jet.ErrNotSetUp) {
		return err
	}
	left, ok, err := m.to.StorageLeft(ctx, 1)
	switch {
	case errors.Is(err, jet.ErrDenied) || errors.Is(err, jet.ErrNotSetUp):
		return nil
	case err != nil:
		return err
	case ok && left < need:
		return fmt.Errorf("%w: %d bytes are copied, and its account may store %d more: make room there, then call this again",
			ErrRoom, need, left)
	}
	return nil
}

// existing is the folder, or the nearest one above it that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
