package service

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
)

// artifactsOff keeps nothing but what agents save by name.
const artifactsOff = "off"

// checkArtifacts looks at what is kept of what runs make.
func (c *Config) checkArtifacts() error {
	var errs []error
	if c.Artifacts != "" && c.Artifacts != artifactsOff {
		if err := capture.CheckMode(c.Artifacts); err != nil {
			errs = append(errs, fmt.Errorf("INSPAN_ARTIFACTS: %w, or off", err))
		}
	}
	if c.ArtifactTTL < 0 || c.ArtifactTTL > 0 && c.ArtifactTTL < time.Second {
		errs = append(errs, fmt.Errorf("INSPAN_ARTIFACT_TTL is %s, want at least 1s, or 0 for 24h", c.ArtifactTTL))
	}
	if c.ArtifactMaxBytes < 0 {
		errs = append(errs, fmt.Errorf("INSPAN_ARTIFACT_MAX_BYTES is %d, want 0 or more", c.ArtifactMaxBytes))
	}
	if c.MaxFileSize < 0 || c.MaxFileSize > artifact.MaxTransfer {
		errs = append(errs, fmt.Errorf("INSPAN_MAX_FILE_SIZE is %d, want 1 to %d, or 0 for that", c.MaxFileSize, artifact.MaxTransfer))
	}
	return errors.Join(errs...)
}

// keeper captures what calls make. Its lists are beside the workspaces: ids of runs and sessions never begin with a dot.
func (h *Host) keeper(masked []secret.Value) (*capture.Keeper, error) {
	root, err := filepath.Abs(h.cfg.Workspace)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_WORKSPACE: %w", err)
	}
	cfg := capture.Config{Store: h.ports.Artifacts, Mode: h.cfg.Artifacts, TTL: h.cfg.ArtifactTTL, MaxFile: h.cfg.MaxFileSize, Lists: filepath.Join(root, ".capture"), Mask: secret.Mask(masked...)}
	if cfg.Mode == artifactsOff {
		cfg.Mode, cfg.Off = events.KeptInStore, true
	}
	return capture.New(cfg)
}

// workflows is the index of the runs of workflows.
func (h *Host) workflows(ledger *runlog.Ledger) *capture.Workflows {
	return &capture.Workflows{Shelf: h.ports.State, Runs: ledger}
}

// sweepEvery is how often a persister looks for artifacts whose time is over: often enough for the shortest time there is
// here, and not more often than it is worth.
func sweepEvery(ttl time.Duration) time.Duration {
	return min(max(ttl/24, time.Second), 10*time.Minute)
}

// expire takes away artifacts whose time is over, until ctx ends.
func (h *Host) expire(ctx context.Context, ledger *runlog.Ledger) {
	if h.ports.Artifacts == nil {
		return
	}
	e := &capture.Expirer{Store: h.ports.Artifacts, Runs: ledger, Workflows: h.workflows(ledger), TTL: h.cfg.ArtifactTTL}
	h.keeping.Go(func() {
		tick := time.NewTicker(sweepEvery(h.cfg.ArtifactTTL))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				swept, err := e.Sweep(ctx, now)
				if err != nil && ctx.Err() == nil {
					h.log.Warn().Err(err).Msg("artifacts not swept, will try again")
				}
				if swept.Artifacts+swept.Litter > 0 {
					h.log.Info().Int("artifacts", swept.Artifacts).Int64("bytes", swept.Bytes).Int("litter", swept.Litter).Msg("artifacts expired")
				}
			}
		}
	})
}
