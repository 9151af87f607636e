package mem

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

type stationStats struct{ s *Station }

var _ kernel.StationStats = stationStats{}

// Census tells how busy the station is. Its one store is the log, counted in events.
func (s *Station) StationStats() kernel.StationStats { return stationStats{s} }

// Running implements kernel.StationStats.
func (c stationStats) Running(context.Context) (int, error) {
	return c.count(events.RunCreated, time.Time{}) - c.count(events.RunCompleted, time.Time{}) - c.count(events.RunFailed,
		time.Time{}), nil
}

// Created implements kernel.StationStats.
func (c stationStats) Created(_ context.Context, since time.Time) (int, error) {
	return c.count(events.RunCreated, since), nil
}

func (c stationStats) count(k events.Kind, since time.Time) int {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	n := 0
	for _, f := range c.s.log {
		if aggregate, _ := kernel.ParseKey(f.key); aggregate == events.RunAggregate && f.kind == k && !f.at.Before(since) {
			n++
		}
	}
	return n
}

// Fills implements kernel.StationStats.
func (c stationStats) Fills(context.Context) ([]kernel.Fill, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.cfg.MaxEvents == 0 {
		return nil, nil
	}
	return []kernel.Fill{{Store: "the log", Used: int64(len(c.s.log)), Limit: int64(c.s.cfg.MaxEvents)}}, nil
}
