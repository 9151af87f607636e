package jet

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// AnswerSoFar has answer called with the run of each watcher who asks what was said live so far, and sends each message
// that it returns, until stop is called. Only those are answered who ask with an inbox for the answer.
func (s *Station) AnswerSoFar(answer func(run string) [][]byte) (stop func(), err error) {
	subject := events.SoFarSubject(s.name, "*")
	sub, err := s.c.nc.Subscribe(subject, func(m *nats.Msg) {
		p, ok := events.ParseRunSubject(m.Subject)
		if !ok || !strings.HasPrefix(m.Reply, answerPrefix) {
			return
		}
		for _, said := range answer(p.Run) {
			_ = s.c.nc.Publish(m.Reply, said) // whoever asked may have gone
		}
	})
	if err != nil {
		return nil, fmt.Errorf("hear %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// SoFar has hear called with what is answered to ask, until stop is called: what the services at work on a run have
// said so far. No one answers for a run that no one works on. stop waits until hear has returned; hear must not call
// it.
func (s *Station) SoFar(ctx context.Context, run string,
	receive func(data []byte)) (ask func() error, stop func(), err error) {
	if err := events.CheckID("run", run); err != nil {
		return nil, nil, err
	}
	w := &watcher{see: func(seen Seen) { receive(seen.Data) }}
	answers, subject := nats.NewInbox(), events.SoFarSubject(s.name, run)
	sub, err := s.c.nc.Subscribe(answers, func(m *nats.Msg) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.ended && len(m.Data) > 0 { // an empty answer is the server's: no one is there
			w.see(Seen{Data: m.Data})
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listen for answers on %s: %w", subject, err)
	}
	w.subs = append(w.subs, sub)
	if err := s.c.subscribed(ctx, answers); err != nil {
		w.stop()
		return nil, nil, fmt.Errorf("listen for answers on %s: %w", subject, err)
	}
	release := context.AfterFunc(ctx, w.stop)
	return func() error { return s.c.nc.PublishRequest(subject, answers, nil) }, func() { release(); w.stop() }, nil
}

// Replay returns what the server has kept of what was said live of a run, after a position, oldest first, and the
// position of the last of it: nothing where the services do not have it kept. The oldest may be gone.
func (s *Station) Replay(ctx context.Context, run string, after uint64) (said [][]byte, last uint64, err error) {
	if err := events.CheckID("run", run); err != nil {
		return nil, after, err
	}
	for {
		page, err := s.c.direct(ctx, topology.Live(s.name), directRequest{Seq: after + 1,
			NextFor: events.RetainedSubject(s.name, run), Batch: pageEvents, MaxBytes: pageBytes})
		if err != nil {
			return said, after, fmt.Errorf("read what was said live of %s after %d: %w", run, after, err)
		}
		for _, m := range page.messages {
			said, after = append(said, m.Data), m.seq
		}
		if page.pending == 0 || len(page.messages) == 0 {
			return said, after, nil
		}
	}
}
