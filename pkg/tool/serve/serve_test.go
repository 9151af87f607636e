package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/served"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/serve"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// patience bounds every wait of a test; a wait ends as soon as what it waits for is there.
const patience = 5 * time.Minute

// fake is a tool that does what a test says.
type fake struct {
	name   string
	effect tool.Effect
	run    func(ctx context.Context, c tool.Call) (tool.Result, error)
	verify func(ctx context.Context, c tool.Call) (bool, tool.Result, error)
}

func (f fake) Spec() tool.Spec {
	return tool.Spec{Name: f.name, Description: "Does what a test says.", Effect: f.effect, Timeout: time.Hour,
		Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"additionalProperties":false}`)}
}

func (f fake) Run(ctx context.Context, c tool.Call) (tool.Result, error) { return f.run(ctx, c) }

func (f fake) Verify(ctx context.Context, c tool.Call) (bool, tool.Result, error) {
	return f.verify(ctx, c)
}

// bed is a NATS server with station s1, seen as a toolrunner sees it.
type bed struct {
	t      *testing.T
	server *natsserver.Server
	st     *jet.Station
	times  served.Times
}

func newBed(t *testing.T) *bed {
	t.Helper()
	s := jettest.Server(t)
	st, err := jettest.Connect(t, s, jet.Config{}).Station("s1")
	if err != nil {
		t.Fatal(err)
	}
	// What is lost is lost after a silence that a busy machine does not cause.
	return &bed{t, s, st, served.Times{Accept: patience, Heartbeat: 100 * time.Millisecond, Lost: patience, Verify: patience}}
}

func (b *bed) nc() *nats.Conn {
	b.t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(b.server))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	return nc
}

// serve serves tools until stop, and returns once they are served.
func (b *bed) serve(cfg serve.Config, tools ...tool.Tool) (stop func() error) {
	b.t.Helper()
	cfg.Conn, cfg.Station, cfg.Server = b.nc(), "s1", "weather"
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve.Serve(ctx, cfg, tools...) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	b.t.Cleanup(func() { _ = stop() })
	for cfg.Conn.NumSubscriptions() < 2+len(tools) {
		select {
		case e := <-done:
			b.t.Fatalf("the server ended: %v", e)
		case <-time.After(time.Millisecond):
		}
	}
	if err := cfg.Conn.Flush(); err != nil {
		b.t.Fatal(err)
	}
	return stop
}

// raw answers the requests for a tool as a test says.
func (b *bed) raw(name string, answer func(nc *nats.Conn, r wire.Request, m *nats.Msg)) {
	b.t.Helper()
	nc := b.nc()
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	b.t.Cleanup(func() { // the call may end before its answers do
		if err := nc.Drain(); err != nil {
			b.t.Error(err)
		}
		<-closed
	})
	if _, err := nc.Subscribe(events.ToolSubject("s1", name), func(m *nats.Msg) {
		r, err := wire.Decode[wire.Request](m.Data)
		if err != nil {
			b.t.Errorf("a request that cannot be read: %v", err)
		}
		answer(nc, r, m)
	}); err != nil {
		b.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		b.t.Fatal(err)
	}
}

// pin is what an operator allows of a tool.
func pin(t *testing.T, x tool.Tool) events.ServedTool {
	t.Helper()
	spec, err := wire.Describe("weather", x.Spec())
	if err != nil {
		t.Fatal(err)
	}
	return events.ServedTool(spec)
}

// remote is the tool as the toolrunner has it.
func (b *bed) remote(x tool.Tool) tool.Tool { return served.Tools(b.st, b.times)(pin(b.t, x)) }

func call(progress func(string, []byte)) tool.Call {
	if progress == nil {
		progress = func(string, []byte) {}
	}
	return tool.Call{Run: "r1", ID: "c1-1", Key: "the-key", Input: json.RawMessage(`{"text":"hello"}`), Env: tool.Env{Progress: progress, MaxOutput: 1000}}
}

func say(t *testing.T, m *nats.Msg, r wire.Reply) {
	r.V = wire.Version
	data, err := json.Marshal(r)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-19 a call has its run, id, key and arguments, shows its output as it comes, and returns the result", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		three := 3
		x := fake{name: "forecast", effect: tool.Read, run: func(_ context.Context, c tool.Call) (tool.Result, error) {
			c.Env.Progress("stderr", []byte("looking"))
			_, err := c.Env.Sandbox.ReadFile("a")
			return tool.Result{Output: fmt.Sprintf("%s %s %s %s", c.Run, c.ID, c.Key, c.Input), ExitCode: &three, Failed: errors.Is(err, serve.ErrNoWorkspace)}, nil
		}}
		b.serve(serve.Config{}, x)
		var live string
		r, err := b.remote(x).Run(t.Context(), call(func(stream string, chunk []byte) { live += stream + " " + string(chunk) }))
		if err != nil || r.Output != `r1 c1-1 the-key {"text":"hello"}` || live != "stderr looking" || r.ExitCode == nil || *r.ExitCode != 3 || !r.Failed {
			t.Errorf("got %+v, %v, live %q", r, err, live)
		}
	})
	t.Run("TOOL-19 of two servers each call is carried out by one", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		var n atomic.Int64
		x := fake{name: "count", effect: tool.Once, run: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Output: fmt.Sprint(n.Add(1))}, nil
		}}
		b.serve(serve.Config{}, x)
		b.serve(serve.Config{}, x)
		const calls = 40
		var wait sync.WaitGroup
		for range calls {
			wait.Go(func() {
				for { // a server that is busy is tried again, as the toolrunner does
					_, err := b.remote(x).Run(t.Context(), call(nil))
					if tool.ClassOf(err) == tool.Transient && err != nil {
						continue
					}
					if err != nil {
						t.Error(err)
					}
					return
				}
			})
		}
		wait.Wait()
		if n.Load() != calls {
			t.Errorf("%d calls were carried out, want %d", n.Load(), calls)
		}
	})
	t.Run("TOOL-5 errors keep their class, hint and delay; a tool that panics fails for good; arguments that do not fit begin nothing", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		x := fake{name: "odd", effect: tool.Read, run: func(_ context.Context, c tool.Call) (tool.Result, error) {
			if string(c.Input) == `{"text":"panic"}` {
				panic("no")
			}
			return tool.Result{}, &tool.Error{Class: tool.Transient, Hint: "wait", RetryAfter: 7 * time.Second, Err: errors.New("rate limit\x1b[2J")}
		}}
		b.serve(serve.Config{}, x)
		_, err := b.remote(x).Run(t.Context(), call(nil))
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Class != tool.Transient || e.Hint != "wait" || e.RetryAfter != 7*time.Second || e.Err.Error() != "rate limit<U+001B>[2J" {
			t.Errorf("got %v", err)
		}
		c := call(nil)
		c.Input = json.RawMessage(`{"text":"panic"}`)
		if _, err = b.remote(x).Run(t.Context(), c); tool.ClassOf(err) != tool.Permanent || !strings.Contains(err.Error(), "tool odd broke: no") {
			t.Errorf("a panic: %v", err)
		}
		c.Input = json.RawMessage(`{"words":"x"}`)
		if _, err = b.remote(x).Run(t.Context(), c); tool.ClassOf(err) != tool.Invalid {
			t.Errorf("arguments that do not fit: %v", err)
		}
		c.Input = json.RawMessage(`{"text":"` + strings.Repeat("x", wire.MaxMessage) + `"}`)
		if _, err = b.remote(x).Run(t.Context(), c); tool.ClassOf(err) != tool.Invalid {
			t.Errorf("arguments that do not fit into a message: %v", err)
		}
	})
	t.Run("TOOL-11 a result that is too large for a message is cut, and says so", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		x := fake{name: "big", effect: tool.Once, run: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Output: strings.Repeat("\x00<x>", 1<<20), Images: []tool.Image{{Data: make([]byte, 2<<20)}}}, nil
		}}
		b.serve(serve.Config{}, x)
		r, err := b.remote(x).Run(t.Context(), call(nil))
		if err != nil || len(r.Output) > 3000 || len(r.Full) < 400<<10 || len(r.Images) != 0 {
			t.Fatalf("got %d bytes, %d in all, %d images, %v", len(r.Output), len(r.Full), len(r.Images), err)
		}
		for _, want := range []string{"truncated", "1 images omitted", "whole output are not kept"} {
			if !strings.Contains(r.Output, want) {
				t.Errorf("the output does not say %q: %q", want, r.Output)
			}
		}
	})
}

// silences are the times of a bed where a server is to be lost.
func (b *bed) silences() { b.times.Lost, b.times.Verify = 300*time.Millisecond, time.Second }

func TestLost(t *testing.T) {
	t.Parallel()
	all := []tool.Effect{tool.Read, tool.Idempotent, tool.Reconcilable, tool.Once}
	t.Run("SAFE-7 where no server is there, or none accepts, a call of each class is tried again: nothing has begun", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.times.Accept = 100 * time.Millisecond
		b.raw("mute", func(*nats.Conn, wire.Request, *nats.Msg) {})
		for _, effect := range all {
			if _, err := b.remote(fake{name: "absent", effect: effect}).Run(t.Context(), call(nil)); tool.ClassOf(err) != tool.Transient || !errors.Is(err, served.ErrNoServer) {
				t.Errorf("%s: no server: %v", effect, err)
			}
			if _, err := b.remote(fake{name: "mute", effect: effect}).Run(t.Context(), call(nil)); tool.ClassOf(err) != tool.Transient || !strings.Contains(err.Error(), "no server accepted") {
				t.Errorf("%s: a mute server: %v", effect, err)
			}
		}
	})
	t.Run("SAFE-7 a server does nothing before it is let begin", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		var n atomic.Int64
		x := fake{name: "once", effect: tool.Once, run: func(context.Context, tool.Call) (tool.Result, error) {
			n.Add(1)
			return tool.Result{}, nil
		}}
		stop := b.serve(serve.Config{}, x)
		nc := b.nc()
		replies, err := nc.SubscribeSync(events.ToolReplySubject("s1", "late"))
		if err != nil {
			t.Fatal(err)
		}
		p := pin(t, x)
		request, err := json.Marshal(wire.Request{V: wire.Version, Ask: wire.AskRun, Tool: p.Name, Digest: p.Digest, Input: json.RawMessage(`{}`), TimeoutMS: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.PublishRequest(events.ToolSubject("s1", "once"), events.ToolReplySubject("s1", "late"), request); err != nil {
			t.Fatal(err)
		}
		m, err := replies.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := wire.Decode[wire.Reply](m.Data); err != nil || r.Type != wire.Accepted {
			t.Fatalf("%+v, %v", r, err)
		}
		cancel, err := json.Marshal(wire.Control{V: wire.Version, Type: wire.Cancel})
		if err == nil {
			err = nc.Publish(events.ToolControlSubject("s1", "late"), cancel)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(nc.Flush(), stop()); err != nil || n.Load() != 0 {
			t.Errorf("%d calls were carried out, want none; %v", n.Load(), err)
		}
	})
	t.Run("SAFE-7 TOOL-22 what follows where a server is lost that was let begin depends on the effect class", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			effect tool.Effect
			verify *wire.Reply
			want   tool.Class // empty for a result
		}{
			{tool.Read, nil, tool.Transient}, {tool.Idempotent, nil, tool.Transient}, {tool.Once, nil, tool.Unknown}, {tool.Reconcilable, nil, tool.Unknown},
			{tool.Reconcilable, &wire.Reply{Type: wire.Ended, Done: true, Result: &wire.Result{Output: "it is done"}}, ""},
			{tool.Reconcilable, &wire.Reply{Type: wire.Ended, Result: &wire.Result{}}, tool.Transient},
			{tool.Reconcilable, &wire.Reply{Type: wire.Failed, Error: &wire.Error{Class: "permanent", Message: "no idea"}}, tool.Unknown},
		} {
			t.Run(fmt.Sprintf("%s %v", c.effect, c.verify), func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				b.silences()
				b.raw("dies", func(_ *nats.Conn, r wire.Request, m *nats.Msg) {
					switch {
					case r.Ask == wire.AskRun:
						say(t, m, wire.Reply{Type: wire.Accepted, Digest: r.Digest})
					case c.verify != nil:
						say(t, m, wire.Reply{Type: wire.Accepted, Digest: r.Digest})
						say(t, m, *c.verify)
					}
				})
				b.times.Accept = 500 * time.Millisecond
				r, err := b.remote(fake{name: "dies", effect: c.effect}).Run(t.Context(), call(nil))
				if c.want == "" && (err != nil || r.Output != "it is done") || c.want != "" && (err == nil || tool.ClassOf(err) != c.want) {
					t.Errorf("got %+v, %v, want %q", r, err, c.want)
				}
			})
		}
	})
	t.Run("TOOL-19 a server that works for long is not taken for lost", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.times.Heartbeat, b.times.Lost = 10*time.Millisecond, 20*time.Second
		x := fake{name: "slow", effect: tool.Once, run: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return tool.Result{Output: "at last"}, ctx.Err()
		}}
		b.serve(serve.Config{}, x)
		if r, err := b.remote(x).Run(t.Context(), call(nil)); err != nil || r.Output != "at last" {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("DEPL-6 a server that ends finishes what is under way, and gives up what takes longer than its drain", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			drain time.Duration
			want  tool.Class
		}{{patience, ""}, {time.Millisecond, tool.Unknown}} {
			b := newBed(t)
			began, finish := make(chan struct{}), make(chan struct{})
			x := fake{name: "long", effect: tool.Once, run: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				close(began)
				select {
				case <-finish:
					return tool.Result{Output: "finished"}, nil
				case <-ctx.Done():
					return tool.Result{}, ctx.Err()
				}
			}}
			stop := b.serve(serve.Config{Drain: c.drain}, x)
			stopped := make(chan error, 1)
			go func() {
				<-began
				if c.want == "" {
					time.AfterFunc(50*time.Millisecond, func() { close(finish) })
				}
				stopped <- stop()
			}()
			r, err := b.remote(x).Run(t.Context(), call(nil))
			if e := <-stopped; e != nil {
				t.Error(e)
			}
			if c.want == "" && (err != nil || r.Output != "finished") || c.want != "" && tool.ClassOf(err) != c.want {
				t.Errorf("drain %s: got %+v, %v", c.drain, r, err)
			}
		}
	})
}

func TestEnd(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-6 CTRL-3 a call that is cancelled or takes too long ends its tool", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		began, ended := make(chan struct{}, 2), make(chan error, 2)
		x := fake{name: "hang", effect: tool.Once, run: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			began <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return tool.Result{}, ctx.Err()
		}}
		b.serve(serve.Config{}, x)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-began; cancel() }()
		if _, err := b.remote(x).Run(ctx, call(nil)); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the tool ended with %v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := b.remote(x).Run(short, call(nil)); tool.ClassOf(err) != tool.Timeout {
			t.Errorf("timed out: %v", err)
		}
		select {
		case <-began:
			<-ended
		default: // a busy machine may have spent the time before it began
		}
	})
	t.Run("TOOL-19 a server that carries out as many calls as it may refuses one more, which is tried again", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		began, finish := make(chan struct{}), make(chan struct{})
		x := fake{name: "one", effect: tool.Once, run: func(context.Context, tool.Call) (tool.Result, error) {
			close(began)
			<-finish
			return tool.Result{}, nil
		}}
		b.serve(serve.Config{Calls: 1}, x)
		first := make(chan error, 1)
		go func() {
			_, err := b.remote(x).Run(t.Context(), call(nil))
			first <- err
		}()
		<-began
		_, err := b.remote(x).Run(t.Context(), call(nil))
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Class != tool.Transient || e.RetryAfter <= 0 {
			t.Errorf("got %v", err)
		}
		close(finish)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}
