package jet

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/topology"
)

// Space is what one stream of a station takes.
type Space struct {
	Stream string `json:"stream"`
	// Holds says what is in it.
	Holds    string `json:"holds"`
	Messages uint64 `json:"messages"`
	Bytes    int64  `json:"bytes"`
	// Limit is 0 where the stream has none of its own.
	Limit int64 `json:"limit,omitempty"`
	// PerDay is by how many bytes a stream grows that lets nothing go, as it did in the last day; a station that is younger
	// is not asked for more than it has. It follows from the number of messages and their mean size.
	PerDay int64 `json:"per_day,omitempty"`
}

// SpaceWarns is the share of a limit from which on a stream is to be looked at, and SpaceSoon how long before it is full.
const (
	SpaceWarns = 0.8
	SpaceSoon  = 7 * 24 * time.Hour
)

// day is what the growth of a stream is measured over, and leastDay the shortest time that says anything about it.
const (
	day      = 24 * time.Hour
	leastDay = 10 * time.Minute
)

// Share is how much of its limit the stream has used; 0 without one.
func (s Space) Share() float64 {
	if s.Limit <= 0 {
		return 0
	}
	return float64(s.Bytes) / float64(s.Limit)
}

// FullIn is how long the stream has room for if it grows as it did; ok is false where that is not known, or never.
func (s Space) FullIn() (d time.Duration, ok bool) {
	if s.Limit <= 0 || s.PerDay <= 0 {
		return 0, false
	}
	days := float64(max(0, s.Limit-s.Bytes)) / float64(s.PerDay)
	if days > 3650 { // ten years, and no duration has room for much more
		return 0, false
	}
	return time.Duration(days * float64(day)), true
}

// Warns reports whether somebody should make room.
func (s Space) Warns() bool {
	in, ok := s.FullIn()
	return s.Share() >= SpaceWarns || ok && in < SpaceSoon
}

// Space returns what the streams of the station take, in the order of the table. The buckets are those of all stations of
// the account.
func (s *Station) Space(ctx context.Context, now time.Time) ([]Space, error) {
	var all []Space
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
		of := Space{Stream: st.Name, Holds: st.Description, Messages: info.State.Messages, Bytes: info.State.Bytes,
			Limit: max(0, info.Config.MaxBytes)}
		if over := min(day, now.Sub(info.State.First)); st.Name == topology.Log(s.name) && info.State.Messages > 0 && over >= leastDay {
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
	page, err := s.c.direct(ctx, topology.Log(s.name), directRequest{Since: &from, NextFor: topology.LoggedEvents(s.name), Batch: 1})
	if err != nil {
		return 0, fmt.Errorf("growth of the log: %w", err)
	}
	if len(page.messages) == 0 || page.messages[0].seq > last {
		return 0, nil
	}
	return last - page.messages[0].seq + 1, nil
}
