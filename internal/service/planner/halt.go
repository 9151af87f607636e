package planner

import (
	"context"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/halts"
)

// always records halts and releases until ctx ends. One at a time: they are judged in the order in which they came.
func always(ctx context.Context, in *service.Instance) error {
	p := in.Ports
	l, err := service.Halts(p, in.Base.Station, events.Planner)
	if err != nil {
		return err
	}
	role, err := halts.New(l, p.Sessions)
	if err != nil {
		return err
	}
	loop, err := kernel.NewLoop(kernel.LoopConfig{Handlers: []kernel.Handler{role.Handler()},
		Inbox: p.HaltInbox, Refusals: p.Refusals, Log: in.Log, Workers: 1})
	if err != nil {
		return err
	}
	return loop.Run(ctx)
}
