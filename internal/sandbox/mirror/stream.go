package mirror

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxHead is the most bytes of the first line of a supervised command, maxEnd of what follows its nonce.
const (
	maxHead = 256
	maxEnd  = 256
)

// speech takes apart what supervise says: the first line, the command's output, and how it ended.
type speech struct {
	begun chan struct{} // closed when pid or refusal is known
	over  chan struct{} // closed when the end was received on all streams

	mu      sync.Mutex
	nonce   []byte
	pid     int    // guarded by mu, as is what follows
	refusal string // why the command did not start
	head    []byte
	ended   bool // the end was received on stdout
	end     []byte
	waits   int // streams of which the end was not received
	code    int
	user    time.Duration
	system  time.Duration
}

func newSpeech(nonce string, streams int) *speech {
	return &speech{nonce: []byte(nonce), waits: streams, begun: make(chan struct{}), over: make(chan struct{})}
}

// line is one of the command's output streams: it passes on what comes before the nonce.
type line struct {
	speech *speech
	to     io.Writer // nil where no one listens, or no more
	first  bool      // the stream has the first line and the end
	held   []byte    // may be the beginning of the nonce
	closed bool
}

// Write implements io.Writer. It never fails: a command does not hang because no one listens.
func (l *line) Write(p []byte) (int, error) {
	n := len(p)
	if l.first {
		p = l.speech.begin(p)
	}
	if l.closed {
		if l.first {
			l.speech.finish(p)
		}
		return n, nil
	}
	if len(l.held) > 0 {
		p = append(l.held, p...)
		l.held = nil
	}
	if at := bytes.Index(p, l.speech.nonce); at >= 0 {
		l.pass(p[:at])
		l.closed = true
		if l.first {
			l.speech.finish(p[at+len(l.speech.nonce):])
		} else {
			l.speech.silent()
		}
		return n, nil
	}
	keep := overlap(p, l.speech.nonce)
	l.pass(p[:len(p)-keep])
	l.held = append(l.held, p[len(p)-keep:]...)
	return n, nil
}

// flush passes on what was held, where the stream ended without a nonce.
func (l *line) flush() {
	if !l.closed {
		l.pass(l.held)
		l.held = nil
	}
}

func (l *line) pass(p []byte) {
	if l.to == nil || len(p) == 0 {
		return
	}
	if _, err := l.to.Write(p); err != nil {
		l.to = nil
	}
}

// overlap is the length of the longest end of p that nonce begins with.
func overlap(p, nonce []byte) int {
	for n := min(len(p), len(nonce)-1); n > 0; n-- {
		if bytes.HasSuffix(p, nonce[:n]) {
			return n
		}
	}
	return 0
}

// begin takes the first line away.
func (s *speech) begin(p []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pid != 0 || s.refusal != "" {
		return p
	}
	s.head = append(s.head, p...)
	text, rest, ok := bytes.Cut(s.head, []byte("\n"))
	if !ok && len(s.head) <= maxHead {
		return nil
	}
	said, refused := strings.CutPrefix(string(text), "!")
	pid, err := strconv.Atoi(said)
	switch {
	case refused && ok:
		s.refusal = said
	case err == nil && pid > 1:
		s.pid = pid
	default:
		s.refusal = "the shell on the other machine did not report a process id"
	}
	close(s.begun)
	return rest
}

// finish takes what follows the nonce on stdout: code, and two lines of times.
func (s *speech) finish(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.end = append(s.end, p...)
	lines := strings.Split(string(s.end), "\n")
	if len(lines) < 4 && len(s.end) < maxEnd {
		return
	}
	s.ended = true
	if code, err := strconv.Atoi(strings.TrimSpace(lines[0])); err == nil {
		s.code = code
	}
	if len(lines) > 2 {
		if used := strings.Fields(lines[2]); len(used) == 2 {
			s.user, s.system = minutes(used[0]), minutes(used[1])
		}
	}
	s.received()
}

func (s *speech) silent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received()
}

func (s *speech) received() {
	if s.waits--; s.waits == 0 {
		close(s.over)
	}
}

// done reports whether the end was received.
func (s *speech) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// started returns the process id, or why there is none; both are empty where nothing was said.
func (s *speech) started() (int, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid, s.refusal
}

// minutes reads a time as the builtin times of a shell prints it, such as 0m1.25s; 0 where it is none.
func minutes(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0
	}
	return d
}

// quoted is what a helper said, on one line.
func quoted(text string) string {
	return fmt.Sprintf("%q", strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")))
}
