package mem

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

type census struct{ s *Station }

var _ kernel.Census = census{}

// Census tells how busy the station is. Its one store is the log, counted in facts.
func (s *Station) Census() kernel.Census { return census{s} }

// Running implements kernel.Census.
func (c census) Running(context.Context) (int, error) {
	return c.count(events.RunCreated, time.Time{}) - c.count(events.RunCompleted, time.Time{}) - c.count(events.RunFailed, time.Time{}), nil
}

// Created implements kernel.Census.
func (c census) Created(_ context.Context, since time.Time) (int, error) {
	return c.count(events.RunCreated, since), nil
}

func (c census) count(k events.Kind, since time.Time) int {
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

// Fills implements kernel.Census.
func (c census) Fills(context.Context) ([]kernel.Fill, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.cfg.MaxFacts == 0 {
		return nil, nil
	}
	return []kernel.Fill{{Store: "the log", Used: int64(len(c.s.log)), Limit: int64(c.s.cfg.MaxFacts)}}, nil
}
