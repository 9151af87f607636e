package archive

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// A bundle is an archive of one run in a compressed tar file.

// Limits of a bundle that is read.
const (
	maxBundle = 4 << 30
	maxFiles  = 1 << 20
	maxJSON   = 16 << 20 // one file that is read whole
)

// bundled are the only names that a bundle may have.
var bundled = pattern.New(`^(inspan-archive\.json|runs/[A-Za-z0-9_-]{1,64}/[A-Za-z0-9_-]{1,64}\.json|agents/[A-Za-z0-9_-]{1,64}/[A-Za-z0-9_-]{1,64}\.json|objects/[0-9a-f]{2}/[0-9a-f]{64}` +
	`|trees/[A-Za-z0-9_-]{1,64}/[A-Za-z0-9_=-]{1,260}/(tree\.json|[0-9a-f]{64})|branches/[A-Za-z0-9_-]{1,64}/[A-Za-z0-9_=-]{1,260}\.[0-9a-f]{32}\.json` +
	`|artifacts/[A-Za-z0-9_-]{1,64}/[A-Za-z0-9_-]{1,64}/[0-9a-f]{64})$`)

// ErrBundle means that a file is no bundle.
var ErrBundle = errors.New("not a bundle of inspan export --bundle")

// Pack writes an archive of one run as a bundle.
func Pack(ctx context.Context, w io.Writer, d *Dir) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	err := d.place.List(ctx, "", func(name string, _ Stat) error {
		if !bundled.MatchString(name) {
			return nil
		}
		b, _, err := d.place.Read(ctx, name)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(b)), Format: tar.FormatPAX,
			ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
		_, err = t.Write(b)
		return err
	})
	if err = errors.Join(err, t.Close(), z.Close()); err != nil {
		return fmt.Errorf("pack bundle: %w", err)
	}
	return nil
}

// Unpack reads a bundle into an empty folder. Its content is a stranger's: only the names of an archive are taken, in
// bounded size, and what the files say is checked when they are used.
func Unpack(r io.Reader, into string) (*Dir, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	t := tar.NewReader(io.LimitReader(z, maxBundle))
	for n := 0; ; n++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBundle, err)
		}
		if n >= maxFiles || h.Typeflag != tar.TypeReg || !bundled.MatchString(h.Name) || path.Clean(h.Name) != h.Name ||
			strings.HasSuffix(h.Name, ".json") && h.Size > maxJSON {
			return nil, fmt.Errorf("%w: it has %.200q", ErrBundle, h.Name)
		}
		if err := copyIn(into, h.Name, t); err != nil {
			return nil, err
		}
	}
	d, err := Open(into)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	return d, nil
}

// copyIn writes a file of a bundle into a folder. It is not synced: it is read once.
func copyIn(into, name string, r io.Reader) error {
	p := filepath.Join(into, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%w: %w", ErrBundle, err)
	}
	return nil
}

// Only returns the one run of a bundle.
func (d *Dir) Only(ctx context.Context) (Manifest, error) {
	all, err := d.Runs(ctx)
	if err != nil {
		return Manifest{}, err
	}
	if len(all) != 1 {
		return Manifest{}, fmt.Errorf("%w: it has %d runs, want one", ErrBundle, len(all))
	}
	return all[0], nil
}

// MovedAway is the reason with which a run is stopped that goes on elsewhere.
const MovedAway = "moved away in a bundle"

// leaves reports whether a run was ended in order to go on elsewhere.
func leaves(s run.State) bool {
	return s.Status == events.Failed && s.Result != nil && s.Result.FinishReason == events.FinishStopped &&
		strings.HasSuffix(s.Result.Error, ": "+MovedAway)
}

// Finish makes a saved run ready for a bundle. A run that was stopped to move away loses that last event: what is in
// the bundle is open, and goes on. A fork is marked as one.
func (d *Dir) Finish(ctx context.Context, m Manifest, fork bool) (Manifest, error) {
	evs, err := Events(ctx, d, m)
	if err != nil {
		return m, err
	}
	state, err := run.Fold(run.State{}, evs...)
	if err != nil {
		return m, err
	}
	if leaves(state) {
		evs = evs[:len(evs)-1]
		if state, err = run.Fold(run.State{}, evs...); err != nil {
			return m, err
		}
		old := m.Segments
		ref, err := d.put(ctx, "facts", append(joined(evs), '\n'))
		if err != nil {
			return m, err
		}
		m.Segments = []Segment{{From: 1, To: state.Sequence, Ref: ref}}
		for _, seg := range old {
			d.drop(ctx, seg.Ref)
		}
		if m.Anchor != nil && m.Anchor.Sequence > state.Sequence {
			m.Anchor = nil
		}
		if m.Extras != nil {
			m.Extras.EndedAt = state.EndedAt
		}
	}
	m.Sequence, m.Head, m.Status, m.Fork = state.Sequence, state.Hash, state.Status, fork
	return d.writeManifest(ctx, m)
}
