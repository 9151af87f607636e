package wire

import (
	"cmp"
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

// errOrder means that no one knows whether an order arrived.
var errOrder = errors.New("a request to the machine was cut off")

// Client is the toolrunner's end. It is safe for concurrent use.
type Client struct {
	session *yamux.Session
	endWait time.Duration
}

// NewClient speaks over a stream, which it closes with Close, or when the machine stands still.
func NewClient(stream io.ReadWriteCloser) (*Client, error) {
	c := config()
	c.EnableKeepAlive, c.KeepAliveInterval = true, knockEvery
	return newClient(stream, c)
}

func newClient(stream io.ReadWriteCloser, c *yamux.Config) (*Client, error) {
	s, err := yamux.Client(stream, c)
	if err != nil {
		return nil, err
	}
	return &Client{s, endWait}, nil
}

// Close ends the stream and all that goes over it.
func (c *Client) Close() error { return c.session.Close() }

// Closed is closed when the stream has ended.
func (c *Client) Closed() <-chan struct{} { return c.session.CloseChan() }

// Accept waits for a connection that somebody in the machine makes to the way out.
func (c *Client) Accept() (net.Conn, error) { return c.session.Accept() }

// open begins a stream. It is closed when ctx ends, if it is not closed before.
func (c *Client) open(ctx context.Context, o Order) (*yamux.Stream, *within.Line, func(), error) {
	stream, err := c.session.OpenStream()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the machine has ended: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) }) // which ends what waits
	shut := func() {
		stop()
		_ = stream.Close() // whoever still waits on the other end is told
	}
	l := within.NewLine(stream, stream)
	if err := l.SendJSON(within.FrameOrder, o); err != nil {
		shut()
		return nil, nil, nil, fmt.Errorf("%w: %w", errOrder, err)
	}
	return stream, l, shut, nil
}

// answered reads the end of a stream.
func answered(data []byte) (e end, err error) {
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("%w: %w", ErrStream, err)
	}
	if e.Error != "" {
		return e, errors.New(strings.ToValidUTF8(e.Error[:min(len(e.Error), maxError)], "\uFFFD"))
	}
	return e, nil
}

// ask sends an order that has an answer and nothing else.
func (c *Client) ask(ctx context.Context, o Order) (end, error) {
	_, l, shut, err := c.open(ctx, o)
	if err != nil {
		return end{}, err
	}
	defer shut()
	return finish(ctx, l)
}

func finish(ctx context.Context, l *within.Line) (end, error) {
	kind, data, err := l.Next()
	if ctx.Err() != nil {
		return end{}, ctx.Err()
	}
	if err == nil && kind != within.FrameEnd {
		err = fmt.Errorf("%w: %q", ErrStream, kind)
	}
	if err != nil {
		return end{}, err
	}
	return answered(data)
}

// Ping waits until the agent answers. One of another version is ErrVersion.
func (c *Client) Ping(ctx context.Context) error {
	e, err := c.ask(ctx, Order{Op: opPing})
	if err == nil && e.Version != Version {
		return fmt.Errorf("%w: it uses protocol version %d, not %d", ErrVersion, e.Version, Version)
	}
	return err
}

// Hold puts the machine's limits up. It is asked once.
func (c *Client) Hold(ctx context.Context, h Hold) error {
	_, err := c.ask(ctx, Order{Op: opHold, Hold: &h})
	return err
}

// Full returns when the disk of the machine is full, with an error where that will not be known any more.
func (c *Client) Full(ctx context.Context) error {
	_, err := c.ask(ctx, Order{Op: opFull})
	return err
}

// Run runs a program. When ctx ends, the program and all it started are ended, and Run returns when they are gone.
func (c *Client) Run(ctx context.Context, p mirror.Program) error {
	o := Order{Op: opRun, ID: rand.Text(), Args: p.Args, Privileged: p.Privileged, Stdin: p.Stdin != nil}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	stream, l, shut, err := c.open(context.WithoutCancel(ctx), o)
	if errors.Is(err, errOrder) {
		return fmt.Errorf("%w: %w", mirror.ErrCut, err)
	}
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
	received := make(chan struct{})
	var ending sync.WaitGroup
	ending.Add(1) // for what may never begin: then no one waits
	stop := context.AfterFunc(ctx, func() {
		defer ending.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.endWait)
		defer cancel()
		if _, err := c.ask(ctx, Order{Op: opEnd, ID: o.ID}); err == nil {
			select {
			case <-received:
				return
			case <-ctx.Done():
			}
		}
		_ = stream.SetDeadline(time.Unix(1, 0)) // no one answers, or what was ended goes on: nothing more comes of it
	})
	err = c.receive(l, p)
	close(received)
	if stop() {
		return err
	}
	ending.Wait()
	return ctx.Err()
}

// hear passes on what a program says, until its end.
func (c *Client) receive(l *within.Line, p mirror.Program) error {
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
				to[kind] = nil // no one listens: what it says is dropped
			}
		case output:
		case kind == within.FrameEnd:
			e, err := answered(data)
			if p.Used != nil && e.Used != nil {
				*p.Used = *e.Used
			}
			return err
		default:
			return fmt.Errorf("%w: %w: %q", mirror.ErrCut, ErrStream, kind)
		}
	}
}

// Put writes a file.
func (c *Client) Put(ctx context.Context, path string, body io.Reader) error {
	stream, l, shut, err := c.open(ctx, Order{Op: opPut, Path: path})
	if err != nil {
		return err
	}
	defer shut()
	past := time.Unix(1, 0)
	answer := make(chan error, 1) // one result
	go func() {
		_, err := finish(ctx, l)
		answer <- err
		_ = stream.SetWriteDeadline(past) // what was answered before its end is not read any more
	}()
	err = sendAll(l, within.FrameInput, body)
	if err == nil {
		err = l.Send(within.FrameInputEnd, nil)
	}
	if err == nil {
		return <-answer
	}
	select {
	case said := <-answer:
		return cmp.Or(said, err)
	default:
	}
	_ = stream.SetReadDeadline(past)
	<-answer
	return err
}

// Get opens a file.
func (c *Client) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	_, l, shut, err := c.open(ctx, Order{Op: opGet, Path: path})
	if err != nil {
		return nil, err
	}
	return download{&body{line: l, kind: within.FrameOut, end: within.FrameEnd, last: func(data []byte) error {
		_, err := answered(data)
		return err
	}}, shut}, nil
}

// download is a file on its way.
type download struct {
	io.Reader
	shut func()
}

// Close implements io.Closer.
func (d download) Close() error {
	d.shut()
	return nil
}
