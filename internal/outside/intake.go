package outside

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/intake"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// newIntake makes what has messages start runs of a station.
func newIntake(cfg service.Messages, c *client.Client, source intake.Source, letters kernel.Refusals,
	log zerolog.Logger) (*intake.Intake, error) {
	return intake.New(intake.Config{Station: c.Station(), Source: source, Subjects: cfg.MessagesSubjects,
		Rate: float64(cfg.MessagesRate), Agents: c.Agents, Refuse: letters,
		Start: func(ctx context.Context, t events.Task) error { return start(ctx, c, t) },
		Report: func(agent, subject, what string, err error) {
			line := log.Info()
			if err != nil {
				line = log.Warn().Err(err)
			}
			line.Str("agent", agent).Str("subject", subject).Msg(what)
		}})
}

// start starts a run, unless there is one of that id: another message of that id is none.
func start(ctx context.Context, c *client.Client, t events.Task) error {
	for item, err := range c.Events(ctx, t.ID, 0) {
		if err == nil && item.State.Created != nil {
			return nil
		}
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			return err
		}
		break
	}
	_, err := c.Start(ctx, t)
	if _, stored := errors.AsType[*client.SilentError](err); stored {
		return nil // it begins when the services run
	}
	if _, refused := errors.AsType[*client.RefusedError](err); refused {
		return &intake.RefusedError{Err: err}
	}
	return err
}
