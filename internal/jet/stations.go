package jet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// StationSummary is how large a station is and when its log last grew.
type StationSummary struct {
	// Runs have begun, Open ones have not ended.
	Runs, Open int
	// Events, Bytes and Limit are those of the log; Limit is 0 where it has none.
	Events uint64
	Bytes  int64
	Limit  int64
	// Last is when the last event was stored; zero where there is none.
	Last time.Time
}

// SummaryOf returns the summary of a station from its log: one request for the stream, and one for each kind of event
// that is counted, whatever the number of runs.
func SummaryOf(ctx context.Context, s *Station) (StationSummary, error) {
	var info struct {
		Config struct {
			MaxBytes int64 `json:"max_bytes"`
		} `json:"config"`
		State struct {
			Bytes    int64     `json:"bytes"`
			Messages uint64    `json:"messages"`
			Last     time.Time `json:"last_ts"`
		} `json:"state"`
	}
	err := s.c.api(ctx, "STREAM.INFO."+topology.Log(s.name), nil, &info)
	if code(err) == codeStreamNotFound {
		return StationSummary{}, fmt.Errorf("%w: station %s has no log there: inspan setup makes it", ErrNotSetUp, s.name)
	}
	if err != nil {
		return StationSummary{}, fmt.Errorf("log of station %s: %w", s.name, err)
	}
	out := StationSummary{Events: info.State.Messages, Bytes: info.State.Bytes, Limit: max(0, info.Config.MaxBytes)}
	if info.State.Messages == 0 {
		return out, nil
	}
	out.Last = info.State.Last
	stats := stationStats{c: s.c, station: s.name}
	counts := map[events.Kind]int{}
	for _, k := range []events.Kind{events.RunCreated, events.RunCompleted, events.RunFailed, events.RunPruned} {
		n, err := stats.count(ctx, k, nil)
		if err != nil {
			return StationSummary{}, err
		}
		counts[k] = n
	}
	out.Runs = counts[events.RunCreated] + counts[events.RunPruned] // of a pruned run one event is left
	// An end may have been counted whose beginning was stored after the beginnings were.
	out.Open = max(0, counts[events.RunCreated]-counts[events.RunCompleted]-counts[events.RunFailed])
	return out, nil
}

// maxStreams bounds the pages of stream names that are asked for, which have 1024 names each.
const maxStreams = 64 << 10

// StationsOfAccount returns the stations whose streams are in the account that the requests of a connection reach, in
// the order of their names. It returns ErrDenied to a user who may not list streams: the users of a station with an
// account of its own, where there is no other station.
func StationsOfAccount(ctx context.Context, s *Station) ([]*Station, error) {
	var names []string
	for offset := 0; offset < maxStreams; {
		var page struct {
			Total   int      `json:"total"`
			Streams []string `json:"streams"`
		}
		if err := s.c.api(ctx, "STREAM.NAMES", map[string]int{"offset": offset}, &page); err != nil {
			return nil, fmt.Errorf("list the streams of the account: %w", err)
		}
		for _, stream := range page.Streams {
			if name, ok := strings.CutPrefix(stream, topology.Log("")); ok && events.ValidID(name) {
				names = append(names, name)
			}
		}
		if offset += len(page.Streams); len(page.Streams) == 0 || offset >= page.Total {
			break
		}
	}
	slices.Sort(names)
	all := make([]*Station, len(names))
	for i, name := range names {
		all[i] = &Station{c: s.c, name: name}
	}
	return all, nil
}
