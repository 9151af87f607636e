package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/client"
)

// maxSequence bounds a Last-Event-ID.
const maxSequence = 1 << 53

// events streams the events of a run. Each has its sequence as its id, so a client that comes back with the last one
// gets what follows it. At most one event is held for a client that reads slowly; one that reads nothing is dropped.
func (g *Gateway) events(c *call) error {
	id, r := c.r.PathValue("run"), c.r
	after := uint64(0)
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil || after > maxSequence {
			return bad("Last-Event-ID is no sequence of an event", "send the id of the last event that came, or none")
		}
	}
	over, err := g.over(c, id, after)
	if err != nil {
		return err
	}
	if over {
		c.w.WriteHeader(http.StatusNoContent) // a browser does not come back then
		return nil
	}
	release, ok := g.limits.stream(c.token.Name)
	if !ok {
		return tooManyStreams()
	}
	defer release()
	if err := c.endless(); err != nil {
		return err
	}
	s := &stream{g: g, c: c, rc: http.NewResponseController(c.w)}
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // some proxies hold back what they pass on
	c.w.WriteHeader(http.StatusOK)
	if s.write("retry: 1000\n\n") {
		s.follow(id, after)
	}
	return nil
}

// over reports whether a run has ended and nothing stands behind a sequence. The index may be behind, so where it
// matters the log is asked.
func (g *Gateway) over(c *call, id string, after uint64) (bool, error) {
	ctx, cancel := c.within()
	defer cancel()
	if after == 0 {
		_, err := g.client.Runs().Get(ctx, id)
		return false, err
	}
	s, err := g.client.State(ctx, id)
	return s.Status.Ended() && after >= s.Sequence, err
}

// stream is one of server-sent events.
type stream struct {
	g  *Gateway
	c  *call
	rc *http.ResponseController
}

// come is what comes from the station for a stream.
type come struct {
	item client.Item
	err  error
}

// watch has the events of a run come from a sequence on, no more than are taken. The channel is closed once the run has
// ended, or ctx; wait returns then.
func (g *Gateway) watch(ctx context.Context, id string, from uint64) (items <-chan come, wait func()) {
	out := make(chan come) // unbuffered: no more is read than the client takes
	var watch sync.WaitGroup
	watch.Go(func() {
		defer close(out)
		for item, err := range g.client.Watch(ctx, id, from) {
			select {
			case out <- come{item, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	return out, watch.Wait
}

// follow writes the events behind a sequence until the run has ended, the client is gone or slow, the token has ended,
// or the gateway stops.
func (s *stream) follow(id string, after uint64) {
	ctx, cancel := context.WithCancel(s.c.r.Context())
	items, wait := s.g.watch(ctx, id, after+1)
	defer func() { cancel(); wait() }()
	beat := time.NewTicker(s.g.cfg.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case in, open := <-items:
			switch {
			case !open:
				s.write("event: end\ndata: {}\n\n")
				return
			case in.err != nil:
				if ctx.Err() == nil {
					s.g.cfg.Failed(s.c.route.path, in.err)
				}
				return
			case !s.event(in.item):
				return
			}
		case <-beat.C:
			if _, p := s.g.token(s.c.r, s.c.route.scope); p != nil || !s.write(": alive\n\n") {
				return
			}
		case <-s.g.stopping:
			return
		case <-ctx.Done():
			return
		}
	}
}

// event writes one event. The end of the run follows it at once.
func (s *stream) event(item client.Item) bool {
	data := item.Bytes
	if bytes.ContainsAny(data, "\r\n") {
		var one bytes.Buffer
		if err := json.Compact(&one, data); err != nil {
			s.g.cfg.Failed(s.c.route.path, fmt.Errorf("event %d: %w", item.Event.Sequence, err))
			return false
		}
		data = one.Bytes()
	}
	return s.write("id: " + strconv.FormatUint(item.Event.Sequence, 10) + "\ndata: " + string(data) + "\n\n")
}

// write sends a text. It returns false where the client does not take it in time.
func (s *stream) write(text string) bool {
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.g.cfg.WriteWait)); err != nil {
		return false
	}
	if _, err := s.c.w.Write([]byte(text)); err != nil {
		return false
	}
	return s.rc.Flush() == nil
}
