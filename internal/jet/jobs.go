package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/intake"
)

// aliveEvery is how often the stream is told that a job is under way.
const aliveEvery = messageWait / 3

// Jobs gives the messages of a subject, which a stream must hold, to do until ctx ends; most of them at the same time.
// Each is acknowledged when do returns nil, and comes again otherwise: after a second to another follower of the same
// name where ctx has ended.
func (m Messages) Jobs(ctx context.Context, name, subject string, most int,
	do func(context.Context, intake.Message) error) error {
	if err := m.c.Ready(ctx); err != nil {
		return err
	}
	holder, err := m.holder(ctx, subject)
	if err == nil && holder == "" {
		err = fmt.Errorf("no stream holds %s: what is assigned there would be lost", subject)
	}
	if err != nil {
		return err
	}
	s, err := m.c.js.Stream(ctx, holder)
	if err != nil {
		return fmt.Errorf("stream %s: %w", holder, err)
	}
	consumer, err := s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: name, FilterSubject: subject,
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy, AckWait: messageWait,
		MaxDeliver: -1, Description: "assignments for agents of Inspan"})
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", name, holder, err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	room := make(chan struct{}, most) // one for each job that is under way
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		msg, err := m.pull(ctx, consumer)
		if err != nil {
			return fmt.Errorf("next job of %s: %w", subject, err)
		}
		if msg == nil {
			<-room
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		running.Go(func() {
			defer func() { <-room }()
			m.job(ctx, msg, do)
		})
	}
}

// pull waits for a message; nil where none came in time.
func (m Messages) pull(ctx context.Context, c jetstream.Consumer) (jetstream.Msg, error) {
	wait, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	msg, err := c.Next(jetstream.FetchContext(wait))
	if msg != nil || wait.Err() != nil || errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) {
		return msg, nil
	}
	return nil, err
}

// job does one.
func (m Messages) job(ctx context.Context, msg jetstream.Msg, do func(context.Context, intake.Message) error) {
	ended := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = msg.InProgress() // where it is lost the job comes again, and is the same
			case <-ended:
				return
			}
		}
	})
	err := do(ctx, intake.Message{Subject: msg.Subject(), Data: msg.Data(), Stored: true})
	close(ended)
	telling.Wait()
	switch {
	case err == nil:
		err = msg.Ack()
	case ctx.Err() != nil: // a moment later, when the server knows that this follower asks for no more
		err = msg.NakWithDelay(laterFirst)
	default:
		m.c.cfg.Log.Warn().Err(err).Str("subject", msg.Subject()).Dur("again_in",
			laterFirst).Msg("job not done, will try again")
		err = msg.NakWithDelay(laterMost / 6)
	}
	if err != nil {
		m.c.cfg.Log.Warn().Err(err).Str("subject", msg.Subject()).Msg("job not acknowledged, it comes again")
	}
}

// Once stores a message on a subject that has none yet, in the stream that holds it. One that is there already counts
// as stored: whoever asks twice says the same.
func (m Messages) Once(ctx context.Context, subject string, data []byte) error {
	msg := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	_, err := m.c.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(0))
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return nil
	}
	if err != nil {
		return fmt.Errorf("store on %s: %w", subject, err)
	}
	return nil
}
