package toolrunner

import (
	"fmt"
	"path/filepath"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

// keeper captures what calls make. Its lists are beside the workspaces: ids of runs and sessions never begin with a
// dot.
func (h *wiring) keeper(masked []secret.Value) (*capture.Keeper, error) {
	root, err := filepath.Abs(h.cfg.Workspace)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_WORKSPACE: %w", err)
	}
	ttls, err := artifact.ParseTTLs(h.cfg.ArtifactTTLs)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_ARTIFACT_TTL_PROJECTS: %w", err)
	}
	cfg := capture.Config{Store: h.in.Ports.Artifacts, Mode: h.cfg.Artifacts, TTL: h.cfg.ArtifactTTL, TTLs: ttls,
		MaxFile: h.cfg.MaxFileSize, Lists: filepath.Join(root, ".capture"), Mask: secret.Mask(masked...)}
	if cfg.Mode == service.ArtifactsOff {
		cfg.Mode, cfg.Off = events.StoredInBucket, true
	}
	return capture.New(cfg)
}
