// Package persister makes the persister of a station from its settings: the views, the signed heads, the archive, and
// the end of artifacts whose time is over.
package persister

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/archive/at"
	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/memory"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/persister"
)

// Config is what the program reads.
type Config struct {
	service.Base
	service.Archives
	service.Capture
}

// Program is the persister as a program of its own.
func Program() service.Program {
	var cfg Config
	return service.Program{Role: events.Persister, Config: &cfg, Base: &cfg.Base, Wire: func() (service.Wiring,
		error) {
		return Wire(cfg), nil
	}}
}

// Wire makes the persister.
func Wire(cfg Config) service.Wiring {
	return service.Wiring{Role: events.Persister,
		Start: func(ctx context.Context, in *service.Instance) (service.Work, error) {
			keep, stop := context.WithCancel(context.WithoutCancel(ctx))
			k := &keeping{cfg: cfg, in: in}
			role, err := k.start(ctx, keep)
			if err != nil {
				stop()
				k.background.Wait()
				return service.Work{}, err
			}
			// The loop first: what it is handling when it ends is saved too.
			return service.Work{Role: role, DefaultWorkers: true, Around: func(run service.Run) service.Run {
				return func(ctx context.Context) error {
					defer k.background.Wait()
					defer stop()
					return run(ctx)
				}
			}}, nil
		}}
}

// keeping is what goes on beside the role.
type keeping struct {
	cfg        Config
	in         *service.Instance
	background sync.WaitGroup
}

func (k *keeping) start(ctx, keep context.Context) (*persister.Role, error) {
	p := k.in.Ports
	sign, err := k.signer(ctx)
	if err != nil {
		return nil, err
	}
	keeper, err := k.archive(keep)
	if err != nil {
		return nil, err
	}
	cfg := persister.Config{Ledger: k.in.Ledger, Journal: p.Journal, KV: p.State, Blobs: p.Blobs,
		Snapshots: k.in.Snapshots(), Local: k.in.LocalSnapshots(), Log: k.in.Log, Ending: ctx.Done(),
		Ended: k.in.Workflows().Ended, Recent: memory.Share(128, persister.DefaultRecent, 128<<20)}
	if sign != nil {
		cfg.Sign = sign.key
		if sign.path != "" {
			k.background.Go(func() { sign.follow(keep) })
		}
	}
	if keeper != nil {
		cfg.Archive = keeper
	}
	k.expire(keep)
	role, err := persister.New(cfg)
	if err == nil {
		k.in.SubscribeRepublished(ctx, role.Republished)
	}
	return role, err
}

// archive opens the archive, where one is configured, and keeps it until ctx has ended and all that was touched is
// saved.
func (k *keeping) archive(ctx context.Context) (*archive.Keeper, error) {
	if k.cfg.Archive == "" {
		return nil, nil
	}
	dir, err := at.Create(k.cfg.Archive)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_ARCHIVE: %w", err)
	}
	p := k.in.Ports
	var workspaces archive.Workspaces
	if p.TreeLog != nil && p.Trees != nil {
		workspaces, err = treelog.New(treelog.Config{Station: k.cfg.Station, By: events.Persister, Journal: p.TreeLog,
			Rows: p.Trees, Entropy: p.Entropy})
		if err != nil {
			return nil, errors.Join(err, dir.Close())
		}
	}
	keeper, err := archive.NewKeeper(&archive.Saver{Dir: dir, Station: k.cfg.Station, Journal: p.Journal, Blobs: p.Blobs,
		State: p.State, Config: p.Config,
		Workspaces: workspaces, Trees: p.Trees, Artifacts: p.Artifacts, MostBytes: k.cfg.ArchiveFiles}, k.archiveEvery(),
		k.in.Log)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	k.in.ShowArchive(keeper.Waits)
	k.background.Go(func() {
		keeper.Run(ctx)
		if err := dir.Close(); err != nil {
			k.in.Log.Warn().Err(err).Msg("archive not closed")
		}
	})
	return keeper, nil
}

func (k *keeping) archiveEvery() time.Duration {
	if k.cfg.ArchiveEvery <= 0 {
		return 30 * time.Second
	}
	return k.cfg.ArchiveEvery
}

// sweepEvery is how often a persister looks for artifacts whose time is over: often enough for the shortest time there
// is here, and not more often than it is worth.
func sweepEvery(ttl time.Duration) time.Duration {
	return min(max(ttl/24, time.Second), 10*time.Minute)
}

// expire takes away artifacts whose time is over, until ctx ends.
func (k *keeping) expire(ctx context.Context) {
	if k.in.Ports.Artifacts == nil {
		return
	}
	e := &capture.Expirer{Store: k.in.Ports.Artifacts, Runs: k.in.Ledger, Workflows: k.in.Workflows(),
		TTL: k.cfg.ArtifactTTL}
	k.background.Go(func() {
		tick := time.NewTicker(sweepEvery(k.cfg.ArtifactTTL))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				swept, err := e.Sweep(ctx, now)
				if err != nil && ctx.Err() == nil {
					k.in.Log.Warn().Err(err).Msg("artifacts not swept, will try again")
				}
				if swept.Artifacts+swept.Litter > 0 {
					k.in.Log.Info().Int("artifacts", swept.Artifacts).Int64("bytes", swept.Bytes).Int("litter",
						swept.Litter).Msg("artifacts expired")
				}
			}
		}
	})
}
