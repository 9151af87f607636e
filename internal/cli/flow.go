package cli

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// flow writes a text that comes in pieces: word by word, broken at a width, behind an indent. What a terminal would act on
// must have been taken out.
type flow struct {
	write  func(string)
	indent string
	// width of a line in characters; 0 breaks none.
	width int
	// style wraps each written piece; nil leaves it as it is.
	style func(string) string

	at   int
	word strings.Builder
	// wide is about the width of the word so far; open is true where its beginning has been written.
	wide int
	open bool
	// gap is the space before the word, begun that something stands on this line.
	gap   string
	begun bool
}

// add writes what can be written: the last word waits for its end.
func (f *flow) add(text string) {
	for _, r := range text {
		switch r {
		case '\n':
			f.flush()
			f.newline()
		case ' ', '\t':
			f.flush()
			f.open = false
			f.gap += string(r)
		default:
			f.word.WriteRune(r)
			f.wide += ansi.StringWidth(string(r))
			switch {
			case spaceless(r):
				f.flush()
				f.open = false
			case f.width > 0 && f.wide >= f.width: // wider than a line: it is shown as it comes, and the terminal breaks it
				f.flush()
				f.open = true
			}
		}
	}
}

// spaceless reports whether a line may be broken behind a character.
func spaceless(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) }

func (f *flow) newline() {
	f.write("\n")
	f.at, f.gap, f.begun, f.open = 0, "", false, false
}

// flush writes the last word.
func (f *flow) flush() {
	word := f.word.String()
	if word == "" {
		return
	}
	f.word.Reset()
	f.wide = 0
	wide := ansi.StringWidth(word)
	if f.width > 0 && f.begun && !f.open && f.at+len(f.gap)+wide > f.width {
		f.newline()
	}
	if !f.begun {
		f.write(f.indent)
		f.at, f.begun = len(f.indent), true
	}
	if f.style != nil {
		f.write(f.style(f.gap + word))
	} else {
		f.write(f.gap + word)
	}
	f.at += len(f.gap) + wide
	f.gap = ""
}

// end writes the rest and ends the line.
func (f *flow) end() {
	f.flush()
	if f.begun {
		f.newline()
	}
	f.gap = ""
}
