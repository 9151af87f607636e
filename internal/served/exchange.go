package served

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// answer is what a request came to.
type answer struct {
	result tool.Result
	done   bool
}

// ask sends a request and follows it to its end. A *lostError means that the server was let begin and that its end is
// not known; every other error that it had not begun, that the server says how it ended, or that ctx ended.
func (t *remote) ask(ctx context.Context, ask string, c tool.Call) (answer, error) {
	if t.caller == nil {
		return answer{}, tool.Fail(tool.Permanent, "use another tool",
			fmt.Errorf("the tool %s is served over NATS, and this station runs without it", t.pin.Name))
	}
	request, err := t.request(ctx, ask, c)
	if err != nil {
		return answer{}, err
	}
	link, err := t.caller.CallTool(ctx, t.pin.Name, request)
	if err != nil {
		return answer{}, t.unsent(ctx, err)
	}
	defer link.Close()
	x := &exchange{tool: t, link: link, call: c}
	if err := x.accepted(ctx); err != nil {
		x.control(wire.Cancel) // it frees the server; nothing has begun
		return answer{}, err
	}
	if err := x.control(wire.Begin); err != nil {
		return answer{}, t.unsent(ctx, err) // a control that could not be published reached no one
	}
	return x.follow(ctx)
}

// unsent explains a failure before a server was let begin: nothing can have happened, so the call may be made again.
func (t *remote) unsent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*tool.Error](err); ok {
		return err
	}
	return tool.Fail(tool.Transient, "use another tool if it stays so",
		fmt.Errorf("the tool %s of the server %s cannot be used: %w", t.pin.Name, t.pin.Server, err))
}

// exchange is one request under way.
type exchange struct {
	tool     *remote
	link     Exchange
	call     tool.Call
	received int
}

// next waits for a reply, at most for wait.
func (x *exchange) next(ctx context.Context, wait time.Duration) (wire.Reply, error) {
	soon, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	data, err := x.link.Receive(soon)
	if err != nil {
		return wire.Reply{}, err
	}
	if x.received += len(data); x.received > maxReceived {
		return wire.Reply{}, fmt.Errorf("the server sends more than %d bytes in one call", maxReceived)
	}
	return wire.Decode[wire.Reply](data)
}

// accepted waits until a server accepts the request with the specification that was pinned.
func (x *exchange) accepted(ctx context.Context) error {
	t := x.tool
	r, err := x.next(ctx, t.times.Accept)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return t.unsent(ctx, fmt.Errorf("no server accepted the call within %s", t.times.Accept))
	case err != nil:
		return t.unsent(ctx, err)
	case (r.Type == wire.Accepted || r.Type == wire.Refused) && r.Digest != "" && r.Digest != t.pin.Digest:
		return tool.Fail(tool.Denied,
			"an operator looks at the change with: inspan tools served, and allows it with: inspan tools pin "+t.pin.Name,
			fmt.Errorf("the tool %s is disabled: its server %s has another specification than was pinned, with the digest %.12s and not %.12s", t.pin.Name, shown(r.Server), shown(r.Digest), t.pin.Digest))
	case r.Type == wire.Accepted && r.Digest == t.pin.Digest:
		return nil
	case r.Type == wire.Refused && r.Error != nil:
		return toolError(r.Error)
	}
	return tool.Fail(tool.Permanent, "report this to the author of the tool",
		fmt.Errorf("a server of the tool %s neither accepts nor refuses a call", t.pin.Name))
}

// follow receives what a server sends that was let begin, until the end.
func (x *exchange) follow(ctx context.Context) (answer, error) {
	for {
		r, err := x.next(ctx, x.tool.times.Lost)
		if ctx.Err() != nil && err != nil {
			return x.cancelled(ctx)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no heartbeat for %s", x.tool.times.Lost)
		}
		if err == nil {
			if a, ended, e := x.end(r); ended {
				return a, e
			}
			continue
		}
		_ = x.control(wire.Cancel) // where it works on although it was lost here
		return answer{}, x.lost(err)
	}
}

func (x *exchange) lost(err error) error {
	return &lostError{fmt.Errorf("the server %s of the tool %s was lost in the middle of the call: %w", x.tool.pin.Server,
		x.tool.pin.Name, err)}
}

// end is what a reply means; ended is false for one that says only how it goes.
func (x *exchange) end(r wire.Reply) (a answer, ended bool, err error) {
	switch {
	case r.Type == wire.Alive:
		return a, false, nil
	case r.Type == wire.Output:
		stream := "stdout"
		if r.Stream == "stderr" {
			stream = r.Stream
		}
		x.call.Env.Progress(stream, r.Chunk)
		return a, false, nil
	case r.Type == wire.Ended && r.Result != nil:
		return answer{result: show(x.call.Env, r.Result), done: r.Done}, true, nil
	case r.Type == wire.Failed && r.Error != nil:
		err := toolError(r.Error)
		if tool.ClassOf(err) == tool.Unknown {
			err = x.lost(err)
		}
		return a, true, err
	case r.Type == wire.Lost:
		return a, true, x.lost(errors.New("it ended before the call did"))
	}
	_ = x.control(wire.Cancel)
	return a, true, x.lost(fmt.Errorf("it sent a message of the type %s that has no place there", shown(r.Type)))
}

// cancelled tells the server that the call is cancelled and waits a moment for its end: a call that was done by then
// has a result.
func (x *exchange) cancelled(ctx context.Context) (answer, error) {
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
	defer stop()
	for end.Err() == nil {
		_ = x.control(wire.Cancel) // it is sent again until the server has ended the call
		for {
			r, err := x.next(end, cancelAgain)
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			if err != nil {
				return answer{}, ctx.Err()
			}
			if a, ended, err := x.end(r); ended {
				if err != nil {
					err = ctx.Err()
				}
				return a, err
			}
		}
	}
	return answer{}, ctx.Err()
}

func (x *exchange) control(kind string) error {
	b, err := json.Marshal(wire.Control{V: wire.Version, Type: kind})
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	return x.link.Send(b)
}

// toolError is an error of a server. A class that is not known is final.
func toolError(e *wire.Error) error {
	class := tool.Class(e.Class)
	switch class {
	case tool.Transient, tool.Permanent, tool.Invalid, tool.Timeout, tool.Denied, tool.Unknown:
	default:
		class = tool.Permanent
	}
	const longest = time.Hour
	return &tool.Error{Class: class, Hint: shown(e.Hint), Err: errors.New(shown(e.Message)),
		RetryAfter: min(longest, max(0, time.Duration(e.RetryAfterMS)*time.Millisecond))}
}

// maxShown is the most of a text of a server that is shown, in bytes.
const maxShown = wire.MaxError + 16

// shown makes a text of a server short, and harmless to a reader.
func shown(text string) string {
	text = tool.Visible(text)
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "..."
	}
	return text
}

// show makes of a server's result what a model reads: bounded text, and images that can be read.
func show(env tool.Env, r *wire.Result) tool.Result {
	out := tool.Result{Output: tool.Visible(r.Output)}
	if len(out.Output) > env.MaxOutput+maxNote {
		out = tool.Show(env, r.Output)
	}
	out.Failed, out.ExitCode = r.Failed, r.ExitCode
	if len(r.Full) > 0 {
		out.Full = r.Full
	}
	for i, data := range r.Images {
		image, err := tool.ReadImage(data)
		if i >= tool.MaxImages || err != nil {
			out.Output += "\n[images omitted: one cannot be read, or there are too many]"
			break
		}
		out.Images = append(out.Images, image)
	}
	return out
}

// maxNote is what a server may add to MaxOutput, in bytes, to say what it omitted.
const maxNote = 1 << 10
