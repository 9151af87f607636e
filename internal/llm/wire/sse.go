package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Limits of a stream, beside MaxAnswerBytes of the whole of it.
const (
	// MaxLineBytes bounds one line, also of a comment; MaxEventBytes the data of one event.
	MaxLineBytes  = 32 << 20
	MaxEventBytes = 32 << 20
)

// ErrEventTooLarge ends the reading of a stream with a line or an event above its limit.
var ErrEventTooLarge = fmt.Errorf("event of the stream is larger than %d bytes", MaxEventBytes)

// Event is one server-sent event.
type Event struct {
	// Type is the value of its event field; empty where it has none.
	Type string
	// Data are the values of its data fields, joined by line feeds. The bytes are good until the next event.
	Data []byte
}

// Events reads server-sent events (WHATWG HTML, 9.2): a line ends with CR, LF or both, one byte order mark may stand
// first, and comments, ids and unknown fields are left out. An event without a data field is none.
//
// An error ends the events and comes last: that of r, ErrEventTooLarge, or ErrCut where r ends inside of an event; the
// Event beside ErrCut is what came of it.
func Events(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var l lineSplitter
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, MaxLineBytes)
		lines.Split(l.split)
		var e building
		for first := true; lines.Scan(); first = false {
			line := lines.Bytes()
			if first {
				line = bytes.TrimPrefix(line, []byte("\uFEFF"))
			}
			if l.cut {
				if len(line) > 0 && line[0] != ':' {
					e.open = true
					e.take(line)
				}
				break
			}
			if len(line) > 0 {
				if !e.take(line) {
					yield(Event{}, ErrEventTooLarge)
					return
				}
				continue
			}
			if e.hasData && !yield(e.Event, nil) {
				return
			}
			e = building{Event: Event{Data: e.Data[:0]}}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(Event{}, ErrEventTooLarge)
		case err != nil:
			yield(Event{}, err)
		case e.open:
			yield(e.Event, ErrCut)
		}
	}
}

// building is an event whose blank line has not come.
type building struct {
	Event
	hasData bool
	// open is whether a stream that ends here ends inside of the event.
	open bool
}

// take adds a line. It reports false where the data would be too large.
func (e *building) take(line []byte) bool {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		e.Type = string(value)
	case "data":
		if e.hasData {
			e.Data = append(e.Data, '\n')
		}
		if len(e.Data)+len(value) > MaxEventBytes {
			return false
		}
		e.Data = append(e.Data, value...)
		e.hasData, e.open = true, true
	}
	return true
}

// lineSplitter finds lines for a bufio.Scanner. A line is given as soon as its CR is there: the LF that may follow is
// skipped when it comes.
type lineSplitter struct {
	afterCR bool
	// seen is how much of the line that is under way has no end in it: long lines are not searched again with each
	// read.
	seen int
	// cut is whether the last line had no end.
	cut bool
}

// split implements bufio.SplitFunc.
func (l *lineSplitter) split(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if l.afterCR && len(data) > 0 {
		l.afterCR = false
		if data[0] == '\n' {
			advance = 1
		}
	}
	rest := data[advance:]
	end := bytes.IndexAny(rest[l.seen:], "\r\n")
	switch {
	case end >= 0:
		end += l.seen
		l.seen = 0
		advance += end + 1
		if rest[end] == '\r' {
			if advance == len(data) {
				l.afterCR = true
			} else if data[advance] == '\n' {
				advance++
			}
		}
		return advance, rest[:end], nil
	case atEOF && len(rest) > 0:
		l.cut = true
		return len(data), rest, nil
	}
	l.seen = len(rest)
	return advance, nil, nil
}
