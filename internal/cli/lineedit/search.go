package lineedit

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/core/view"
)

// search looks for an earlier input that has a text, backwards from the newest.
type search struct {
	query string
	// back counts inputs as in editor, 0 before one is found; missed is true where no earlier one has the query.
	back   int
	missed bool
	// text and at are what was being typed.
	text string
	at   int
}

// prompt stands before the input that was found.
func (s *search) prompt() string {
	word := "search"
	if s.missed {
		word = "no earlier input has"
	}
	return fmt.Sprintf("%s '%s': ", word, view.Clip(s.query, 40))
}

// searching does what a key says in a search, and reports whether the key is used up.
func (e *editor) searching(key string) bool {
	s := e.search
	switch key {
	case ctrl('r'):
		e.find(s.back + 1)
	case "\x7f", "\b":
		if s.query != "" {
			_, n := utf8.DecodeLastRuneInString(s.query)
			s.query = s.query[:len(s.query)-n]
			e.find(1)
		}
	case ctrl('g'), ctrl('c'), "\x1b":
		e.text, e.at, e.search = s.text, s.at, nil
	default:
		if r, n := utf8.DecodeRuneInString(key); n == len(key) && !unicode.IsControl(r) {
			s.query += key
			e.find(max(s.back, 1))
			return true
		}
		e.search, e.back = nil, s.back // what was found is edited now, or sent
		return false
	}
	return true
}

// find shows the newest input that has the query, from so many inputs back on.
func (e *editor) find(from int) {
	s := e.search
	for back := from; s.query != "" && back <= e.history.Len(); back++ {
		text := e.history.At(back - 1)
		if at := strings.Index(strings.ToLower(text), strings.ToLower(s.query)); at >= 0 {
			s.back, s.missed = back, false
			e.text, e.at = text, min(at, len(text))
			return
		}
	}
	s.missed = s.query != ""
}
