package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// served is one request that a server took.
type served struct {
	s       *server
	request wire.Request
	spec    wire.Spec
	reply   string
	token   string
	cancel  context.CancelCauseFunc
	// begun is closed when the toolrunner lets it begin.
	begun chan struct{}
	once  sync.Once
	mu    sync.Mutex
	// live is how much output was sent as it came, guarded by mu.
	live int
}

func (c *served) begin() { c.once.Do(func() { close(c.begun) }) }

// serve says that the request is accepted, waits until it may begin, works, and sends the end.
func (c *served) serve(ctx context.Context) {
	if c.answer(wire.Reply{Type: wire.Accepted}) != nil {
		return
	}
	wait := time.NewTimer(wire.BeginWait)
	defer wait.Stop()
	select {
	case <-c.begun:
	case <-wait.C:
		return // whoever asked does not wait any more: it never sent begin, so nothing is owed
	case <-ctx.Done():
		return
	}
	limit := time.Duration(c.request.TimeoutMS) * time.Millisecond
	if limit <= 0 {
		limit = time.Duration(c.spec.TimeoutMS) * time.Millisecond
	}
	work, done := context.WithTimeout(ctx, limit)
	defer done()
	beat, silent := context.WithCancel(context.WithoutCancel(ctx))
	var beating sync.WaitGroup
	beating.Go(func() { c.beat(beat) })
	end := c.work(work)
	silent()
	beating.Wait()
	if errors.Is(context.Cause(ctx), errEnding) && end.Type != wire.Ended {
		end = wire.Reply{Type: wire.Lost, Error: &wire.Error{Message: errEnding.Error()}}
	}
	if err := c.answer(end); err != nil {
		// else its toolrunner misses the heartbeats
		_ = c.answer(wire.Reply{Type: wire.Lost, Error: &wire.Error{Message: clip(err.Error())}})
	}
}

// beat says that the call is under way until ctx ends.
func (c *served) beat(ctx context.Context) {
	every := time.Duration(c.request.HeartbeatMS) * time.Millisecond
	if every <= 0 {
		every = wire.Heartbeat
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		_ = c.answer(wire.Reply{Type: wire.Alive}) // the next one says it again
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// work lets the tool work.
func (c *served) work(ctx context.Context) (end wire.Reply) {
	defer func() {
		if p := recover(); p != nil {
			end = failed(tool.Fail(tool.Permanent, "report this to the author of the tool", fmt.Errorf("tool %s broke: %v\n%s",
				c.spec.Name, p, debug.Stack())))
		}
	}()
	t, _ := c.s.registry.Get(c.spec.Name)
	r := c.request
	call := tool.Call{Run: r.Run, ID: r.Call, Key: r.Key, Input: r.Input, Env: tool.Env{Sandbox: noSandbox{},
		Progress: c.progress, MaxOutput: r.MaxOutput}}
	var result tool.Result
	var err error
	if r.Ask == wire.AskVerify {
		v, ok := t.(tool.Verifier)
		if !ok {
			return failed(tool.Fail(tool.Permanent, "", fmt.Errorf("tool %s cannot verify", c.spec.Name)))
		}
		end.Done, result, err = v.Verify(ctx, call)
	} else {
		result, err = t.Run(ctx, call)
	}
	if err != nil {
		return failed(err)
	}
	end.Type, end.Result = wire.Ended, bounded(result, r.MaxOutput)
	return end
}

func failed(err error) wire.Reply { return wire.Reply{Type: wire.Failed, Error: errorOf(err)} }

// errorOf is a tool's error as it is sent.
func errorOf(err error) *wire.Error {
	out := &wire.Error{Class: string(tool.ClassOf(err)), Message: clip(err.Error())}
	if e, ok := errors.AsType[*tool.Error](err); ok {
		out.Message, out.Hint, out.RetryAfterMS = clip(fmt.Sprint(e.Err)), clip(e.Hint), e.RetryAfter.Milliseconds()
	}
	return out
}

func clip(text string) string {
	if len(text) > wire.MaxError {
		text = text[:wire.MaxError] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// progress sends output as it comes: in pieces, and no more than wire.MaxLive of a call.
func (c *served) progress(stream string, chunk []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	chunk = chunk[:min(len(chunk), max(0, wire.MaxLive-c.live))]
	c.live += len(chunk)
	for len(chunk) > 0 {
		piece := chunk[:min(len(chunk), wire.MaxChunk)]
		chunk = chunk[len(piece):]
		// it is for those who watch now; the result has all of it
		_ = c.answer(wire.Reply{Type: wire.Output, Stream: stream, Chunk: piece})
	}
}

// room is what a result may take of a message beside what else is in it.
const room = wire.MaxMessage - 4<<10

// bounded makes of a result one that fits into a message: of what is too large the output names what is missing. The
// call has taken effect, so it does not fail for that.
func bounded(r tool.Result, most int) *wire.Result {
	if most <= 0 || most > room/8 { // JSON may need six bytes for one
		most = room / 8
	}
	shown := tool.Show(tool.Env{MaxOutput: most}, r.Output)
	if r.Full != nil {
		shown.Full = r.Full
	}
	out := &wire.Result{Output: shown.Output, Full: shown.Full, Failed: r.Failed, ExitCode: r.ExitCode}
	for i, image := range r.Images {
		out.Images = append(out.Images, image.Data)
		if i >= tool.MaxImages || size(out) > room {
			out.Images = out.Images[:i]
			out.Output += fmt.Sprintf("\n[%d images omitted: they do not fit into one message]", len(r.Images)-i)
			break
		}
	}
	if over := size(out) - room; over > 0 {
		keep := max(0, len(out.Full)-over*3/4-4) // base64 takes four bytes for three
		out.Output += fmt.Sprintf("\n[the last %d bytes of the whole output are not kept]", len(out.Full)-keep)
		out.Full = out.Full[:keep]
	}
	return out
}

func size(r *wire.Result) int {
	b, err := json.Marshal(r)
	if err != nil {
		return room + 1
	}
	return len(b)
}

// answer sends one reply.
func (c *served) answer(r wire.Reply) error {
	r.V, r.Server = wire.Version, c.s.instance
	if r.Type == wire.Accepted || r.Type == wire.Refused {
		r.Digest = c.spec.Digest
	} else {
		r.Server = ""
	}
	return c.s.send(c.reply, r)
}

func (s *server) send(subject string, message any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	if err := s.nc.Publish(subject, b); err != nil {
		return fmt.Errorf("send an answer: %w", err)
	}
	return nil
}
