package station

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/sqlitestore"
	"github.com/inspan/inspan/pkg/events"
)

// LocalFile is a station without NATS, in its store.
const LocalFile = "station.db"

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
	cfg, err := s.config()
	if err != nil {
		return err
	}
	path := filepath.Join(s.cfg.StoreDir, LocalFile)
	if s.local, err = sqlitestore.Open(ctx, sqlitestore.Config{Path: path, Station: s.cfg.Station, Grace: cfg.Drain}); err != nil {
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
	_, mode, err := all.Sandboxes(ctx, cfg)
	if err != nil {
		return err
	}
	s.sandbox = string(mode)
	host, err := all.NewHost(cfg, all.Ports{Ports: ports}, s.cfg.Log, service.NewMetrics(), s.cfg.Tools...)
	if err != nil {
		return err
	}
	s.serveInOrder(s.work(), host)
	return nil
}

// Limits of the persister's last work, after the other roles have ended.
const (
	indexWait  = 5 * time.Second
	indexCheck = 2 * time.Millisecond
)

// serveInOrder runs the roles until work ends; the persister ends last, when it has read what the others appended. A command that
// only reads the file runs no role, so an index that is behind when the program ends would show an old state.
func (s *Station) serveInOrder(work context.Context, host *all.Host) {
	index, end := context.WithCancel(context.WithoutCancel(work))
	var others sync.WaitGroup
	for _, role := range events.Services() {
		if role == events.Persister {
			s.serve(index, host, role)
			continue
		}
		others.Add(1)
		s.roles.Go(func() {
			defer others.Done()
			s.runRole(work, host, role)
		})
	}
	s.roles.Go(func() {
		defer end()
		others.Wait()
		tick := time.NewTicker(indexCheck)
		defer tick.Stop()
		for limit := time.Now().Add(indexWait); s.local.Pending(events.Persister) > 0 && time.Now().Before(limit); {
			<-tick.C
		}
	})
}

// Local is the store of this process: the whole station where it does without NATS, else what stands in for its log.
func (s *Station) Local() *sqlitestore.Station { return s.local }
