package jet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/pkg/events"
)

var _ hooks.Requester = (*Station)(nil)

// AskHook implements hooks.Requester. The first answer counts; it is waited for until ctx ends.
func (s *Station) AskHook(ctx context.Context, role events.Service, name string, question []byte) ([]byte, error) {
	if err := s.c.Ready(ctx); err != nil {
		return nil, err
	}
	subject, answers := events.HookSubject(s.name, name), events.HookedSubject(s.name, role, rand.Text())
	sub, err := s.c.nc.SubscribeSync(answers)
	if err != nil {
		return nil, fmt.Errorf("listen for the answer of %s: %w", subject, err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // it fails only on a closed connection, where it is gone anyway
	watched, done := s.c.denied.watch(ctx, subject)
	defer done()
	if err := s.c.nc.PublishRequest(subject, answers, question); err != nil {
		return nil, fmt.Errorf("ask on %s: %w", subject, err)
	}
	m, err := sub.NextMsgWithContext(watched)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("ask on %s: %w", subject, hooks.ErrNoResponders)
	case err != nil && context.Cause(watched) != nil:
		return nil, fmt.Errorf("ask on %s: %w", subject, context.Cause(watched))
	case err != nil:
		return nil, fmt.Errorf("ask on %s: %w", subject, err)
	case len(m.Data) > hook.MaxAnswer:
		return nil, fmt.Errorf("ask on %s: %w", subject, hooks.ErrFlood)
	}
	return m.Data, nil
}

// AnswerHook answers the questions on the subject of a hook until stop is called; for tests and small responders.
func (s *Station) AnswerHook(name string, answer func(question []byte) []byte) (stop func() error, err error) {
	sub, err := s.c.nc.Subscribe(events.HookSubject(s.name, name), func(m *nats.Msg) {
		if b := answer(m.Data); b != nil {
			_ = m.Respond(b) // whoever asked takes no answer for a block
		}
	})
	if err != nil {
		return nil, fmt.Errorf("answer hook %s: %w", name, err)
	}
	return sub.Unsubscribe, s.c.nc.Flush()
}
