package jet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/served"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool/wire"
)

var _ served.Caller = (*Station)(nil)

// Limits of the replies of one tool server that wait to be received. A server that sends more than is received is lost.
const (
	maxReplies    = 8 << 10
	maxReplyBytes = 32 << 20
)

// toolCall is one request to a tool server.
type toolCall struct {
	s              *Station
	subject, token string
	sub            *nats.Subscription
	denied         context.Context
	done           func()
}

// CallTool implements served.Caller. The request is sent when it returns; whether it reached a server shows in what is
// received.
func (s *Station) CallTool(ctx context.Context, name string, request []byte) (served.Exchange, error) {
	if err := s.c.Ready(ctx); err != nil {
		return nil, err
	}
	x := &toolCall{s: s, subject: events.ToolSubject(s.name, name), token: rand.Text()}
	var err error
	if x.sub, err = s.c.nc.SubscribeSync(events.ToolReplySubject(s.name, x.token)); err != nil {
		return nil, fmt.Errorf("listen for the replies of %s: %w", x.subject, err)
	}
	if err := x.sub.SetPendingLimits(maxReplies, maxReplyBytes); err != nil {
		_ = x.sub.Unsubscribe() // it fails only on a closed connection, where it is gone anyway
		return nil, fmt.Errorf("listen for the replies of %s: %w", x.subject, err)
	}
	x.denied, x.done = s.c.denied.watch(context.WithoutCancel(ctx), x.subject)
	if err := s.c.nc.PublishRequest(x.subject, x.sub.Subject, request); err != nil {
		x.Close()
		return nil, fmt.Errorf("call on %s: %w", x.subject, err)
	}
	return x, nil
}

// Receive implements served.Exchange.
func (x *toolCall) Receive(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(x.denied, func() { cancel(context.Cause(x.denied)) })()
	m, err := x.sub.NextMsgWithContext(ctx)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("call on %s: %w", x.subject, served.ErrNoServer)
	case err != nil && x.denied.Err() != nil:
		return nil, fmt.Errorf("call on %s: %w", x.subject, context.Cause(x.denied))
	case err != nil:
		return nil, fmt.Errorf("call on %s: %w", x.subject, err)
	}
	return m.Data, nil
}

// Send implements served.Exchange.
func (x *toolCall) Send(control []byte) error {
	if err := x.s.c.nc.Publish(events.ToolControlSubject(x.s.name, x.token), control); err != nil {
		return fmt.Errorf("control of %s: %w", x.subject, err)
	}
	return nil
}

// Close implements served.Exchange.
func (x *toolCall) Close() {
	x.done()
	_ = x.sub.Unsubscribe() // it fails only on a closed connection, where it is gone anyway
}

// maxSpecs is the most answers that are read of those who serve tools.
const maxSpecs = 4096

// Served asks all tool servers what they serve, and gathers the answers that come before ctx ends. The same tool comes
// once for each program that serves it.
func (s *Station) Served(ctx context.Context) ([]wire.Spec, error) {
	if err := s.c.Ready(ctx); err != nil {
		return nil, err
	}
	subject, answers := events.ToolsSubject(s.name), events.ToolSpecSubject(s.name, rand.Text())
	sub, err := s.c.nc.SubscribeSync(answers)
	if err != nil {
		return nil, fmt.Errorf("listen for what is served: %w", err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // it fails only on a closed connection, where it is gone anyway
	watched, done := s.c.denied.watch(ctx, subject)
	defer done()
	if err := s.c.nc.PublishRequest(subject, answers, nil); err != nil {
		return nil, fmt.Errorf("ask on %s: %w", subject, err)
	}
	var all []wire.Spec
	for len(all) < maxSpecs {
		m, err := sub.NextMsgWithContext(watched)
		switch {
		case errors.Is(err, nats.ErrNoResponders) || ctx.Err() != nil:
			return all, nil
		case err != nil && context.Cause(watched) != nil:
			return nil, fmt.Errorf("ask on %s: %w", subject, context.Cause(watched))
		case err != nil:
			return nil, fmt.Errorf("ask on %s: %w", subject, err)
		}
		var spec wire.Spec
		if json.Unmarshal(m.Data, &spec) == nil && spec.Check() == nil { // what does not hold is offered to no one
			all = append(all, spec)
		}
	}
	return all, nil
}
