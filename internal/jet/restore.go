package jet

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

var _ backup.Target = (*Station)(nil)

// RenewIn implements backup.Target. The configuration stays; the consumers are made again.
func (s *Station) RenewIn(ctx context.Context, next uint64) error {
	stream := topology.In(s.name)
	var there jetstream.StreamInfo
	if err := s.c.api(ctx, "STREAM.INFO."+stream, nil, &there); err != nil {
		return fmt.Errorf("ask about stream %s: %w", stream, err)
	}
	cfg := there.Config
	cfg.FirstSeq = next
	if err := s.c.api(ctx, "STREAM.DELETE."+stream, nil, nil); err != nil {
		return fmt.Errorf("remove the empty stream %s: %w", stream, err)
	}
	if err := s.c.patiently(ctx, func() error { return s.c.api(ctx, "STREAM.CREATE."+stream, cfg, nil) }); err != nil {
		return fmt.Errorf("make stream %s again, from position %d: %w", stream, next, err)
	}
	return s.c.Setup().Apply(ctx, s.name, ApplyOptions{})
}

// PutInput implements backup.Target.
func (s *Station) PutInput(ctx context.Context, m backup.Message) error {
	_, err := s.c.publish(ctx, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}, topology.In(s.name))
	if err != nil {
		return fmt.Errorf("store an input on %s: %w", m.Subject, err)
	}
	return nil
}

// PutTimer implements backup.Target. A firing is a plain message: what made it is not there any more.
func (s *Station) PutTimer(ctx context.Context, family string, m backup.Message) error {
	out := &nats.Msg{Subject: m.Subject, Header: nats.Header{}, Data: m.Data}
	for _, name := range []string{headerSchedule, headerScheduleTarget, headerScheduleTTL, headerScheduleRollup} {
		if v := nats.Header(m.Header).Get(name); v != "" {
			out.Header.Set(name, v)
		}
	}
	if out.Header.Get(headerSchedule) == "" {
		out.Header.Set(headerTTL, strconv.Itoa(int(topology.DueAge.Seconds()))+"s")
	}
	out.Header.Set(headerRollup, "sub") // done twice it is there once
	if _, err := s.c.publish(ctx, out, topology.Tmr(s.name, family)); err != nil {
		return fmt.Errorf("store the timer %s: %w", m.Subject, err)
	}
	return nil
}

// headerExpectLast is the guard over a whole stream.
const headerExpectLast = "Nats-Expected-Last-Sequence"

// AppendLog implements backup.Target. The guard is over the whole stream, so that each event is at its position; no one
// else appends while a station is filled, which is what the guard of an aggregate is for.
func (s *Station) AppendLog(ctx context.Context, ms []backup.Message) error {
	inbox := s.c.nc.NewInbox()
	acks := make(chan *nats.Msg, len(ms)+1) // one for each event, and one to spare
	sub, err := s.c.nc.ChanSubscribe(inbox+".*", acks)
	if err != nil {
		return fmt.Errorf("append to the log: %w", err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // it fails only on a closed connection, where it is gone anyway
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	for _, m := range ms {
		out := &nats.Msg{Subject: m.Subject, Reply: inbox + "." + strconv.FormatUint(m.Seq, 10), Data: m.Data,
			Header: nats.Header{headerExpectLast: {strconv.FormatUint(m.Seq-1, 10)}}}
		for _, name := range []string{headerContentType, kernel.WholeHeader} {
			if v := nats.Header(m.Header).Get(name); v != "" {
				out.Header.Set(name, v)
			}
		}
		if err := s.c.nc.PublishMsg(out); err != nil {
			return fmt.Errorf("append event %d to the log: %w", m.Seq, err)
		}
	}
	watched, done := s.c.denied.watch(ctx, ms[0].Subject)
	defer done()
	for range ms {
		select {
		case answer := <-acks:
			at := answer.Subject[strings.LastIndexByte(answer.Subject, '.')+1:]
			if err := stored(answer, at); err != nil {
				return fmt.Errorf("append event %s to the log: %w", at, err)
			}
		case <-watched.Done():
			return fmt.Errorf("append %d events from %d on to the log: %w", len(ms), ms[0].Seq, context.Cause(watched))
		}
	}
	return nil
}

// stored reports why an event is not at the position that it must have.
func stored(answer *nats.Msg, at string) error {
	if answer.Header.Get("Status") == "503" {
		return nats.ErrNoResponders
	}
	ack, err := readAck(answer)
	if err != nil {
		return err
	}
	if strconv.FormatUint(ack.Seq, 10) != at {
		return fmt.Errorf("it was stored at %d", ack.Seq)
	}
	return nil
}

// PutValue implements backup.Target.
func (s *Station) PutValue(ctx context.Context, v backup.Value) error {
	if err := s.KV(v.Bucket).Put(ctx, v.Key, v.Value); err != nil {
		return fmt.Errorf("put %s into %s: %w", v.Key, v.Bucket, err)
	}
	return nil
}

// PutObject implements backup.Target.
func (s *Station) PutObject(ctx context.Context, o backup.Object, data []byte) error {
	var ref events.Ref
	var err error
	if o.Run != "" {
		ref, err = s.Artifacts().Put(ctx, o.Run, data, o.TTL)
	} else {
		ref, err = s.Blobs().Put(ctx, o.Type, data)
	}
	if err == nil && ref.SHA256 != o.SHA256 {
		err = ErrDamagedObject
	}
	if err != nil {
		return fmt.Errorf("put object %s: %w", o.SHA256, err)
	}
	return nil
}
