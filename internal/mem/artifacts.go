package mem

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// artifact is one object that a run made.
type artifact struct {
	kernel.StoredArtifact
	data []byte
}

type artifacts struct{ s *Station }

var _ kernel.Artifacts = artifacts{}

// Artifacts returns what the station's runs made.
func (s *Station) Artifacts() kernel.Artifacts { return artifacts{s} }

// Put implements kernel.Artifacts.
func (a artifacts) Put(ctx context.Context, run string, data []byte, ttl time.Duration) (events.Ref, error) {
	ref := events.Ref{SHA256: events.HashOf(data), Size: int64(len(data)), Type: "artifact"}
	if err := a.may(ctx, run); err != nil {
		return events.Ref{}, err
	}
	if len(data) > topology.MaxObject {
		return events.Ref{}, fmt.Errorf("put artifact of %d bytes, the limit is %d: %w", len(data), topology.MaxObject,
			kernel.ErrTooLarge)
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if _, there := a.s.made[run+"."+ref.SHA256]; !there {
		a.s.made[run+"."+ref.SHA256] = artifact{kernel.StoredArtifact{Run: run, SHA256: ref.SHA256, Size: ref.Size,
			Put: a.s.cfg.Clock.Now(), TTL: ttl}, bytes.Clone(data)}
	}
	return ref, nil
}

func (a artifacts) may(ctx context.Context, run string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return events.CheckID("run", run)
}

// Get implements kernel.Artifacts.
func (a artifacts) Get(ctx context.Context, run string, ref events.Ref) ([]byte, error) {
	if err := a.may(ctx, run); err != nil {
		return nil, err
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	one, ok := a.s.made[run+"."+ref.SHA256]
	if !ok {
		return nil, fmt.Errorf("artifact %.80q: %w", ref.SHA256, kernel.ErrNotFound)
	}
	if one.Size != ref.Size || events.HashOf(one.data) != ref.SHA256 {
		return nil, fmt.Errorf("artifact %s: %w", ref.SHA256, kernel.ErrDamagedObject)
	}
	return bytes.Clone(one.data), nil
}

// Stored implements kernel.Artifacts.
func (a artifacts) Stored(ctx context.Context) ([]kernel.StoredArtifact, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	var all []kernel.StoredArtifact
	for _, one := range a.s.made {
		all = append(all, one.StoredArtifact)
	}
	return all, nil
}

// Remove implements kernel.Artifacts.
func (a artifacts) Remove(ctx context.Context, run, sha256 string) error {
	if err := a.may(ctx, run); err != nil {
		return err
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	delete(a.s.made, run+"."+sha256)
	return nil
}

// Litter implements kernel.Artifacts: here nothing is ever half put.
func (artifacts) Litter(context.Context, time.Time) (int, error) { return 0, nil }
