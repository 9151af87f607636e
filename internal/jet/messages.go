package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/intake"
	"github.com/inspan/inspan/pkg/events"
)

// Messages are those of others, in the account of this connection.
type Messages struct{ c *Conn }

var _ intake.Source = Messages{}

// MessagesOf returns the messages of others in the account of a connection.
func MessagesOf(c *Conn) Messages { return Messages{c} }

const (
	// messageWait is how long one that was given out may go without an answer.
	messageWait = time.Minute
	// maxWaiting is how many messages that no stream holds wait for their turn.
	maxWaiting = 256
	// positionKept is how long a stream remembers how far a subscription is that no one follows.
	positionKept = 7 * 24 * time.Hour
	// laterFirst and laterMost are when a message comes again that could not be taken.
	laterFirst = time.Second
	laterMost  = time.Minute
	// pullWait is how long one request for a message waits.
	pullWait = 10 * time.Second
)

// Follow implements intake.Source. A subject that a stream holds is followed there; else what is published is taken as
// it comes.
func (m Messages) Follow(ctx context.Context, f intake.Following) error {
	if err := m.c.Ready(ctx); err != nil {
		return err
	}
	name, err := m.holder(ctx, f.Subject)
	if err != nil {
		return err
	}
	if name == "" {
		return m.core(ctx, f)
	}
	return m.stream(ctx, f, name)
}

// holder is the stream that holds a subject, "" where none does, or where this user cannot ask.
func (m Messages) holder(ctx context.Context, subject string) (string, error) {
	var found struct {
		Streams []string `json:"streams"`
	}
	err := m.c.api(ctx, "STREAM.NAMES", map[string]string{"subject": subject}, &found)
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, ErrDenied),
		errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabledForAccount ||
			api.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabled):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("find the stream of %s: %w", subject, err)
	case len(found.Streams) == 0:
		return "", nil
	case len(found.Streams) > 1:
		return "", fmt.Errorf("the streams %v hold parts of %s: subscribe to the subjects of one", found.Streams, subject)
	}
	return found.Streams[0], nil
}

// stream follows a subject by a durable consumer, which all who follow it by the same name share.
func (m Messages) stream(ctx context.Context, f intake.Following, name string) error {
	s, err := m.c.js.Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	info := s.CachedInfo()
	if !coversAll(info.Config.Subjects, f.Subject) {
		return fmt.Errorf("the stream %s holds a part of %s, with the subjects %v: subscribe to those", name, f.Subject,
			info.Config.Subjects)
	}
	from := jetstream.DeliverNewPolicy // what was there before the subscription starts nothing
	if info.Config.Retention == jetstream.WorkQueuePolicy {
		from = jetstream.DeliverAllPolicy // such a stream has no other, and what is there waits for someone
	}
	consumer, err := s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: f.Name, FilterSubject: f.Subject,
		DeliverPolicy: from, AckPolicy: jetstream.AckExplicitPolicy, AckWait: messageWait, MaxDeliver: -1,
		InactiveThreshold: positionKept, Description: "starts runs of agents of Inspan"})
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", f.Name, name, err)
	}
	for ctx.Err() == nil {
		if err := f.Ready(ctx); err != nil {
			return err
		}
		if err := m.next(ctx, f, consumer, info); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// next takes the next message of a consumer, if one comes.
func (m Messages) next(ctx context.Context, f intake.Following, c jetstream.Consumer,
	info *jetstream.StreamInfo) error {
	wait, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	msg, err := c.Next(jetstream.FetchContext(wait))
	if wait.Err() != nil || errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) {
		if msg == nil {
			return nil
		}
		err = nil
	}
	if err != nil {
		return fmt.Errorf("next message of %s: %w", f.Subject, err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("message of %s: %w", f.Subject, err)
	}
	// A stream of the same name that was made anew counts from 1 again: when it was made tells the two apart.
	id := fmt.Sprintf("stream %s %d %d", meta.Stream, info.Created.UnixNano(), meta.Sequence.Stream)
	// What was begun is ended, also where the subscription ends meanwhile.
	taken := f.Take(context.WithoutCancel(ctx), intake.Message{Subject: msg.Subject(), Data: msg.Data(), ID: id,
		Stored: true})
	if taken != nil {
		later := min(laterFirst<<min(meta.NumDelivered-1, 10), laterMost)
		m.c.cfg.Log.Warn().Err(taken).Str("subject", msg.Subject()).Dur("again_in", later).
			Msg("message not taken, will try again")
		err = msg.NakWithDelay(later)
	} else {
		err = msg.Ack()
	}
	if err != nil {
		return fmt.Errorf("answer for a message of %s: %w", f.Subject, err) // it comes again, as the same run
	}
	return nil
}

// coversAll reports whether the subjects of a stream are all of a pattern.
func coversAll(subjects []string, pattern string) bool {
	for _, s := range subjects {
		if events.SubjectCovers(s, pattern) {
			return true
		}
	}
	return false
}

// core takes messages as they are published: those that come while no one is there, or faster than they are taken, are
// lost.
func (m Messages) core(ctx context.Context, f intake.Following) error {
	waiting := make(chan *nats.Msg, maxWaiting) // what is taken in turn; never closed, a late message may be put in
	sub, err := m.c.nc.QueueSubscribe(f.Subject, f.Name, func(msg *nats.Msg) {
		select {
		case waiting <- msg:
		default:
			f.Lost(1)
		}
	})
	if err == nil {
		err = m.c.nc.FlushTimeout(requestWait) // the server knows of it
	}
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", f.Subject, err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // it fails only on a closed connection, where it is gone anyway
	look := time.NewTicker(pullWait)
	defer look.Stop()
	for {
		select {
		case msg := <-waiting:
			if err := m.one(ctx, f, msg); err != nil {
				return err
			}
		case <-look.C:
			// A stream that was made meanwhile holds what would be lost here.
			if name, err := m.holder(ctx, f.Subject); err == nil && name != "" {
				return fmt.Errorf("the stream %s holds the subject now", name)
			}
		case <-ctx.Done():
			return m.rest(f, sub, waiting)
		}
	}
}

// one takes a message that nothing stores.
func (m Messages) one(ctx context.Context, f intake.Following, msg *nats.Msg) error {
	if err := f.Ready(ctx); err != nil {
		f.Lost(1)
		return err
	}
	id := msg.Header.Get(nats.MsgIdHdr)
	if id != "" {
		id = "subject " + msg.Subject + " id " + id
	}
	err := f.Take(context.WithoutCancel(ctx), intake.Message{Subject: msg.Subject, Data: msg.Data, ID: id})
	if err != nil {
		m.c.cfg.Log.Error().Err(err).Str("subject", msg.Subject).Msg("message lost")
	}
	return nil
}

// rest ends a subscription: what waits is taken, as long as a stop may last.
func (m Messages) rest(f intake.Following, sub *nats.Subscription, waiting <-chan *nats.Msg) error {
	_ = sub.Unsubscribe() // it fails only on a closed connection, where it is gone anyway
	ctx, cancel := context.WithTimeout(context.Background(), restWait)
	defer cancel()
	for {
		select {
		case msg := <-waiting:
			if err := m.one(ctx, f, msg); err != nil {
				f.Lost(len(waiting))
				return err
			}
		default:
			return nil
		}
	}
}

// restWait is how long what waits may take at the end.
const restWait = 5 * time.Second
