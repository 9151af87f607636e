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
	// word is what stands without a space so far, in parts of one style each; wordWidth is about its width. split is true
	// where its beginning has been written.
	word      []part
	wordWidth int
	split     bool
	// gap is the space before the word, started that something stands on this line.
	gap     string
	started bool
	// lead stands behind the indent of the next line, hang behind that of the lines after it, until the text has a line of
	// its own again.
	lead, hang string
}

// part is a piece of a word.
type part struct {
	text  string
	style func(string) string
}

// Add writes what can be written: the last word waits for its end.
func (f *Wrapper) Add(text string) { f.styled(text, f.Style) }

// styled is Add in another style.
func (f *Wrapper) styled(text string, style func(string) string) {
	own := false // whether the last part is of this call
	for _, r := range text {
		switch r {
		case '\n':
			f.flush()
			f.newline()
			f.lead, f.hang, own = "", "", false
		case ' ', '\t':
			f.flush()
			f.split, own = false, false
			f.gap += string(r)
		default:
			if !own {
				f.word, own = append(f.word, part{style: style}), true
			}
			f.word[len(f.word)-1].text += string(r)
			f.wordWidth += ansi.StringWidth(string(r))
			switch {
			case spaceless(r):
				f.flush()
				f.split, own = false, false
			case f.Width > 0 && f.wordWidth >= f.Width: // wider than a line: it is shown as it comes, and the terminal breaks it
				f.flush()
				f.split, own = true, false
			}
		}
	}
}

// whole writes a text on a line of its own that is not broken.
func (f *Wrapper) whole(text string, style func(string) string) {
	f.End()
	if text = strings.TrimRight(text, " \t"); text != "" {
		if style != nil {
			text = style(text)
		}
		f.Write(f.Indent + text)
	}
	f.newline()
}

// spaceless reports whether a line may be broken behind a character.
func spaceless(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) }

func (f *Wrapper) newline() {
	f.Write("\n")
	f.column, f.gap, f.started, f.split = 0, "", false, false
}

// flush writes the last word.
func (f *Wrapper) flush() {
	if len(f.word) == 0 {
		return
	}
	wide := 0
	for _, p := range f.word {
		wide += ansi.StringWidth(p.text)
	}
	if f.Width > 0 && f.started && !f.split && f.column+len(f.gap)+wide > f.Width {
		f.newline()
		f.lead = f.hang
	}
	if !f.started {
		f.Write(f.Indent + f.lead)
		f.column, f.started = ansi.StringWidth(f.Indent+f.lead), true
	}
	f.Write(f.gap)
	for _, p := range f.word {
		if p.style != nil {
			p.text = p.style(p.text)
		}
		f.Write(p.text)
	}
	f.column += len(f.gap) + wide
	f.gap, f.word, f.wordWidth = "", f.word[:0], 0
}

// End writes the rest and ends the line.
func (f *Wrapper) End() {
	f.flush()
	if f.started {
		f.newline()
	}
	f.gap, f.lead, f.hang = "", "", ""
}
