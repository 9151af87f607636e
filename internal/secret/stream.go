package secret

import (
	"bytes"
	"slices"
)

// Stream does to a text that comes in pieces what Mask does to a whole one: a secret is found also where it is cut in
// two. What may be the beginning of one is held back until it is known, at most one byte less than the longest secret.
// It is for one goroutine at a time. The zero Stream knows no secret.
type Stream struct {
	texts  [][]byte // the longest first
	begins [256]bool
	held   []byte
}

// NewStream returns a stream that masks secrets.
func NewStream(secrets ...Value) *Stream {
	s := &Stream{}
	for _, v := range secrets {
		if !v.Empty() {
			s.texts = append(s.texts, []byte(v.Reveal()))
			s.begins[v.Reveal()[0]] = true
		}
	}
	slices.SortStableFunc(s.texts, func(a, b []byte) int { return len(b) - len(a) })
	return s
}

// Next takes the next piece and returns what is known by now. The result is valid until the next call, and may share
// memory with the piece.
func (s *Stream) Next(piece []byte) []byte {
	if len(s.texts) == 0 {
		return piece
	}
	return s.mask(append(s.held, piece...), false)
}

// Rest returns what was held back: nothing more comes.
func (s *Stream) Rest() []byte {
	out := s.mask(s.held, true)
	s.held = nil
	return out
}

// mask goes through a text from left to right; with all, nothing is held back.
func (s *Stream) mask(text []byte, all bool) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(text); {
		if !s.begins[text[i]] {
			i++
			continue
		}
		n, maybe := s.at(text[i:], all)
		if maybe {
			out = append(out, text[done:i]...)
			s.held = bytes.Clone(text[i:])
			return out
		}
		if n == 0 {
			i++
			continue
		}
		out = append(append(out, text[done:i]...), mask...)
		i += n
		done = i
	}
	s.held = nil
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

// at is the length of the secret that a text begins with, 0 for none; maybe says that the text is too short to know,
// unless it is all there is.
func (s *Stream) at(text []byte, all bool) (n int, maybe bool) {
	for _, t := range s.texts {
		switch {
		case bytes.HasPrefix(text, t):
			return len(t), false
		case !all && len(text) < len(t) && bytes.HasPrefix(t, text):
			return 0, true
		}
	}
	return 0, false
}
