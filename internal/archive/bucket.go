package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// bucket is what the station's own stores have of ended runs: their logs lie in the object store, and the index names
// them. It is for a station whose log alone was lost.
type bucket struct {
	station string
	blobs   kernel.Blobs
	state   kernel.KV
	made    kernel.Artifacts
}

var _ Source = bucket{}

// Bucket is the station's own object store as a source.
func (p *Restorer) Bucket() Source { return bucket{p.station, p.blobs, p.state, p.made} }

// Runs implements Source.
func (b bucket) Runs(ctx context.Context) ([]Manifest, error) {
	keys, err := b.state.Keys(ctx, "run.")
	if err != nil {
		return nil, fmt.Errorf("list the index: %w", err)
	}
	var all []Manifest
	for _, key := range keys {
		row, err := b.state.Get(ctx, key)
		if errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var i run.Info
		if err := json.Unmarshal(row, &i); err != nil || i.Archive == nil {
			continue // a run that has not ended, or a row that is no row
		}
		m := Manifest{Format: Format, Station: b.station, Run: i.HarnessID, Sequence: i.Sequence, Status: i.Status,
			Anchor:   i.Anchor,
			Segments: []Segment{{From: 1, To: i.Sequence, Ref: *i.Archive}}}
		evs, err := Events(ctx, b, m)
		if err != nil {
			return nil, err
		}
		m.Head = run.HashOf(evs[len(evs)-1])
		all = append(all, m)
	}
	return all, nil
}

// Object implements Source.
func (b bucket) Object(ctx context.Context, ref events.Ref) ([]byte, error) {
	return b.blobs.Get(ctx, ref)
}

// Agents implements Source: the bucket of configuration is the station's own.
func (bucket) Agents(context.Context, string) (map[string][]byte, error) { return nil, nil }

// Tree implements Source: what the station keeps beside logs is in its own buckets, here and below.
func (bucket) Tree(_ context.Context, _, workspace string) (Tree, error) {
	return Tree{}, fmt.Errorf("workspace %s: %w", workspace, kernel.ErrNotFound)
}

// TreePart implements Source.
func (b bucket) TreePart(ctx context.Context, _, _ string, ref events.Ref) ([]byte, error) {
	return b.blobs.Get(ctx, ref)
}

// Branches implements Source.
func (bucket) Branches(context.Context, string, string) (map[string][]byte, error) { return nil, nil }

// Artifact implements Source.
func (b bucket) Artifact(ctx context.Context, _, run string, ref events.Ref) ([]byte, error) {
	if b.made == nil {
		return nil, fmt.Errorf("artifact %s: %w", ref.SHA256, kernel.ErrNotFound)
	}
	return b.made.Get(ctx, run, ref)
}
