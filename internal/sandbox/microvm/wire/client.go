package wire

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/mirror"
)

// endWait is how long a program that is ended may take to be gone, with all it started.
const endWait = 30 * time.Second

// Client is the toolrunner's end. It is safe for concurrent use.
type Client struct{ session *yamux.Session }

// NewClient speaks over a stream, which it closes with Close.
func NewClient(stream io.ReadWriteCloser) (*Client, error) {
	s, err := yamux.Client(stream, config())
	if err != nil {
		return nil, err
	}
	return &Client{s}, nil
}

// Close ends the stream and all that goes over it.
func (c *Client) Close() error { return c.session.Close() }

// Gone is closed when the stream has ended.
func (c *Client) Gone() <-chan struct{} { return c.session.CloseChan() }

// Accept waits for a connection that somebody in the machine makes to the way out.
func (c *Client) Accept() (net.Conn, error) { return c.session.Accept() }

// open begins a stream. It is closed when ctx ends, if it is not closed before.
func (c *Client) open(ctx context.Context, o Order) (*yamux.Stream, *within.Line, func(), error) {
	stream, err := c.session.OpenStream()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the machine is gone: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) }) // which ends what waits
	shut := func() {
		stop()
		_ = stream.Close() // whoever still waits on the other end is told
	}
	l := within.NewLine(stream, stream)
	if err := l.Tell(within.FrameOrder, o); err != nil {
		shut()
		return nil, nil, nil, err
	}
	return stream, l, shut, nil
}

// answered waits for the end of a stream.
func answered(data []byte) error {
	var e end
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%w: %w", ErrStream, err)
	}
	if e.Error != "" {
		return errors.New(strings.ToValidUTF8(e.Error, "\uFFFD"))
	}
	return nil
}

// ask sends an order that has an answer and nothing else.
func (c *Client) ask(ctx context.Context, o Order) error {
	_, l, shut, err := c.open(ctx, o)
	if err != nil {
		return err
	}
	defer shut()
	return finish(ctx, l)
}

func finish(ctx context.Context, l *within.Line) error {
	kind, data, err := l.Next()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && kind != within.FrameEnd {
		err = fmt.Errorf("%w: %q", ErrStream, kind)
	}
	if err != nil {
		return err
	}
	return answered(data)
}

// Ping waits until the agent answers.
func (c *Client) Ping(ctx context.Context) error { return c.ask(ctx, Order{Op: opPing}) }

// Hold puts the machine's limits up. It is asked once.
func (c *Client) Hold(ctx context.Context, h Hold) error {
	return c.ask(ctx, Order{Op: opHold, Hold: &h})
}

// Full returns when the disk of the machine is full, with an error where that will not be known any more.
func (c *Client) Full(ctx context.Context) error { return c.ask(ctx, Order{Op: opFull}) }

// Run runs a program. When ctx ends, the program and all it started are ended, and Run returns when they are gone.
func (c *Client) Run(ctx context.Context, p mirror.Program) error {
	o := Order{Op: opRun, ID: rand.Text(), Args: p.Args, Privileged: p.Privileged, Stdin: p.Stdin != nil}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, l, shut, err := c.open(context.WithoutCancel(ctx), o)
	if err != nil {
		return err
	}
	defer shut()
	if p.Stdin != nil {
		go func() { // a Read of Stdin may never return
			if sendAll(l, within.FrameInput, p.Stdin) == nil || c.session.IsClosed() {
				_ = l.Send(within.FrameInputEnd, nil) // a program that has ended needs no input
			}
		}()
	}
	var ending sync.WaitGroup
	ending.Add(1) // for what may never begin: then nobody waits
	stop := context.AfterFunc(ctx, func() {
		defer ending.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
		defer cancel()
		if c.ask(ctx, Order{Op: opEnd, ID: o.ID}) != nil {
			shut() // nobody answers: nothing more is heard of it
		}
	})
	err = c.hear(l, p)
	if stop() {
		return err
	}
	ending.Wait()
	return ctx.Err()
}

// hear passes on what a program says, until its end.
func (c *Client) hear(l *within.Line, p mirror.Program) error {
	to := map[within.Kind]io.Writer{within.FrameOut: p.Stdout, within.FrameErr: p.Stderr}
	for {
		kind, data, err := l.Next()
		if err != nil {
			return fmt.Errorf("%w: %w", mirror.ErrCut, err)
		}
		w, output := to[kind]
		switch {
		case output && w != nil:
			if _, err := w.Write(data); err != nil {
				to[kind] = nil // nobody listens: what it says is dropped
			}
		case output:
		case kind == within.FrameEnd:
			return answered(data)
		default:
			return fmt.Errorf("%w: %w: %q", mirror.ErrCut, ErrStream, kind)
		}
	}
}

// Put writes a file.
func (c *Client) Put(ctx context.Context, path string, body io.Reader) error {
	_, l, shut, err := c.open(ctx, Order{Op: opPut, Path: path})
	if err != nil {
		return err
	}
	defer shut()
	if err := sendAll(l, within.FrameInput, body); err != nil {
		return err
	}
	if err := l.Send(within.FrameInputEnd, nil); err != nil {
		return err
	}
	return finish(ctx, l)
}

// Get opens a file.
func (c *Client) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	_, l, shut, err := c.open(ctx, Order{Op: opGet, Path: path})
	if err != nil {
		return nil, err
	}
	return &download{line: l, shut: shut}, nil
}

// download is a file on its way.
type download struct {
	line *within.Line
	shut func()
	left []byte
	err  error
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	for len(d.left) == 0 && d.err == nil {
		kind, data, err := d.line.Next()
		switch {
		case err != nil:
			d.err = fmt.Errorf("a file was cut on its way: %w", errors.Join(io.ErrUnexpectedEOF, err))
		case kind == within.FrameOut:
			d.left = data
		case kind == within.FrameEnd:
			if d.err = answered(data); d.err == nil {
				d.err = io.EOF
			}
		default:
			d.err = fmt.Errorf("%w: %q", ErrStream, kind)
		}
	}
	if len(d.left) == 0 {
		return 0, d.err
	}
	n := copy(p, d.left)
	d.left = d.left[n:]
	return n, nil
}

// Close implements io.Closer.
func (d *download) Close() error {
	d.shut()
	return nil
}
