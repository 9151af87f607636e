package within

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Kind says what a frame is.
type Kind byte

// Frames to the helper: Setup or Start (Order), input and its end, a Question, and the wish that all ends.
const (
	FrameOrder    Kind = 'o'
	FrameInput    Kind = 'i'
	FrameInputEnd Kind = 'e'
	FrameQuestion Kind = 'q'
	FrameKill     Kind = 'k'
)

// Frames from the helper: Ready or Begun, output, that a frame of input was taken, an Answer, and the End, which is
// last.
const (
	FrameBegun  Kind = 'b'
	FrameOut    Kind = '1'
	FrameErr    Kind = '2'
	FrameTaken  Kind = 't'
	FrameAnswer Kind = 'a'
	FrameEnd    Kind = 'z'
)

const (
	head = 5
	// MaxFrame bounds one frame: an order carries what the kernel takes as arguments and environment.
	MaxFrame = 8 << 20
	// Chunk is the most of input or output in one frame.
	Chunk = 32 << 10
)

// ErrFrame means that what came is no frame.
var ErrFrame = errors.New("malformed message between helper and toolrunner")

// Line carries frames over a pair of streams. Sending is safe for concurrent use, Next is not.
type Line struct {
	r   *bufio.Reader
	buf []byte

	mu  sync.Mutex
	w   io.Writer
	out []byte // guarded by mu
}

// NewLine makes a Line.
func NewLine(r io.Reader, w io.Writer) *Line {
	return &Line{r: bufio.NewReaderSize(r, Chunk+head), w: w}
}

// Send sends one frame, in one Write.
func (l *Line) Send(kind Kind, data []byte) error {
	if len(data) > MaxFrame {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrFrame, len(data), MaxFrame)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = append(l.out[:0], byte(kind))
	l.out = binary.BigEndian.AppendUint32(l.out, uint32(len(data)))
	l.out = append(l.out, data...)
	_, err := l.w.Write(l.out)
	return err
}

// SendJSON sends a frame of JSON.
func (l *Line) SendJSON(kind Kind, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.Send(kind, data)
}

// Next waits for a frame. Its data holds until the next call.
func (l *Line) Next() (Kind, []byte, error) {
	var h [head]byte
	if _, err := io.ReadFull(l.r, h[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(h[1:])
	if n > MaxFrame {
		return 0, nil, fmt.Errorf("%w: %d bytes, at most %d", ErrFrame, n, MaxFrame)
	}
	if cap(l.buf) < int(n) {
		l.buf = make([]byte, n)
	}
	l.buf = l.buf[:n]
	if _, err := io.ReadFull(l.r, l.buf); err != nil {
		return 0, nil, err
	}
	return Kind(h[0]), l.buf, nil
}

// Want waits for a frame of JSON of one kind.
func (l *Line) Want(kind Kind, v any) error {
	got, data, err := l.Next()
	if err != nil {
		return err
	}
	if got != kind {
		return fmt.Errorf("%w: %q, want %q", ErrFrame, got, kind)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}
