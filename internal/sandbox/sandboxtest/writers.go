package sandboxtest

import (
	"bytes"
	"strings"
	"sync"
)

// safe is a buffer for several goroutines that tells when a word has come by.
type safe struct {
	mu       sync.Mutex
	buf      bytes.Buffer
	word     string
	received chan struct{}
}

// listener returns a buffer whose received channel closes when its text holds the word.
func listener(word string) *safe { return &safe{word: word, received: make(chan struct{})} }

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Write(p)
	if s.word != "" && strings.Contains(s.buf.String(), s.word) {
		s.word = ""
		close(s.received)
	}
	return len(p), nil
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// counter counts and drops.
type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}
