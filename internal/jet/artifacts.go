package jet

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// headerKeep says in the description of an artifact how long it is kept after its run.
const headerKeep = "Inspan-Keep"

// artifacts keeps what runs made in an object store of its own: there, unlike with the objects that events need,
// something may be taken away.
type artifacts struct {
	c       *Conn
	station string
}

var _ kernel.Artifacts = artifacts{}

// Artifacts returns what the station's runs made.
func (s *Station) Artifacts() kernel.Artifacts { return artifacts{c: s.c, station: s.name} }

// of is the part of one run.
func (a artifacts) of(run string) (blobs, error) {
	if err := events.CheckID("run", run); err != nil {
		return blobs{}, err
	}
	return blobs{c: a.c, bucket: topology.ArtifactBucket, scope: a.station + "." + run}, nil
}

// Put implements kernel.Artifacts.
func (a artifacts) Put(ctx context.Context, run string, data []byte, ttl time.Duration) (events.Ref, error) {
	b, err := a.of(run)
	if err != nil {
		return events.Ref{}, err
	}
	if ttl > 0 {
		b.headers = nats.Header{headerKeep: {ttl.String()}}
	}
	return b.Put(ctx, "artifact", data)
}

// Get implements kernel.Artifacts.
func (a artifacts) Get(ctx context.Context, run string, ref events.Ref) ([]byte, error) {
	b, err := a.of(run)
	if err != nil {
		return nil, err
	}
	return b.Get(ctx, ref)
}

// Stored implements kernel.Artifacts. Descriptions that no one here wrote are left alone.
func (a artifacts) Stored(ctx context.Context) ([]kernel.StoredArtifact, error) {
	var all []kernel.StoredArtifact
	err := a.descriptions(ctx, func(d description) {
		rest, ours := strings.CutPrefix(d.Name, a.station+".")
		run, digest, two := strings.Cut(rest, ".")
		if b, err := hex.DecodeString(digest); !ours || !two || !events.ValidID(run) || err != nil || len(b) != 32 {
			return
		}
		ttl, err := time.ParseDuration(d.Headers.Get(headerKeep))
		if err != nil {
			ttl = 0
		}
		all = append(all, kernel.StoredArtifact{Run: run, SHA256: digest, Size: int64(d.Size), Put: d.ModTime, TTL: ttl}) //nolint:gosec // a size
	})
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	return all, nil
}

// descriptions reads those of all objects of the bucket, also of other stations.
func (a artifacts) descriptions(ctx context.Context, see func(description)) error {
	return described(ctx, a.c, topology.ArtifactBucket, see)
}

// Remove implements kernel.Artifacts: the parts first, so that what is half removed is still found and removed again.
func (a artifacts) Remove(ctx context.Context, run, digest string) error {
	b, err := a.of(run)
	if err != nil {
		return err
	}
	all, err := b.describe(ctx, digest)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil
	}
	if err != nil && !errors.Is(err, ErrDamagedObject) {
		return fmt.Errorf("remove artifact %s: %w", digest, err)
	}
	for _, d := range all {
		if err := a.purge(ctx, b.chunkSubject(d.NUID)); err != nil {
			return fmt.Errorf("remove artifact %s: %w", digest, err)
		}
	}
	if err := a.purge(ctx, b.metaSubject(digest)); err != nil {
		return fmt.Errorf("remove artifact %s: %w", digest, err)
	}
	return nil
}

// purge takes the messages of one subject away.
func (a artifacts) purge(ctx context.Context, subject string) error {
	return a.c.api(ctx, "STREAM.PURGE."+topology.ArtifactStream(), map[string]string{"filter": subject}, nil)
}

// Litter implements kernel.Artifacts: it looks for parts that no description names. Those that were put lately may
// still get one.
func (a artifacts) Litter(ctx context.Context, before time.Time) (int, error) {
	var info struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	parts := "$O." + topology.ArtifactBucket + ".C."
	if err := a.c.api(ctx, "STREAM.INFO."+topology.ArtifactStream(), map[string]any{"subjects_filter": parts + ">"},
		&info); err != nil {
		return 0, fmt.Errorf("list parts of artifacts: %w", err)
	}
	if err := a.descriptions(ctx, func(d description) { delete(info.State.Subjects, parts+d.NUID) }); err != nil {
		return 0, fmt.Errorf("list artifacts: %w", err)
	}
	removed := 0
	for subject := range info.State.Subjects {
		var last struct {
			Message struct {
				Time time.Time `json:"time"`
			} `json:"message"`
		}
		err := a.c.api(ctx, "STREAM.MSG.GET."+topology.ArtifactStream(), map[string]string{"last_by_subj": subject}, &last)
		if code(err) == codeNoMessage || err == nil && !last.Message.Time.Before(before) {
			continue
		}
		if err == nil {
			err = a.purge(ctx, subject)
		}
		if err != nil {
			return removed, fmt.Errorf("remove parts of an artifact: %w", err)
		}
		removed++
	}
	return removed, nil
}
