package streaming

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
)

// Publisher takes live messages. It must not wait and must not keep data.
type Publisher interface {
	Publish(run string, data []byte)
}

// Feed is the streams that one service has at work. It is safe for concurrent use. A nil Feed says nothing.
type Feed struct {
	out Publisher
	mu  sync.Mutex
	// open are the streams at work by run, guarded by mu.
	open map[string][]*Stream
}

// New returns a feed that publishes on out; nil, which says nothing, where out is nil.
func New(out Publisher) *Feed {
	if out == nil {
		return nil
	}
	return &Feed{out: out, open: map[string][]*Stream{}}
}

// Open begins the stream of an attempt. Close must be called when its end is stored.
func (f *Feed) Open(run string, about About) *Stream {
	if f == nil {
		return nil
	}
	s := &Stream{feed: f, run: run, head: Message{About: about}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[run] = append(f.open[run], s)
	return s
}

// SoFar returns, as live messages, what the streams at work of a run have said, each stream in order; nil where there
// is none.
func (f *Feed) SoFar(run string) [][]byte {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	streams := slices.Clone(f.open[run])
	f.mu.Unlock()
	var all [][]byte
	for _, s := range streams {
		all = append(all, s.soFar()...)
	}
	return all
}

// Stream is the text of one attempt. Its methods may be called from several goroutines. A nil Stream says nothing.
type Stream struct {
	feed *Feed
	run  string
	mu   sync.Mutex
	// The rest is guarded by mu. head is what the next message begins with, pending the text gathered for it.
	head    Message
	pending []byte
	// last is when the last message went out; timer is set while text waits for the next.
	last  time.Time
	timer *time.Timer
	// spent is what of the budget of a tool's output is used up, by the time of spentAt.
	spent   int
	spentAt time.Time
	// parts is what was said, in parts; bytes is the text in them.
	parts []Message
	bytes int
	done  bool
	// ending lets the last text be said however much was.
	ending bool
}

// Write says more text: event is Token, Thinking or ToolOutput, output what a tool wrote to.
func (s *Stream) Write(event, output, text string) {
	if s == nil || text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return
	}
	if event != s.head.Event || output != s.head.Output {
		s.flush(true)
		s.head.Event, s.head.Output = event, output
	}
	s.pending = append(s.pending, text...)
	quiet := time.Since(s.last)
	switch {
	case len(s.pending) >= BatchBytes || quiet >= BatchTime:
		s.flush(false)
	case s.timer == nil:
		s.timer = time.AfterFunc(BatchTime-quiet, s.due)
	}
}

// due says what has waited long enough.
func (s *Stream) due() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.flush(false)
	}
}

// Done says the last message: that the attempt has come to its end, and with cause why it failed.
func (s *Stream) Done(cause error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return
	}
	s.ending = true
	s.flush(true)
	s.done = true
	if s.head.N == 0 && s.head.Call != "" && cause == nil {
		return // a tool that printed nothing
	}
	s.head.Done, s.head.Output = true, ""
	if s.head.Event = Token; s.head.Call != "" {
		s.head.Event = ToolOutput
	}
	if cause != nil {
		s.head.Event, s.head.Error = Error, cause.Error()
	}
	s.append("")
}

// Close forgets the stream; what came of the attempt is stored, or never will be.
func (s *Stream) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.done = true
	s.stop()
	s.mu.Unlock()
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[s.run] = slices.DeleteFunc(f.open[s.run], func(o *Stream) bool { return o == s }); len(f.open[s.run]) == 0 {
		delete(f.open, s.run)
	}
}

func (s *Stream) stop() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// flush says what is pending; a character that is not whole yet waits, unless all has to go. mu is held.
func (s *Stream) flush(all bool) {
	s.stop()
	text := s.pending
	if !all {
		text = text[:whole(text)]
	}
	rest := s.pending[len(text):]
	text, hold := s.afford(text, all)
	for valid := bytes.ToValidUTF8(text, []byte("\uFFFD")); len(valid) > 0; {
		part := valid
		if len(part) > MaxPart {
			part = part[:whole(part[:MaxPart])]
		}
		s.append(string(part))
		valid = valid[len(part):]
	}
	s.pending = append(append(s.pending[:0], hold...), rest...)
	if len(hold) > 0 {
		s.timer = time.AfterFunc(BatchTime, s.due)
	}
}

// afford leaves out the beginning of a tool's output that comes faster than it may be said. What is held waits for its
// turn: the newest of it, so that the end is said; with all, nothing is held. mu is held.
func (s *Stream) afford(text []byte, all bool) (say, hold []byte) {
	if s.head.Event != ToolOutput || len(text) == 0 {
		return text, nil
	}
	now := time.Now()
	s.spent = max(0, s.spent-int(now.Sub(s.spentAt).Seconds()*RateBytes))
	s.spentAt = now
	left, crumbs := BurstBytes-s.spent-MessageCost, false
	if left < min(len(text), BatchBytes) {
		left, crumbs = BatchBytes, !s.ending
		if all && crumbs {
			left = 0
		}
	}
	if out := len(text) - left; out > 0 {
		for out < len(text) && !utf8.RuneStart(text[out]) {
			out++
		}
		s.head.At, s.head.First = s.head.At+int64(out), true
		text = text[out:]
	}
	if crumbs {
		return nil, text
	}
	s.spent += len(text) + MessageCost
	return text, nil
}

// whole is the length of a text without the beginning of a character at its end.
func whole(text []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if c := text[len(text)-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[len(text)-back:]) {
				return len(text) - back
			}
			break
		}
	}
	return len(text)
}

// append publishes one message and keeps it. mu is held.
func (s *Stream) append(text string) {
	if s.head.N++; s.head.ID == "" {
		s.head.ID = rand.Text()[:16]
	}
	m := s.head
	m.Content = text
	if b, err := json.Marshal(m); err == nil {
		s.feed.out.Publish(s.run, b)
	}
	s.last = time.Now()
	s.head.At, s.head.First = m.end(), false
	s.keep(m)
}

// keep adds a message to what is told to those who come late. mu is held.
func (s *Stream) keep(m Message) {
	s.bytes += len(m.Content)
	if i := len(s.parts) - 1; i >= 0 && !m.Done && !m.First && s.parts[i].Event == m.Event &&
		s.parts[i].Output == m.Output && len(s.parts[i].Content)+len(m.Content) <= BatchBytes {
		s.parts[i].Content, s.parts[i].N = s.parts[i].Content+m.Content, m.N
		return
	}
	s.parts = append(s.parts, m)
	for s.bytes > MaxReplay && len(s.parts) > 1 {
		s.bytes -= len(s.parts[0].Content)
		s.parts[0] = Message{}
		s.parts = s.parts[1:]
		s.parts[0].First = true
	}
}

// soFar returns what was said, in few messages.
func (s *Stream) soFar() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.flush(false)
	}
	var all [][]byte
	for i := 0; i < len(s.parts); {
		m, text := s.parts[i], []byte(s.parts[i].Content)
		for i++; i < len(s.parts) && !s.parts[i].Done && !s.parts[i].First && s.parts[i].Event == m.Event &&
			s.parts[i].Output == m.Output && len(text)+len(s.parts[i].Content) <= MaxPart; i++ {
			text, m.N = append(text, s.parts[i].Content...), s.parts[i].N
		}
		m.Content = string(text)
		if b, err := json.Marshal(m); err == nil {
			all = append(all, b)
		}
	}
	return all
}
