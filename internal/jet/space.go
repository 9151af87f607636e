package jet

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// day is what the growth of a stream is measured over, and leastDay the shortest time that says anything about it.
const (
	day      = 24 * time.Hour
	leastDay = 10 * time.Minute
)

// Space returns what the streams of the station take, in the order of the table. The buckets are those of all stations
// of the account.
func (s *Station) Space(ctx context.Context, now time.Time) ([]events.Space, error) {
	var all []events.Space
	for _, st := range s.c.cfg.Buckets.Streams(s.name, topology.Limits{}) {
		var info struct {
			Config struct {
				MaxBytes int64 `json:"max_bytes"`
			} `json:"config"`
			State struct {
				Bytes    int64     `json:"bytes"`
				Messages uint64    `json:"messages"`
				First    time.Time `json:"first_ts"`
				Last     uint64    `json:"last_seq"`
			} `json:"state"`
		}
		if err := s.c.api(ctx, "STREAM.INFO."+st.Name, nil, &info); err != nil {
			return nil, fmt.Errorf("size of stream %s: %w", st.Name, err)
		}
		of := events.Space{Stream: st.Name, Holds: st.Description, Messages: info.State.Messages, Bytes: info.State.Bytes,
			Limit: max(0, info.Config.MaxBytes)}
		if over := min(day, now.Sub(info.State.First)); st.Name == topology.Log(s.name) && info.State.Messages > 0 &&
			over >= leastDay {
			recent, err := s.since(ctx, now.Add(-over), info.State.Last)
			if err != nil {
				return nil, err
			}
			mean := float64(info.State.Bytes) / float64(info.State.Messages)
			of.PerDay = int64(mean * float64(recent) * float64(day) / float64(over))
		}
		all = append(all, of)
	}
	return all, nil
}

// since counts the events of the log from a time on, of which the last one is known.
func (s *Station) since(ctx context.Context, from time.Time, last uint64) (uint64, error) {
	page, err := s.c.direct(ctx, topology.Log(s.name),
		directRequest{Since: &from, NextFor: topology.LoggedEvents(s.name), Batch: 1})
	if err != nil {
		return 0, fmt.Errorf("growth of the log: %w", err)
	}
	if len(page.messages) == 0 || page.messages[0].seq > last {
		return 0, nil
	}
	return last - page.messages[0].seq + 1, nil
}
