package service

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/persister"
)

// persister makes the role that keeps the views, signs heads and fills the archive.
func (h *Host) persister(ctx, keep context.Context, ledger *runlog.Ledger) (runlog.Role, error) {
	p := h.ports
	sign, err := h.anchorKey(ctx)
	if err != nil {
		return nil, err
	}
	keeper, err := h.archive(keep)
	if err != nil {
		return nil, err
	}
	cfg := persister.Config{Ledger: ledger, Journal: p.Journal, Shelf: p.State, Blobs: p.Blobs, Sign: sign,
		Snapshots: h.snapshots(), Local: h.localSnapshots(), Log: h.log, Ending: ctx.Done(), Ended: h.workflows(ledger).Ended}
	if keeper != nil {
		cfg.Archive = keeper
	}
	h.expire(keep, ledger)
	return persister.New(cfg)
}

// archive opens the archive, where one is configured, and keeps it until ctx has ended and all that was touched is saved.
func (h *Host) archive(ctx context.Context) (*archive.Keeper, error) {
	if h.cfg.Archive == "" {
		return nil, nil
	}
	dir, err := archive.Create(h.cfg.Archive)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_ARCHIVE: %w", err)
	}
	p := h.ports
	keeper, err := archive.NewKeeper(&archive.Saver{Dir: dir, Station: h.cfg.Station, Journal: p.Journal, Blobs: p.Blobs, State: p.State, Config: p.Config,
		Trees: p.Trees, Artifacts: p.Artifacts, MostBytes: h.cfg.ArchiveFiles}, h.archiveEvery(), h.log)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	h.keeping.Go(func() {
		keeper.Run(ctx)
		if err := dir.Close(); err != nil {
			h.log.Warn().Err(err).Msg("archive not closed")
		}
	})
	return keeper, nil
}

func (h *Host) archiveEvery() time.Duration {
	if h.cfg.ArchiveEvery <= 0 {
		return 30 * time.Second
	}
	return h.cfg.ArchiveEvery
}

// anchorKey returns the signing key and tells its public half to the station, so that an audit finds it. A key that is
// told stays: it is what old anchors were signed with.
func (h *Host) anchorKey(ctx context.Context) (ed25519.PrivateKey, error) {
	if h.cfg.AnchorKey.Empty() {
		h.log.Warn().Msg("no INSPAN_ANCHOR_KEY is set: the cut-off end of a log can not be found by inspan audit")
		return nil, nil
	}
	key, err := audit.ParsePrivate(h.cfg.AnchorKey.Reveal())
	if err != nil {
		return nil, fmt.Errorf("INSPAN_ANCHOR_KEY: %w", err)
	}
	public := audit.FormatPublic(key)
	id := run.KeyID(key.Public().(ed25519.PublicKey)) // an Ed25519 key has no other
	if err := h.ports.State.Create(ctx, audit.KeyPrefix+id, []byte(public)); err != nil && !errors.Is(err, kernel.ErrExists) {
		return nil, fmt.Errorf("tell the public key of anchors: %w", err)
	}
	return key, nil
}
