package jet

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

var _ backup.Source = (*Station)(nil)

// LogState implements backup.Source.
func (s *Station) LogState(ctx context.Context) (backup.State, error) {
	return s.streamState(ctx, topology.Log(s.name))
}

// InState implements backup.Source.
func (s *Station) InState(ctx context.Context) (backup.State, error) {
	return s.streamState(ctx, topology.In(s.name))
}

func (s *Station) streamState(ctx context.Context, stream string) (backup.State, error) {
	var answer struct {
		State LogState `json:"state"`
	}
	err := taken(ctx, func() error { return s.c.api(ctx, "STREAM.INFO."+stream, nil, &answer) })
	if err != nil {
		return backup.State{}, fmt.Errorf("ask about stream %s: %w", stream, err)
	}
	l := answer.State
	return backup.State{First: l.First, Last: l.Last, Messages: l.Messages, Deleted: l.Deleted}, nil
}

// LogAfter implements backup.Source.
func (s *Station) LogAfter(ctx context.Context, after uint64) ([]backup.Message, error) {
	page, err := s.c.direct(ctx, topology.Log(s.name), directRequest{Seq: after + 1,
		NextFor: topology.LoggedEvents(s.name), Batch: pageEvents, MaxBytes: pageBytes})
	if err != nil {
		return nil, fmt.Errorf("read the log of station %s after %d: %w", s.name, after, err)
	}
	all := make([]backup.Message, len(page.messages))
	for i, m := range page.messages {
		at, err := time.Parse(time.RFC3339Nano, stamped(m.Msg, "Nats-Time-Stamp"))
		if err != nil {
			return nil, fmt.Errorf("%w: header Nats-Time-Stamp: %w", errTorn, err)
		}
		all[i] = backup.Message{Subject: stamped(m.Msg, "Nats-Subject"), Seq: m.seq, Time: at, Data: m.Data,
			Header: ownHeaders(m.Header)}
	}
	return all, nil
}

// ownHeaders are those that the publisher wrote, without what is meant for the server.
func ownHeaders(h nats.Header) map[string][]string {
	own := map[string][]string{}
	for name, values := range h {
		if !strings.HasPrefix(name, "Nats-") {
			own[name] = values
		}
	}
	return own
}

// InAfter implements backup.Source.
func (s *Station) InAfter(ctx context.Context, after uint64) (backup.Message, bool, error) {
	m, ok, err := s.nextFromLeader(ctx, topology.In(s.name), after)
	m.Header = ownHeaders(m.Header)
	return m, ok, err
}

// TimersAfter implements backup.Source. The headers of a timer are its time.
func (s *Station) TimersAfter(ctx context.Context, family string, after uint64) (backup.Message, bool, error) {
	return s.nextFromLeader(ctx, topology.Tmr(s.name, family), after)
}

// nextFromLeader returns the first message of a stream behind a position.
func (s *Station) nextFromLeader(ctx context.Context, stream string, after uint64) (backup.Message, bool, error) {
	var answer struct {
		Message struct {
			storedMessage
			Time time.Time `json:"time"`
		} `json:"message"`
	}
	ask := map[string]any{"seq": after + 1, "next_by_subj": ">"}
	err := taken(ctx, func() error { return s.c.api(ctx, "STREAM.MSG.GET."+stream, ask, &answer) })
	if code(err) == codeNoMessage {
		return backup.Message{}, false, nil
	}
	if err != nil {
		return backup.Message{}, false, fmt.Errorf("read stream %s after %d: %w", stream, after, err)
	}
	m := answer.Message
	if m.Seq <= after {
		return backup.Message{}, false, fmt.Errorf("read stream %s after %d: the answer is position %d", stream, after, m.Seq)
	}
	header, err := decodeHeader(m.Header)
	return backup.Message{Subject: m.Subject, Seq: m.Seq, Time: m.Time, Header: header, Data: m.Data}, true, err
}

func decodeHeader(b []byte) (nats.Header, error) {
	if len(b) == 0 {
		return nil, nil
	}
	h, err := nats.DecodeHeadersMsg(b)
	if err != nil {
		return nil, fmt.Errorf("headers of a stored message: %w", err)
	}
	return h, nil
}

// KeyNames implements backup.Source.
func (s *Station) KeyNames(ctx context.Context, bucket string) ([]string, error) {
	b := kv{c: s.c, bucket: s.c.cfg.Buckets.Of(bucket), station: s.name}
	names, err := b.named(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list the keys of %s: %w", bucket, err)
	}
	return names, nil
}

// Value implements backup.Source.
func (s *Station) Value(ctx context.Context, bucket, key string) ([]byte, error) {
	return s.KV(bucket).Get(ctx, key)
}

// Objects implements backup.Source.
func (s *Station) Objects(ctx context.Context) ([]backup.Object, error) {
	var all []backup.Object
	files := s.c.cfg.Buckets.Of(topology.FilesBucket)
	err := described(ctx, s.c, files, func(d description) {
		sum, ours := strings.CutPrefix(d.Name, s.name+".")
		if b, err := hex.DecodeString(sum); ours && err == nil && len(b) == 32 {
			size := int64(d.Size) //nolint:gosec // at most topology.MaxObject
			all = append(all, backup.Object{SHA256: sum, Size: size, Type: d.Headers.Get(headerContentType)})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list objects: %w", err)
	}
	made, err := s.Artifacts().Stored(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range made {
		all = append(all, backup.Object{SHA256: a.SHA256, Size: a.Size, Run: a.Run, TTL: a.TTL})
	}
	return all, nil
}

// ReadObject implements backup.Source.
func (s *Station) ReadObject(ctx context.Context, o backup.Object) ([]byte, error) {
	ref := events.Ref{SHA256: o.SHA256, Size: o.Size}
	if o.Run != "" {
		return s.Artifacts().Get(ctx, o.Run, ref)
	}
	return s.Blobs().Get(ctx, ref)
}

// described reads the descriptions of all objects of an object store, also of other stations.
func described(ctx context.Context, c *Conn, bucket string, see func(description)) error {
	for after := uint64(0); ; {
		page, err := c.direct(ctx, "OBJ_"+bucket, directRequest{Seq: after + 1, NextFor: "$O." + bucket + ".M.>", Batch: 256})
		if err != nil {
			return err
		}
		for _, m := range page.messages {
			after = m.seq
			var d description
			if json.Unmarshal(m.Data, &d) == nil {
				see(d)
			}
		}
		if len(page.messages) == 0 || page.pending == 0 {
			return nil
		}
	}
}

// ReadKeys returns the keys that the station made for itself, by their names in the bucket of the configuration. They
// are in no backup; the setup user may read them.
func (s *Station) ReadKeys(ctx context.Context) (map[string][]byte, error) {
	keys := map[string][]byte{}
	for _, name := range []string{topology.StationKeyKey, topology.ChildKeyKey} {
		b, err := s.KV(topology.ConfigBucket).Get(ctx, name)
		if errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the station's key %s: %w", name, err)
		}
		keys[name] = b
	}
	return keys, nil
}
