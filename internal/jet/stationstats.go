package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// stationStats counts in the log and in the stores.
type stationStats struct {
	c       *Conn
	station string
}

var _ kernel.StationStats = stationStats{}

// StationStats tells how busy the station is.
func (s *Station) StationStats() kernel.StationStats { return stationStats{c: s.c, station: s.name} }

// Depth tells how many messages wait for a role, and how many it has and has not acknowledged.
func (s *Station) Depth(ctx context.Context, role events.Service) (waiting, open uint64, err error) {
	d, err := s.c.Consumers().Depth(ctx, s.name, role)
	return d.Waiting, d.Open, err
}

// Running implements kernel.StationStats.
func (n stationStats) Running(ctx context.Context) (int, error) {
	born, err := n.count(ctx, events.RunCreated, nil)
	if err != nil {
		return 0, err
	}
	for _, end := range []events.Kind{events.RunCompleted, events.RunFailed} {
		ended, err := n.count(ctx, end, nil)
		if err != nil {
			return 0, err
		}
		born -= ended
	}
	return max(0, born), nil // an end may have been counted whose beginning came after that was
}

// Created implements kernel.StationStats.
func (n stationStats) Created(ctx context.Context, since time.Time) (int, error) {
	return n.count(ctx, events.RunCreated, &since)
}

// count asks for the first event of a kind: the answer tells how many are behind it.
func (n stationStats) count(ctx context.Context, k events.Kind, since *time.Time) (int, error) {
	page, err := n.c.direct(ctx, topology.Log(n.station), directRequest{Since: since,
		NextFor: events.RunEventsOfKind(n.station, k), Batch: 1})
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", k, err)
	}
	return len(page.messages) + int(page.pending), nil
}

// Fills implements kernel.StationStats. A server tells of itself only in this process, or on a monitoring port that the
// configuration names; the limits of streams and of the account are told to everybody.
func (n stationStats) Fills(ctx context.Context) ([]kernel.Fill, error) {
	fills, err := n.streams(ctx)
	if err != nil {
		return nil, err
	}
	var account struct {
		Storage int64 `json:"storage"`
		Limits  struct {
			MaxStorage int64 `json:"max_storage"`
		} `json:"limits"`
	}
	// A user of an older set-up may not ask; what the streams and the server tell still holds.
	if err := n.c.api(ctx, "INFO", nil, &account); err != nil && !errors.Is(err, ErrDenied) {
		return nil, fmt.Errorf("limits of the account: %w", err)
	}
	fills = add(fills, "the storage of the account", account.Storage, account.Limits.MaxStorage)
	if s, ok := n.c.cfg.InProcess.(Embedded); ok {
		return append(fills, s.Fills()...), nil
	}
	for _, base := range n.c.cfg.Monitors {
		page, err := storageOf(ctx, base)
		if err != nil {
			// No task waits for a monitoring port: the other limits still hold, and the server's own refusal does.
			n.c.cfg.Log.Warn().Err(err).Str("monitor", redactURL(base)).Msg("storage of the server not read")
			continue
		}
		fills = add(fills, "the server's storage", page.Storage, page.Config.MaxStorage)
	}
	return fills, nil
}

// streams are those that refuse what does not fit and that runs write to.
func (n stationStats) streams(ctx context.Context) ([]kernel.Fill, error) {
	var fills []kernel.Fill
	for _, st := range n.c.cfg.Buckets.Streams(n.station, topology.Limits{}) {
		if !st.DiscardNew || st.Name == topology.In(n.station) {
			continue
		}
		var info struct {
			Config struct {
				MaxBytes int64 `json:"max_bytes"`
			} `json:"config"`
			State struct {
				Bytes int64 `json:"bytes"`
			} `json:"state"`
		}
		if err := n.c.api(ctx, "STREAM.INFO."+st.Name, nil, &info); err != nil {
			return nil, fmt.Errorf("size of stream %s: %w", st.Name, err)
		}
		fills = add(fills, "the stream "+st.Name, info.State.Bytes, info.Config.MaxBytes)
	}
	return fills, nil
}

func add(fills []kernel.Fill, store string, used, limit int64) []kernel.Fill {
	if limit <= 0 {
		return fills
	}
	return append(fills, kernel.Fill{Store: store, Used: used, Limit: limit})
}

// storagePage is the part of a server's monitoring answer that says how much it stores.
type storagePage struct {
	Storage int64 `json:"storage"`
	Config  struct {
		MaxStorage int64 `json:"max_storage"`
	} `json:"config"`
}

func storageOf(ctx context.Context, base string) (page storagePage, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/jsz?config=true", nil)
	if err != nil {
		return page, errors.New("not a URL such as http://host:8222")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return page, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return page, fmt.Errorf("status %s", resp.Status)
	}
	return page, json.NewDecoder(io.LimitReader(resp.Body, maxPage)).Decode(&page)
}
