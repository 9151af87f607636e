package e2b

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/inspan/inspan/internal/sandbox/mirror"
)

// The machine's service speaks the Connect protocol. Its framing is written here by hand: what is used of it, one
// stream of a server and unary calls in JSON, is smaller than what a library and generated messages would add.

const (
	// maxFrame is the most bytes of a message of a stream; outputs come in chunks of 32 KiB.
	maxFrame = 1 << 20
	// endOfStream marks the last frame, compressed one that this client did not ask for.
	endOfStream, compressed = 2, 1
	// ping is how often a silent stream says that it lives, in seconds.
	ping = 20
)

type selector struct {
	PID int64 `json:"pid"`
}

type startRequest struct {
	Process struct {
		Cmd  string            `json:"cmd"`
		Args []string          `json:"args"`
		Envs map[string]string `json:"envs,omitempty"`
		Cwd  string            `json:"cwd,omitempty"`
	} `json:"process"`
	Stdin bool `json:"stdin"`
}

// chunk is bytes in base64, which are passed on from a buffer that is used again and again.
type chunk struct {
	to  io.Writer
	buf []byte
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *chunk) UnmarshalJSON(text []byte) error {
	if len(text) < 2 || text[0] != '"' {
		return errors.New("output is not text")
	}
	text = text[1 : len(text)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		var plain string
		if err := json.Unmarshal(append(append([]byte{'"'}, text...), '"'), &plain); err != nil {
			return err
		}
		text = []byte(plain)
	}
	return c.pass(text)
}

// pass decodes base64 and passes it on.
func (c *chunk) pass(text []byte) error {
	if need := base64.StdEncoding.DecodedLen(len(text)); cap(c.buf) < need {
		c.buf = make([]byte, need)
	}
	n, err := base64.StdEncoding.Decode(c.buf[:cap(c.buf)], text)
	if err != nil {
		return fmt.Errorf("output is not base64: %w", err)
	}
	_, _ = c.to.Write(c.buf[:n]) // which never fails
	return nil
}

// event is one message of a stream. Its chunks pass on what they read while it is read.
type event struct {
	Event struct {
		Start struct {
			PID int64 `json:"pid"`
		} `json:"start"`
		Data struct {
			Stdout chunk `json:"stdout"`
			Stderr chunk `json:"stderr"`
		} `json:"data"`
		End json.RawMessage `json:"end"`
	} `json:"event"`
}

// ending is the last frame of a stream.
type ending struct {
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Run implements mirror.Remote.
func (m *machine) Run(ctx context.Context, p mirror.Program) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var ask startRequest
	ask.Process.Cmd, ask.Process.Args, ask.Process.Cwd, ask.Stdin = p.Args[0], p.Args[1:], "/", p.Stdin != nil
	message, err := json.Marshal(ask)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	user := ""
	if p.Privileged {
		user = administrator
	}
	framed := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	req, err := m.request(ctx, http.MethodPost, "/process.Process/Start", bytes.NewReader(framed), user)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/connect+json")
	req.Header.Set("Connect-Protocol-Version", "1")
	req.Header.Set("Keepalive-Ping-Interval", fmt.Sprint(ping))
	silence := time.AfterFunc(m.api.cfg.Silence, func() { cancel(fmt.Errorf("%w: it stopped sending", mirror.ErrCut)) })
	defer silence.Stop()
	res, err := m.do(req)
	if err != nil {
		return cut(ctx, fmt.Errorf("start: %w", err))
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	s := &stream{machine: m, program: p, body: res.Body, received: func() { silence.Reset(m.api.cfg.Silence) }}
	defer s.input.wait()
	err = s.read(ctx)
	cancel(nil) // ends what still writes to stdin
	return err
}

// cut is the error of a request that was ended, which the cause of its context tells better.
func cut(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// stream reads what a program says.
type stream struct {
	machine  *machine
	program  mirror.Program
	body     io.Reader
	received func()
	event    event
	started  bool
	input    input
}

// read passes on output until the stream has ended. It wraps mirror.ErrCut where it ended too soon.
func (s *stream) read(ctx context.Context) error {
	s.event.Event.Data.Stdout.to, s.event.Event.Data.Stderr.to = s.program.Stdout, s.program.Stderr
	var frame []byte
	for {
		var head [5]byte
		if _, err := io.ReadFull(s.body, head[:]); err != nil {
			return cut(ctx, fmt.Errorf("%w: %w", mirror.ErrCut, err))
		}
		size := binary.BigEndian.Uint32(head[1:])
		if size > maxFrame || head[0]&compressed != 0 {
			return fmt.Errorf("%w: a message of %d bytes with flags %d", mirror.ErrCut, size, head[0])
		}
		if cap(frame) < int(size) {
			frame = make([]byte, size)
		}
		frame = frame[:size]
		if _, err := io.ReadFull(s.body, frame); err != nil {
			return cut(ctx, fmt.Errorf("%w: %w", mirror.ErrCut, err))
		}
		s.received()
		if head[0]&endOfStream != 0 {
			return s.end(frame)
		}
		if err := s.take(ctx, frame); err != nil {
			return fmt.Errorf("%w: %w", mirror.ErrCut, err)
		}
	}
}

func (s *stream) take(ctx context.Context, frame []byte) error {
	if name, text, ok := output(frame); ok {
		if name == "stdout" {
			return s.event.Event.Data.Stdout.pass(text)
		}
		return s.event.Event.Data.Stderr.pass(text)
	}
	s.event.Event.End = s.event.Event.End[:0]
	if err := json.Unmarshal(frame, &s.event); err != nil {
		return err
	}
	if pid := s.event.Event.Start.PID; pid > 0 && !s.started {
		s.started = true
		if s.program.Stdin != nil {
			s.input.begin(ctx, s.machine, pid, s.program)
		}
	}
	return nil
}

// output reads the message that comes most, one output in its plainest form, without the work of a whole reader of
// JSON.
func output(frame []byte) (name string, text []byte, ok bool) {
	eat := func(word string) bool {
		frame = bytes.TrimLeft(frame, " \t\r\n")
		frame, ok = bytes.CutPrefix(frame, []byte(word))
		return ok
	}
	if !eat("{") || !eat(`"event"`) || !eat(":") || !eat("{") || !eat(`"data"`) || !eat(":") || !eat("{") {
		return "", nil, false
	}
	switch {
	case eat(`"stdout"`):
		name = "stdout"
	case eat(`"stderr"`):
		name = "stderr"
	default:
		return "", nil, false
	}
	if !eat(":") || !eat(`"`) {
		return "", nil, false
	}
	end := bytes.IndexAny(frame, `"\`)
	if end < 0 {
		return "", nil, false
	}
	text, frame = frame[:end], frame[end:]
	return name, text, eat(`"`) && eat("}") && eat("}") && eat("}") && len(bytes.TrimLeft(frame, " \t\r\n")) == 0
}

// end reads the last frame.
func (s *stream) end(frame []byte) error {
	var e ending
	if err := json.Unmarshal(frame, &e); err != nil {
		return fmt.Errorf("%w: the end of the stream: %w", mirror.ErrCut, err)
	}
	switch {
	case e.Error == nil:
		return nil
	case s.started && len(s.event.Event.End) == 0:
		return fmt.Errorf("%w: %.20q %.*q", mirror.ErrCut, e.Error.Code, maxWord, e.Error.Message)
	case s.started:
		return nil
	}
	return fmt.Errorf("start: the machine responded %.20q %.*q", e.Error.Code, maxWord, e.Error.Message)
}

// unary makes one call to the machine.
func (m *machine) unary(ctx context.Context, method string, in any, user string) error {
	message, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := m.request(ctx, http.MethodPost, "/process.Process/"+method, bytes.NewReader(message), user)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connect-Protocol-Version", "1")
	res, err := m.do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	return errors.Join(err, res.Body.Close())
}
