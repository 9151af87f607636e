package jet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// LogState is what the server says of the log of a station.
type LogState struct {
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
	// Deleted counts the holes. Nothing can be erased through the station, so that any is damage.
	Deleted int `json:"num_deleted"`
	// Created is when the stream was made.
	Created time.Time `json:"-"`
}

// Stream is the state as marks have it.
func (l LogState) Stream() storecheck.Stream {
	return storecheck.Stream{Created: l.Created, First: l.First, Last: l.Last, Messages: l.Messages,
		Deleted: uint64(max(0, l.Deleted))} //nolint:gosec // not below 0
}

// Holes says what is missing in the log, or "".
func (l LogState) Holes() string {
	switch {
	case l.Deleted > 0:
		return fmt.Sprintf("the station's log has %d holes: events of some runs were erased", l.Deleted)
	case l.Last > 0 && l.First > 1:
		return fmt.Sprintf("the station's log begins with position %d: what stood before was erased", l.First)
	case l.Messages > 0 && l.Messages != l.Last-l.First+1:
		return fmt.Sprintf("the station's log has %d events in %d positions", l.Messages, l.Last-l.First+1)
	}
	return ""
}

// Log asks the leader about the log of the station.
func (s *Station) Log(ctx context.Context) (LogState, error) {
	var answer struct {
		Created time.Time `json:"created"`
		State   LogState  `json:"state"`
	}
	if err := s.c.api(ctx, "STREAM.INFO."+topology.Log(s.name), nil, &answer); err != nil {
		return LogState{}, fmt.Errorf("ask about the log of station %s: %w", s.name, err)
	}
	answer.State.Created = answer.Created
	return answer.State, nil
}

// Logged asks the leader which runs the log has events of, sorted.
func (s *Station) Logged(ctx context.Context) ([]string, error) {
	return s.LoggedOf(ctx, events.RunAggregate)
}

// LoggedOf is Logged for the aggregates of a name.
func (s *Station) LoggedOf(ctx context.Context, aggregate string) ([]string, error) {
	ids := map[string]bool{}
	for offset := 0; ; {
		var page struct {
			Total int `json:"total"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		ask := map[string]any{"subjects_filter": events.AggregateEvents(s.name, aggregate, "*"), "offset": offset}
		if err := s.c.api(ctx, "STREAM.INFO."+topology.Log(s.name), ask, &page); err != nil {
			return nil, fmt.Errorf("list each %s in the log of station %s: %w", aggregate, s.name, err)
		}
		for subject := range page.State.Subjects {
			if sub, ok := events.ParseAggregateSubject(subject); ok {
				ids[sub.ID] = true
			}
		}
		offset += len(page.State.Subjects)
		if len(page.State.Subjects) == 0 || offset >= page.Total {
			return slices.Sorted(maps.Keys(ids)), nil
		}
	}
}
