package station

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
)

// LocalFile is a station without NATS, in its store.
const LocalFile = "station.bolt"

// HasLocal reports whether a folder has a local store, of this version or of an earlier one, which says what to do.
func HasLocal(dir string) bool {
	path := filepath.Join(dir, LocalFile)
	for _, p := range []string{path, localstore.EarlierPath(path)} {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// alone starts a station without NATS: its file is log, queues and stores.
func (s *Station) alone(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return nil
}

func (s *Station) open(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.StoreDir, 0o755); err != nil {
		return fmt.Errorf("folder of the station: %w", err)
	}
	if err := ignored(s.cfg.StoreDir); err != nil {
		return err
	}
	cfg, err := s.cfg.service()
	if err != nil {
		return err
	}
	path := filepath.Join(s.cfg.StoreDir, LocalFile)
	if s.local, err = localstore.Open(ctx, localstore.Config{Path: path, Station: s.cfg.Station,
		Grace: cfg.Drain}); err != nil {
		return err
	}
	ports := Alone(s.local)
	ports.Replayed = s.cfg.Replayed
	s.durability = ports.Durability
	if err := service.RegisterAgents(ctx, ports.Config, cfg.Planning, s.cfg.Log); err != nil {
		return err
	}
	if s.cfg.Still {
		return nil
	}
	host, err := all.NewHost(cfg, all.Ports{Ports: ports}, s.cfg.Log, s.cfg.Metrics, s.cfg.Tools...)
	if err != nil {
		return err
	}
	mode, err := host.Sandboxes(ctx)
	if err != nil {
		return err
	}
	s.sandbox = string(mode)
	s.tasks.serveInOrder(s.tasks.work(), host, s.local)
	return nil
}

// Local is the store of this process: the whole station where it does without NATS, else what stands in for its log.
func (s *Station) Local() *localstore.Station { return s.local }
