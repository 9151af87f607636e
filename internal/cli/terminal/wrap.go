package terminal

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Wrapper writes a text that comes in pieces: word by word, broken at a width, behind an indent. What a terminal would
// act on must have been taken out.
type Wrapper struct {
	Write  func(string)
	Indent string
	// Width of a line in characters; 0 breaks none.
	Width int
	// Style wraps each written piece; nil leaves it as it is.
	Style func(string) string

	column int
	word   strings.Builder
	// wordWidth is about the width of the word so far; open is true where its beginning has been written.
	wordWidth int
	split     bool
	// gap is the space before the word, begun that something stands on this line.
	gap     string
	started bool
}

// Add writes what can be written: the last word waits for its end.
func (f *Wrapper) Add(text string) {
	for _, r := range text {
		switch r {
		case '\n':
			f.flush()
			f.newline()
		case ' ', '\t':
			f.flush()
			f.split = false
			f.gap += string(r)
		default:
			f.word.WriteRune(r)
			f.wordWidth += ansi.StringWidth(string(r))
			switch {
			case spaceless(r):
				f.flush()
				f.split = false
			case f.Width > 0 && f.wordWidth >= f.Width: // wider than a line: it is shown as it comes, and the terminal breaks it
				f.flush()
				f.split = true
			}
		}
	}
}

// spaceless reports whether a line may be broken behind a character.
func spaceless(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) }

func (f *Wrapper) newline() {
	f.Write("\n")
	f.column, f.gap, f.started, f.split = 0, "", false, false
}

// flush writes the last word.
func (f *Wrapper) flush() {
	word := f.word.String()
	if word == "" {
		return
	}
	f.word.Reset()
	f.wordWidth = 0
	wide := ansi.StringWidth(word)
	if f.Width > 0 && f.started && !f.split && f.column+len(f.gap)+wide > f.Width {
		f.newline()
	}
	if !f.started {
		f.Write(f.Indent)
		f.column, f.started = len(f.Indent), true
	}
	if f.Style != nil {
		f.Write(f.Style(f.gap + word))
	} else {
		f.Write(f.gap + word)
	}
	f.column += len(f.gap) + wide
	f.gap = ""
}

// End writes the rest and ends the line.
func (f *Wrapper) End() {
	f.flush()
	if f.started {
		f.newline()
	}
	f.gap = ""
}
