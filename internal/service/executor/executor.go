// Package executor makes the executor of a station from its settings.
package executor

import (
	"context"

	"github.com/inspan/inspan/internal/memory"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/models"
	"github.com/inspan/inspan/internal/toolbox"
	"github.com/inspan/inspan/internal/tools/specs"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/executor"
)

// Config is what the program reads.
type Config struct {
	service.Base
	service.Models
	service.Live
}

// Program is the executor as a program of its own: it knows the tools by what they say of themselves and links none.
func Program() service.Program {
	var cfg Config
	return service.Program{Role: events.Executor, Config: &cfg, Base: &cfg.Base, Wire: func() (service.Wiring, error) {
		known, err := specs.Registry()
		return Wire(cfg, toolbox.New(known, nil), nil), err
	}}
}

// Wire makes the executor. asked may be nil for the models of the configured providers.
func Wire(cfg Config, tools *toolbox.Toolbox, asked models.Models) service.Wiring {
	if asked == nil {
		asked = models.New(cfg.Models)
	}
	return service.Wiring{Role: events.Executor,
		Start: func(ctx context.Context, in *service.Instance) (service.Work, error) {
			ends, err := in.Ends(ctx)
			if err != nil {
				return service.Work{}, err
			}
			feed, err := in.Feed(ctx, cfg.Live)
			if err != nil {
				return service.Work{}, err
			}
			interrupts := executor.NewInterrupts()
			in.SubscribeRepublished(ctx, interrupts.Republished)
			role, err := executor.New(executor.Config{Ledger: in.Ledger, Timers: in.Ports.Timers, Blobs: in.Ports.Blobs,
				Live: feed, Ends: ends, Interrupts: interrupts,
				Models: asked, Tools: tools.Base(), ToolsOf: tools.For, Hooks: in.Asker,
				Mail: mail(in.Ports.Sessions), MaxWait: cfg.ModelMaxWait, Timeout: cfg.ModelTimeout,
				Talks: memory.Share(64, executor.DefaultTalks, 256<<20)})
			return service.Work{Role: role}, err
		}}
}
