package streaming

import (
	"cmp"
	"encoding/json"
	"slices"
	"sort"
)

// Piece is text of a run as a watcher gets it.
type Piece struct {
	Message
	// Again says that the turn is asked for once more: what came of it before does not count.
	Again bool
	// Missed says that text is missing before this piece. The log has it in the end.
	Missed bool
}

// Joiner puts what is said and what was said so far together: each byte of a stream is received once and in order,
// whichever way it came, and however often. It is for one run and one goroutine at a time.
type Joiner struct {
	receive func(Piece)
	streams map[string]*joined
	// order is the ids in streams, the oldest first.
	order []string
	// current is the stream of a turn or a call whose text counts.
	current map[About]*joined
}

// joined is one stream as far as it was received.
type joined struct {
	// key names what it is about, attempt which try of that.
	key     About
	attempt int
	// pos is how many bytes were received.
	pos  int64
	done bool
	// void says that a later attempt has taken its place.
	void bool
	held []Message
	// seen is true once any of it was received; missed where the next piece follows a hole.
	seen, missed bool
}

// NewJoiner returns a joiner that has hear called with each piece.
func NewJoiner(receive func(Piece)) *Joiner {
	return &Joiner{receive: receive, streams: map[string]*joined{}, current: map[About]*joined{}}
}

// Take takes a message, said live or so far. What is no live message is left aside.
func (j *Joiner) Take(data []byte) {
	var m Message
	if json.Unmarshal(data, &m) != nil || m.ID == "" || m.At < 0 {
		return
	}
	s := j.stream(m)
	if s.void || s.done || m.end() < s.pos || m.end() == s.pos && !m.Done {
		return
	}
	s.held = append(s.held, m)
	sort.Slice(s.held, func(i, j int) bool {
		return cmp.Or(cmp.Compare(s.held[i].At, s.held[j].At), cmp.Compare(s.held[i].N, s.held[j].N)) < 0
	})
	if len(s.held) > MaxHeld {
		s.held = slices.Delete(s.held, 0, len(s.held)-MaxHeld)
	}
	j.play(s, false)
}

// Fill takes a message of a stream that is known, and leaves others aside: what was kept of them may be older than what
// is known.
func (j *Joiner) Fill(data []byte) {
	var m Message
	if json.Unmarshal(data, &m) == nil && j.streams[m.ID] != nil {
		j.Take(data)
	}
}

// Waiting reports whether anything is held until what comes before it is known: then it is time to ask what was said so
// far.
func (j *Joiner) Waiting() bool {
	for _, s := range j.streams {
		if len(s.held) > 0 {
			return true
		}
	}
	return false
}

// GiveUp passes on what is held although what comes before it is missing.
func (j *Joiner) GiveUp() {
	for _, id := range j.order {
		j.play(j.streams[id], true)
	}
}

// stream finds the stream of a message, and sees which attempt counts.
func (j *Joiner) stream(m Message) *joined {
	if s := j.streams[m.ID]; s != nil {
		return s
	}
	s := &joined{key: m.About, attempt: m.Attempt}
	if s.key.Attempt = 0; s.key.Owed > 0 {
		s.key.Turn = 0
	}
	j.streams[m.ID], j.order = s, append(j.order, m.ID)
	if len(j.order) > MaxStreams {
		old := j.streams[j.order[0]]
		if j.current[old.key] == old {
			delete(j.current, old.key)
		}
		delete(j.streams, j.order[0])
		j.order = j.order[1:]
	}
	before := j.current[s.key]
	switch {
	case before == nil:
	case before.attempt > s.attempt:
		s.void = true
		return s
	default:
		before.void, before.held = true, nil
	}
	j.current[s.key] = s
	if before != nil && before.seen {
		s.seen = true
		j.receive(Piece{Message: Message{Event: m.Event, About: m.About, ID: m.ID, Output: m.Output}, Again: true})
	}
	return s
}

// play passes on what follows what was passed on; with force, also behind a hole.
func (j *Joiner) play(s *joined, force bool) {
	for len(s.held) > 0 {
		m := s.held[0]
		if m.At > s.pos {
			if !force && !m.First {
				return
			}
			s.pos, s.missed = m.At, true
		}
		s.held = s.held[1:]
		end := m.end()
		if end < s.pos || end == s.pos && !m.Done {
			continue
		}
		m.Content, m.At = m.Content[s.pos-m.At:], s.pos
		s.pos = end
		j.receive(Piece{Message: m, Missed: s.missed})
		s.seen, s.missed = true, false
		if m.Done {
			s.done, s.held = true, nil
		}
	}
}
