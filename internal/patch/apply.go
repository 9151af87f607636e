package patch

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoFit means that a hunk does not stand in a text, or at several places of it; the error tells which and what
// stands there.
var ErrNoFit = errors.New("does not fit")

const (
	// maxWork bounds what the search for one file's hunks may cost, in lines compared, long ones counted by their
	// length.
	maxWork = 30_000_000
	// around is the most lines of a text that a message quotes, maxQuote the most bytes of each.
	around   = 12
	maxQuote = 200
	// maxPlaces is the most places that a message names.
	maxPlaces = 8
)

// Apply returns what a file to update or move holds after its hunks.
func (f File) Apply(content string) (string, error) { return apply(f.From, f.Hunks, content) }

// Undo returns what the file held before: it is how to tell that a patch was carried out already.
func (f File) Undo(content string) (string, error) {
	hunks := make([]Hunk, len(f.Hunks))
	shift := 0
	for i, h := range f.Hunks {
		hunks[i] = h.reversed()
		if h.Start >= 0 {
			hunks[i].Start += shift
			if len(h.Old) == 0 {
				hunks[i].Start++
			} else if len(h.New) == 0 {
				hunks[i].Start--
			}
		}
		shift += len(h.New) - len(h.Old)
	}
	return apply(f.To, hunks, content)
}

func apply(name string, hunks []Hunk, content string) (string, error) {
	d := newDocument(content)
	var out []string
	pos := 0
	for n, h := range hunks {
		h = d.clean(h)
		at, err := d.find(h, pos)
		if err == nil {
			err = d.ends(h, at)
		}
		if err != nil {
			return "", fmt.Errorf("hunk %d of %d for %s %w", n+1, len(hunks), name, err)
		}
		out = append(out, d.raw[pos:at]...)
		for i, l := range h.New {
			switch k := h.pairs[i]; {
			case k >= 0:
				out = append(out, d.raw[at+k])
			case l.Open:
				out = append(out, l.Text)
			default:
				out = append(out, l.Text+d.eol)
			}
		}
		pos = at + len(h.Old)
	}
	out = append(out, d.raw[pos:]...)
	for i, l := range out {
		if i < len(out)-1 && !strings.HasSuffix(l, "\n") {
			out[i] += d.eol
		}
	}
	return strings.Join(out, ""), nil
}

// document is a text by lines: raw with their ends, bare without.
type document struct {
	raw, bare []string
	eol       string
	work      int
}

func newDocument(content string) *document {
	d := &document{eol: "\n"}
	if content != "" {
		d.raw = strings.SplitAfter(content, "\n")
		if last := len(d.raw) - 1; d.raw[last] == "" {
			d.raw = d.raw[:last]
		}
	}
	if 2*strings.Count(content, "\r\n") > len(d.raw) {
		d.eol = "\r\n"
	}
	d.bare = make([]string, len(d.raw))
	for i, l := range d.raw {
		d.bare[i] = d.strip(strings.TrimSuffix(l, "\n"))
	}
	return d
}

// strip takes off what belongs to a line's end in this text.
func (d *document) strip(l string) string {
	if d.eol == "\r\n" {
		return strings.TrimSuffix(l, "\r")
	}
	return l
}

func (d *document) clean(h Hunk) Hunk {
	c := func(lines []Line) []Line {
		out := make([]Line, len(lines))
		for i, l := range lines {
			out[i] = Line{d.strip(l.Text), l.Open}
		}
		return out
	}
	h.Old, h.New = c(h.Old), c(h.New)
	return h
}

// matching returns how many old lines stand at a place, one behind the other.
func (d *document) matching(h Hunk, at int) int {
	for i, l := range h.Old {
		if at+i >= len(d.bare) {
			return i
		}
		d.work += 1 + min(len(l.Text), len(d.bare[at+i]))/64
		if l.Text != d.bare[at+i] {
			return i
		}
	}
	return len(h.Old)
}

// find returns where a hunk stands, as an index of lines, at or behind pos.
func (d *document) find(h Hunk, pos int) (int, error) {
	for _, anchor := range h.Anchors {
		i := pos
		for i < len(d.bare) && strings.TrimSpace(d.bare[i]) != anchor {
			i++
		}
		if i == len(d.bare) {
			return 0, fmt.Errorf("%w: no line after line %d is %q", ErrNoFit, pos, clip(anchor))
		}
		pos = i + 1
	}
	if len(h.Old) == 0 {
		return d.insertion(h, pos)
	}
	if h.AtEnd {
		if at := len(d.bare) - len(h.Old); at >= pos && d.matching(h, at) == len(h.Old) {
			return at, nil
		}
		return 0, d.noFit(h, max(pos, len(d.bare)-len(h.Old)))
	}
	if at := h.Start - 1; at >= pos && d.matching(h, at) == len(h.Old) {
		return at, nil
	}
	var places []int
	best, most := pos, -1
	for at := pos; at < len(d.bare); at++ {
		n := d.matching(h, at)
		if d.work > maxWork {
			return 0, fmt.Errorf("%w: the search for its lines takes too long; give the correct line numbers", ErrNoFit)
		}
		if n == len(h.Old) {
			if len(h.Anchors) > 0 {
				return at, nil
			}
			places = append(places, at)
		}
		if n > most {
			best, most = at, n
		}
	}
	switch {
	case len(places) == 1:
		return places[0], nil
	case len(places) > 1:
		return 0, fmt.Errorf("%w uniquely: its old lines occur at the lines %s; give more context lines, or the line number",
			ErrNoFit, numbers(places))
	case most <= 0 && h.Start > pos && h.Start <= len(d.bare):
		best = h.Start - 1
	}
	return 0, d.noFit(h, best)
}

// insertion is where a hunk without old lines goes.
func (d *document) insertion(h Hunk, pos int) (int, error) {
	switch {
	case h.Start >= pos && h.Start <= len(d.bare):
		return h.Start, nil
	case h.Start >= 0:
		return 0, fmt.Errorf("%w: it inserts after line %d, the file has %d lines", ErrNoFit, h.Start, len(d.bare))
	case len(h.Anchors) > 0 && !h.AtEnd:
		return pos, nil
	}
	return len(d.bare), nil
}

// ends checks what a hunk says about the end of the file.
func (d *document) ends(h Hunk, at int) error {
	end := at + len(h.Old)
	for i, l := range h.Old {
		if l.Open && (at+i != len(d.raw)-1 || strings.HasSuffix(d.raw[at+i], "\n")) {
			return fmt.Errorf("%w: the patch states that the file has no newline at its end after line %d, but it has one",
				ErrNoFit, at+i+1)
		}
	}
	for i, l := range h.New {
		if l.Open && (i != len(h.New)-1 || end != len(d.raw)) {
			return fmt.Errorf("%w: the patch states that the file has no newline at its end, but lines follow", ErrNoFit)
		}
	}
	return nil
}

// noFit tells what the patch expects and what stands there.
func (d *document) noFit(h Hunk, at int) error {
	n := d.matching(h, at)
	want := clip(h.Old[min(n, len(h.Old)-1)].Text)
	var b strings.Builder
	if at+n >= len(d.bare) {
		fmt.Fprintf(&b, "the file ends after line %d, but the patch has\n  %s", len(d.bare), want)
	} else {
		there := d.bare[at+n]
		fmt.Fprintf(&b, "at line %d the patch has\n  %s\nand the file has\n  %s", at+n+1, want, clip(there))
		if strings.Join(strings.Fields(there), "") == strings.Join(strings.Fields(h.Old[n].Text), "") {
			b.WriteString("\n(they differ only in white space)")
		}
	}
	if last := min(at+min(len(h.Old), around), len(d.bare)); at < last {
		b.WriteString("\nThe file has:")
		for i := at; i < last; i++ {
			fmt.Fprintf(&b, "\n%6d\t%s", i+1, clip(d.bare[i]))
		}
	}
	return fmt.Errorf("%w: %s", ErrNoFit, b.String())
}

func clip(s string) string {
	if len(s) <= maxQuote {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuote], "") + "..."
}

// numbers lists places as line numbers.
func numbers(places []int) string {
	var b strings.Builder
	for i, p := range places {
		switch {
		case i == maxPlaces:
			fmt.Fprintf(&b, " and %d more", len(places)-i)
			return b.String()
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", p+1)
	}
	return b.String()
}
