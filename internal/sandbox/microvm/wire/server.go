package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/hashicorp/yamux"

	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/mirror"
)

// Guest is what an agent does for its toolrunner. It is safe for concurrent use.
type Guest interface {
	// Run runs a program until it and its streams have ended. When ctx ends, all of it is ended first.
	Run(ctx context.Context, p mirror.Program) error
	Put(ctx context.Context, path string, body io.Reader) error
	Get(ctx context.Context, path string) (io.ReadCloser, error)
	// Hold puts limits up. Connections to the way out are made with out.
	Hold(ctx context.Context, h Hold, out func() (net.Conn, error)) error
	// Full returns when the disk has become full, or ctx has ended.
	Full(ctx context.Context) error
}

// server is the agent's end.
type server struct {
	session *yamux.Session
	guest   Guest

	mu   sync.Mutex
	runs map[string]running // guarded by mu
}

type running struct {
	end  context.CancelFunc
	done <-chan struct{}
}

// Serve does for a toolrunner what it asks, until the stream ends. It returns when all that was asked for has ended.
func Serve(ctx context.Context, stream io.ReadWriteCloser, g Guest) error {
	session, err := yamux.Server(stream, config())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = session.Close() }) // it may be closed already
	defer stop()
	s := &server{session: session, guest: g, runs: map[string]running{}}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, yamux.ErrSessionShutdown) {
				return nil
			}
			return err
		}
		serving.Go(func() {
			defer func() { _ = stream.Close() }() // the other end may be gone
			s.serve(ctx, stream)
		})
	}
}

// serve does one order.
func (s *server) serve(ctx context.Context, stream *yamux.Stream) {
	l := within.NewLine(stream, stream)
	var o Order
	err := l.Want(within.FrameOrder, &o)
	if err != nil {
		return
	}
	var last end
	switch o.Op {
	case opPing:
		last.Version = Version
	case opRun:
		last.Used = &mirror.Used{}
		err = s.run(ctx, o, l, last.Used)
	case opEnd:
		s.end(o.ID)
	case opPut:
		err = s.guest.Put(ctx, o.Path, input(l))
	case opGet:
		err = s.get(ctx, o.Path, l)
	case opHold:
		if o.Hold == nil {
			err = ErrStream
			break
		}
		err = s.guest.Hold(ctx, *o.Hold, func() (net.Conn, error) { return s.session.Open() })
	case opFull:
		err = s.guest.Full(ctx)
	default:
		err = fmt.Errorf("%w: %.20q", ErrStream, o.Op)
	}
	_ = l.SendJSON(within.FrameEnd, last.because(err)) // the other end may be gone
}

func (s *server) get(ctx context.Context, path string, l *within.Line) error {
	f, err := s.guest.Get(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return sendAll(l, within.FrameOut, f)
}

// output sends what a program says.
type output struct {
	line *within.Line
	kind within.Kind
}

// Write implements io.Writer. A program does not hang because no one listens.
func (o output) Write(p []byte) (int, error) {
	for at := 0; at < len(p); at += within.Chunk {
		if err := o.line.Send(o.kind, p[at:min(at+within.Chunk, len(p))]); err != nil {
			break
		}
	}
	return len(p), nil
}

func (s *server) run(ctx context.Context, o Order, l *within.Line, used *mirror.Used) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	s.mu.Lock()
	s.runs[o.ID] = running{cancel, done}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.runs, o.ID)
		s.mu.Unlock()
		close(done)
	}()
	p := mirror.Program{Args: o.Args, Privileged: o.Privileged, Stdout: output{l, within.FrameOut},
		Stderr: output{l, within.FrameErr}, Used: used}
	if o.Stdin {
		p.Stdin = input(l)
	}
	return s.guest.Run(ctx, p)
}

// end ends a program and returns when it is gone.
func (s *server) end(id string) {
	s.mu.Lock()
	r, ok := s.runs[id]
	s.mu.Unlock()
	if ok {
		r.end()
		<-r.done
	}
}

// input is what a toolrunner sends.
func input(l *within.Line) io.Reader {
	return &body{line: l, kind: within.FrameInput, end: within.FrameInputEnd, last: func([]byte) error { return nil }}
}
