// Package wire carries programs, files and connections between a toolrunner and the agent in one of its virtual
// machines, over a single stream of bytes.
//
// Promises: any number of programs and files at once share the stream, and one that is not read does not hold the
// others. What comes from the other end is bounded in size. A file that was not sent whole is told apart from one that
// was. When the stream ends, all that went over it ends with an error.
package wire

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/mirror"
)

// ErrStream means that the other end broke the protocol.
var ErrStream = errors.New("malformed message on the channel of a virtual machine")

// ErrVersion means that the agent in the machine is of another version than the toolrunner.
var ErrVersion = errors.New("the inspan-guest in the machine's first file system has another version than this toolrunner: rebuild it with make microvm")

// Version of what both ends say. It is raised whenever an Order, a Hold or an answer gets another shape or meaning.
const Version = 2

// What a stream is for.
const (
	opRun  = "run"
	opEnd  = "end"
	opPut  = "put"
	opGet  = "get"
	opHold = "hold"
	opFull = "full"
	opPing = "ping"
)

const (
	// patience bounds one write to the stream, and the answer to a knock: a machine that is emulated on a busy computer
	// is slow, and not gone. The toolrunner knocks every knockEvery.
	patience   = 3 * time.Minute
	knockEvery = 30 * time.Second
	// window is how much of one stream may be on its way.
	window = 256 << 10
	// backlog is how many streams may be open that the other end has not taken yet; more are refused.
	backlog = 256
	// maxError bounds the text of an error, in bytes.
	maxError = 2 << 10
)

// Order begins a stream that a toolrunner opens.
type Order struct {
	Op string `json:"op"`
	// ID tells programs apart, to end them.
	ID string `json:"id,omitempty"`
	// Args of a program, Privileged where it is run as the machine's administrator, Stdin where it has input.
	Args       []string `json:"args,omitempty"`
	Privileged bool     `json:"privileged,omitempty"`
	Stdin      bool     `json:"stdin,omitempty"`
	// Path of a file.
	Path string `json:"path,omitempty"`
	Hold *Hold  `json:"hold,omitempty"`
}

// Hold says how a machine holds what runs in it. It comes once, before the first command.
type Hold struct {
	// Base is the directory of the sandbox, in which home, tmp and ws are put on the disk that is counted.
	Base string `json:"base"`
	// CPU in processors, Memory and Disk in bytes, PIDs; 0 for no limit.
	CPU    float64 `json:"cpu,omitempty"`
	Memory int64   `json:"memory,omitempty"`
	Disk   int64   `json:"disk,omitempty"`
	PIDs   int     `json:"pids,omitempty"`
	// Port of the machine's loopback at which the way out is found; 0 for none. Shown are files for those who go it, by
	// their absolute path.
	Port  int               `json:"port,omitempty"`
	Shown map[string][]byte `json:"shown,omitempty"`
}

// end is the last word of a stream. Version answers a ping, Used tells of a program.
type end struct {
	Error   string       `json:"error,omitempty"`
	Version int          `json:"version,omitempty"`
	Used    *mirror.Used `json:"used,omitempty"`
}

func (e end) because(err error) end {
	if err != nil {
		text := err.Error()
		e.Error = text[:min(len(text), maxError)]
	}
	return e
}

func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false // an end that is gone closes the stream
	c.ConnectionWriteTimeout, c.StreamOpenTimeout, c.StreamCloseTimeout = patience, patience, patience
	c.MaxStreamWindowSize = window
	c.AcceptBacklog = backlog
	c.LogOutput = io.Discard
	return c
}

// sendAll sends what a reader has in frames.
func sendAll(l *within.Line, kind within.Kind, r io.Reader) error {
	buf := make([]byte, within.Chunk)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := l.Send(kind, buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// body reads what comes in frames of one kind, until one of another kind that ends it; last is the error of that one,
// if any.
type body struct {
	line      *within.Line
	kind, end within.Kind
	last      func(data []byte) error
	left      []byte
	err       error
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	for len(b.left) == 0 && b.err == nil {
		kind, data, err := b.line.Next()
		switch {
		case err != nil:
			b.err = fmt.Errorf("the stream was cut off: %w", errors.Join(io.ErrUnexpectedEOF, err))
		case kind == b.kind:
			b.left = data
		case kind == b.end:
			b.err = cmp.Or(b.last(data), io.EOF)
		default:
			b.err = fmt.Errorf("%w: %q", ErrStream, kind)
		}
	}
	if len(b.left) == 0 {
		return 0, b.err
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}
