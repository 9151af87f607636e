package service

import (
	"context"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/streaming"
)

// Feed is where one role publishes what comes, and which answers those who come late, for the life of ctx. Nil
// publishes nothing.
func (in *Instance) Feed(ctx context.Context, cfg Live) (*streaming.Feed, error) {
	names, err := streaming.Names(cfg.Streaming)
	if err != nil || len(names) == 0 || in.Ports.Live == nil {
		return nil, err
	}
	from := map[string]streaming.Publisher{streaming.ByNATS: in.Ports.Live}
	if in.Ports.Retained != nil {
		from[streaming.ByJetStream] = in.Ports.Retained
	}
	if in.Ports.Replayed != nil {
		from[streaming.ToChannel] = streaming.Channel(in.Ports.Replayed)
	}
	out, err := streaming.Choose(cfg.Streaming, from)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_STREAMING: %w", err)
	}
	f := streaming.New(out)
	if in.Ports.AnswerSoFar == nil || slices.Equal(names, []string{streaming.ToChannel}) {
		return f, nil
	}
	stop, err := in.Ports.AnswerSoFar(f.SoFar)
	if err != nil {
		return nil, fmt.Errorf("answer those who watch late: %w", err)
	}
	context.AfterFunc(ctx, stop)
	return f, nil
}
