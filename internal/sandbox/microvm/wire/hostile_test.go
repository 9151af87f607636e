package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/mirror"
)

// hostile is a machine that answers each stream as it likes, and a client that speaks to it.
func hostile(t *testing.T, answer func(o Order, stream *yamux.Stream, l *within.Line)) (*Client, *yamux.Session) {
	t.Helper()
	ours, theirs := net.Pipe()
	session, err := yamux.Server(theirs, config())
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(ours)
	if err != nil {
		t.Fatal(err)
	}
	c.endWait = 100 * time.Millisecond
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			stream, err := session.AcceptStream()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = stream.Close() }()
				l := within.NewLine(stream, stream)
				var o Order
				if l.Want(within.FrameOrder, &o) == nil {
					answer(o, stream, l)
				}
			})
		}
	})
	t.Cleanup(func() {
		_, _ = c.Close(), session.Close()
		serving.Wait()
	})
	return c, session
}

// bounded ends a test that would wait for ever.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// header is that of a frame, which may lie.
func header(kind within.Kind, length uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{byte(kind)}, length)
}

func program(out io.Writer) mirror.Program {
	return mirror.Program{Args: []string{"x"}, Stdout: out, Stderr: io.Discard}
}

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says []byte
		want error
	}{
		"a length of 4 GB":          {header(within.FrameEnd, 1<<32-1), within.ErrFrame},
		"a length beyond the limit": {header(within.FrameOut, within.MaxFrame+1), within.ErrFrame},
		"a frame that is cut":       {append(header(within.FrameOut, 100), "short"...), io.ErrUnexpectedEOF},
		"nothing":                   {nil, io.EOF},
		"a kind that is not known":  {header('?', 0), ErrStream},
		"an order of its own":       {append(header(within.FrameOrder, 2), "{}"...), ErrStream},
		"an end that is no JSON":    {append(header(within.FrameEnd, 4), "rm -"...), ErrStream},
		"an end of another shape":   {append(header(within.FrameEnd, 11), `{"error":1}`...), ErrStream},
	} {
		t.Run("SBX-20 SBX-18 a machine that says "+name+" is told apart from one that answers", func(t *testing.T) {
			t.Parallel()
			client, _ := hostile(t, func(_ Order, stream *yamux.Stream, _ *within.Line) { _, _ = stream.Write(c.says) })
			if err := client.Ping(bounded(t)); !errors.Is(err, c.want) {
				t.Errorf("ping: got %v, want %v", err, c.want)
			}
			var out bytes.Buffer
			err := client.Run(bounded(t), program(&out))
			if ended := c.says != nil && within.Kind(c.says[0]) == within.FrameEnd && errors.Is(c.want, ErrStream); !errors.Is(err, c.want) || !ended && !errors.Is(err, sandbox.ErrLost) {
				t.Errorf("run: got %v, want %v, and that the outcome is unknown where no end came", err, c.want)
			}
			if out.Len() > 0 {
				t.Errorf("run: it said %q", out.String())
			}
			body, err := client.Get(bounded(t), "/x")
			if err == nil {
				_, err = io.Copy(io.Discard, body)
				_ = body.Close()
			}
			if !errors.Is(err, c.want) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("get: got %v, want %v", err, c.want)
			}
			if err := client.Put(bounded(t), "/x", strings.NewReader("body")); err == nil {
				t.Error("put: no error")
			}
		})
	}
	t.Run("SBX-18 the text of an error is bounded and is text", func(t *testing.T) {
		t.Parallel()
		client, _ := hostile(t, func(_ Order, _ *yamux.Stream, l *within.Line) {
			_ = l.SendJSON(within.FrameEnd, end{Error: strings.Repeat("\xff\x00e", 1<<20)})
		})
		err := client.Ping(bounded(t))
		if err == nil || len(err.Error()) > 4*maxError || strings.ToValidUTF8(err.Error(), "") != err.Error() {
			t.Errorf("got %d bytes", len(err.Error()))
		}
	})
	t.Run("SBX-18 bytes that are no session at all end it", func(t *testing.T) {
		t.Parallel()
		ours, theirs := net.Pipe()
		client, err := NewClient(ours)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		var talking sync.WaitGroup
		t.Cleanup(talking.Wait)
		talking.Go(func() { _, _ = io.Copy(io.Discard, theirs) })
		talking.Go(func() { _, _ = theirs.Write(bytes.Repeat([]byte("GET / HTTP/1.0\r\n"), 1<<10)) })
		if err := client.Ping(bounded(t)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the session", err)
		}
		<-client.Closed()
		_ = theirs.Close()
	})
}

func TestHostileStreams(t *testing.T) {
	t.Parallel()
	t.Run("SBX-18 SBX-15 output without end is passed on piece by piece, and ended also where the machine goes on", func(t *testing.T) {
		t.Parallel()
		client, _ := hostile(t, func(o Order, _ *yamux.Stream, l *within.Line) {
			if o.Op != opRun {
				_ = l.SendJSON(within.FrameEnd, end{}) // a lie: nothing was ended
				return
			}
			for l.Send(within.FrameOut, bytes.Repeat([]byte("x"), within.Chunk)) == nil {
			}
		})
		ctx, cancel := context.WithCancel(bounded(t))
		defer cancel()
		w := &counter{most: 64 << 20, over: cancel}
		if err := client.Run(ctx, program(w)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was ended", err)
		}
		if w.largest > within.MaxFrame {
			t.Errorf("a piece of %d bytes", w.largest)
		}
	})
	t.Run("SBX-15 a machine that is lost once it has its order may have carried it out", func(t *testing.T) {
		t.Parallel()
		ours, theirs := net.Pipe()
		session, err := yamux.Server(theirs, config())
		if err != nil {
			t.Fatal(err)
		}
		client, err := NewClient(&late{Conn: ours, closed: make(chan struct{})})
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() {
			if stream, err := session.AcceptStream(); err == nil {
				_ = within.NewLine(stream, stream).Want(within.FrameOrder, &Order{})
			}
			_ = session.Close()
		})
		if err := client.Run(bounded(t), program(io.Discard)); !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		serving.Wait()
		_ = client.Close()
	})
	t.Run("SBX-15 a machine that never answers is left after a while", func(t *testing.T) {
		t.Parallel()
		silence := make(chan struct{})
		client, _ := hostile(t, func(Order, *yamux.Stream, *within.Line) { <-silence })
		t.Cleanup(func() { close(silence) })
		ctx, cancel := context.WithTimeout(bounded(t), 50*time.Millisecond)
		defer cancel()
		if err := client.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ping: got %v", err)
		}
		if err := client.Run(ctx, program(io.Discard)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run: got %v", err)
		}
		again, cancel := context.WithTimeout(bounded(t), 50*time.Millisecond)
		defer cancel()
		if err := client.Run(again, program(io.Discard)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run: got %v", err)
		}
	})
	t.Run("SBX-15 SBX-17 a machine that stands still is taken for gone, so that nothing waits for it", func(t *testing.T) {
		t.Parallel()
		ours, theirs := net.Pipe()
		cfg := config()
		cfg.EnableKeepAlive, cfg.KeepAliveInterval, cfg.ConnectionWriteTimeout = true, 20*time.Millisecond, 100*time.Millisecond
		client, err := newClient(ours, cfg)
		if err != nil {
			t.Fatal(err)
		}
		var reading sync.WaitGroup
		reading.Go(func() { _, _ = io.Copy(io.Discard, theirs) }) // it takes all and says nothing
		t.Cleanup(func() {
			_, _ = client.Close(), theirs.Close()
			reading.Wait()
		})
		if err := client.Run(bounded(t), program(io.Discard)); !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		if err := client.Ping(bounded(t)); err == nil || !strings.Contains(err.Error(), "the machine has ended") {
			t.Errorf("afterwards: got %v", err)
		}
	})
	t.Run("SBX-20 a file that is refused before its end is told with the reason, at once", func(t *testing.T) {
		t.Parallel()
		client, _ := hostile(t, func(_ Order, _ *yamux.Stream, l *within.Line) {
			_ = l.SendJSON(within.FrameEnd, end{Error: "no space left"})
		})
		err := client.Put(bounded(t), "/x", bytes.NewReader(make([]byte, 4*window)))
		if err == nil || err.Error() != "no space left" {
			t.Errorf("got %v", err)
		}
		if err := client.Put(bounded(t), "/x", io.MultiReader(strings.NewReader("x"), brokenBody{})); err == nil {
			t.Error("a body that cannot be read: no error")
		}
	})
	t.Run("SBX-20 a body that cannot be read is told, where no one answers", func(t *testing.T) {
		t.Parallel()
		client, _ := hostile(t, func(_ Order, stream *yamux.Stream, _ *within.Line) { _, _ = io.Copy(io.Discard, stream) })
		if err := client.Put(bounded(t), "/x", brokenBody{}); !errors.Is(err, errBody) {
			t.Errorf("got %v, want errBody", err)
		}
	})
	t.Run("SBX-13 SBX-18 streams that no one wanted are refused beyond a number, and the session goes on", func(t *testing.T) {
		t.Parallel()
		client, session := hostile(t, func(_ Order, _ *yamux.Stream, l *within.Line) { _ = l.SendJSON(within.FrameEnd, end{Version: Version}) })
		// The machine's own side is held to a number too; one that is not would be sent resets.
		for range backlog {
			if _, err := session.Open(); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.Ping(bounded(t)); err != nil {
			t.Error(err)
		}
		for range backlog {
			conn, err := client.Accept()
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
		}
	})
}

var errBody = errors.New("the body cannot be read")

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errBody }

// late is a connection that learns only at its end that an order was written.
type late struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *late) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	if bytes.Contains(p, []byte(`"op":"run"`)) {
		<-l.closed
	}
	return n, err
}

func (l *late) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Conn.Close()
}

// counter counts what is written, and says when there is too much.
type counter struct {
	total, largest, most int
	over                 func()
}

func (c *counter) Write(p []byte) (int, error) {
	c.total += len(p)
	c.largest = max(c.largest, len(p))
	if c.total > c.most {
		c.over()
	}
	return len(p), nil
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []int{0, Version - 1, Version + 1} {
		t.Run("SBX-20 an agent of another version is told with what to do", func(t *testing.T) {
			t.Parallel()
			client, _ := hostile(t, func(_ Order, _ *yamux.Stream, l *within.Line) { _ = l.SendJSON(within.FrameEnd, end{Version: version}) })
			if err := client.Ping(bounded(t)); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "make microvm") {
				t.Errorf("version %d: got %v, want ErrVersion", version, err)
			}
		})
	}
	t.Run("SBX-20 what both ends say has the shape of this version", func(t *testing.T) {
		t.Parallel()
		// Another shape wants another Version, and its line here.
		const want = "2: Order{Op ID Args Privileged Stdin Path Hold} Hold{Base CPU Memory Disk PIDs Port Shown} end{Error Version Used} Used{User System Memory Read Written}"
		got := "2:"
		if Version != 2 {
			t.Fatalf("Version is %d: write its shape down here", Version)
		}
		for _, of := range []reflect.Type{reflect.TypeFor[Order](), reflect.TypeFor[Hold](), reflect.TypeFor[end](), reflect.TypeFor[mirror.Used]()} {
			var fields []string
			for i := range of.NumField() {
				fields = append(fields, of.Field(i).Name)
			}
			got += " " + of.Name() + "{" + strings.Join(fields, " ") + "}"
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
