// Package patch reads patches and fits them to texts.
//
// Promises: it reads the unified form (also git's) and the form between "*** Begin Patch" and "*** End Patch", and
// names every file that a patch touches. A hunk fits where all its old lines stand, never nearly (fuzz 0). Line ends of
// a text are kept. It opens no file: whoever judges a patch and whoever carries it out read it with the same eyes.
package patch

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Limits of a patch.
const (
	MaxFiles = 200
	MaxHunks = 2000
	maxPath  = 4096
)

// ErrNotPatch means that a text is neither form of a patch, or a broken one.
var ErrNotPatch = errors.New("not a patch")

// Op is what happens to a file.
type Op string

// What may happen to a file. A file that is moved may be changed too.
const (
	Create Op = "create"
	Update Op = "update"
	Delete Op = "delete"
	Move   Op = "move"
)

// File is one file of a patch. From is where it stands before, To after; they differ only for Move.
type File struct {
	Op       Op
	From, To string
	// Hunks of Update and Move, in the order of the file.
	Hunks []Hunk
	// New is the content of a file to create.
	New string
	// Mode is the mode that git's form gives a file, for example 100755; empty where it says nothing.
	Mode string
}

// Paths are the paths that the file has before and after.
func (f File) Paths() []string {
	switch f.Op {
	case Create:
		return []string{f.To}
	case Move:
		return []string{f.From, f.To}
	default:
		return []string{f.From}
	}
}

// Line is one line of a hunk without its end.
type Line struct {
	Text string
	// Open is true where the patch says that the file ends here without a line end.
	Open bool
}

// Hunk replaces old lines by new ones. Lines that stay are in both.
type Hunk struct {
	// Start is the number of the first old line, from 1; for a hunk without old lines it is the line to insert behind.
	// It is -1 where the patch gives none.
	Start int
	// Anchors are lines to look for first, one behind the other.
	Anchors  []string
	Old, New []Line
	// pairs pairs a new line with the old line it is, by index, -1 for an added one.
	pairs []int
	// last is the sign of the line that was read last.
	last byte
	// AtEnd is true where the patch says that the old lines end the file.
	AtEnd bool
}

// Counts are the numbers of lines added and removed.
func (h Hunk) Counts() (added, removed int) {
	stay := 0
	for _, k := range h.pairs {
		if k >= 0 {
			stay++
		}
	}
	return len(h.New) - stay, len(h.Old) - stay
}

func (h *Hunk) add(sign byte, text string) {
	h.last = sign
	switch sign {
	case '-':
		h.Old = append(h.Old, Line{Text: text})
	case '+':
		h.New, h.pairs = append(h.New, Line{Text: text}), append(h.pairs, -1)
	default:
		h.Old = append(h.Old, Line{Text: text})
		h.New, h.pairs = append(h.New, Line{Text: text}), append(h.pairs, len(h.Old)-1)
	}
}

// reversed undoes a hunk.
func (h Hunk) reversed() Hunk {
	r := Hunk{Start: h.Start, Anchors: h.Anchors, Old: h.New, New: h.Old, AtEnd: h.AtEnd, pairs: make([]int, len(h.Old))}
	for i := range r.pairs {
		r.pairs[i] = -1
	}
	for n, o := range h.pairs {
		if o >= 0 {
			r.pairs[o] = n
		}
	}
	return r
}

// Parse reads a patch. Its errors wrap ErrNotPatch and name the line of the patch.
func Parse(text string) ([]File, error) {
	text = strings.TrimLeft(text, "\r\n")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if everyLineCR(lines) {
		for i := range lines {
			lines[i] = strings.TrimSuffix(lines[i], "\r")
		}
	}
	r := reader{lines: lines}
	var err error
	if strings.TrimSpace(lines[0]) == beginMark {
		err = r.marked()
	} else {
		err = r.unified()
	}
	if err == nil {
		err = r.sound()
	}
	if err != nil {
		return nil, err
	}
	return r.files, nil
}

// Paths are all paths that a patch names, in the order of it; none where it is no patch.
func Paths(text string) []string {
	files, err := Parse(text)
	if err != nil {
		return nil
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Paths()...)
	}
	return paths
}

func everyLineCR(lines []string) bool {
	for _, l := range lines[:len(lines)-1] {
		if !strings.HasSuffix(l, "\r") {
			return false
		}
	}
	return len(lines) > 1
}

// reader stands at one line of a patch.
type reader struct {
	lines []string
	at    int
	files []File
	hunks int
}

func (r *reader) more() bool   { return r.at < len(r.lines) }
func (r *reader) line() string { return r.lines[r.at] }

// next is the line behind the one the reader stands at; empty at the end.
func (r *reader) next() string {
	if r.at+1 < len(r.lines) {
		return r.lines[r.at+1]
	}
	return ""
}

func (r *reader) fail(format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrNotPatch, min(r.at, len(r.lines)-1)+1, fmt.Sprintf(format, args...))
}

func (r *reader) put(f File) error {
	if len(r.files) == MaxFiles {
		return r.fail("more than %d files", MaxFiles)
	}
	r.files = append(r.files, f)
	return nil
}

func (r *reader) counted(h Hunk, f *File) error {
	if r.hunks++; r.hunks > MaxHunks {
		return r.fail("more than %d hunks", MaxHunks)
	}
	f.Hunks = append(f.Hunks, h)
	return nil
}

// sound looks at the whole: something is asked for, and no path twice.
func (r *reader) sound() error {
	if len(r.files) == 0 {
		return fmt.Errorf("%w: it names no file: begin with --- a/FILE and +++ b/FILE, or with %s", ErrNotPatch, beginMark)
	}
	seen := map[string]bool{}
	for i := range r.files {
		f := &r.files[i]
		for _, p := range f.Paths() {
			if p == "" || len(p) > maxPath || strings.ContainsRune(p, 0) {
				return fmt.Errorf("%w: %.100q is not a path", ErrNotPatch, p)
			}
			if clean := path.Clean(p); seen[clean] {
				return fmt.Errorf("%w: it names %q twice: put all hunks of a file together", ErrNotPatch, p)
			}
			seen[path.Clean(p)] = true
		}
		if f.Op == Update && len(f.Hunks) == 0 {
			return fmt.Errorf("%w: nothing is changed in %q (modes are changed with chmod, binary files not at all)",
				ErrNotPatch, f.From)
		}
		for n, h := range f.Hunks {
			if added, removed := h.Counts(); added == 0 && removed == 0 {
				return fmt.Errorf("%w: hunk %d of %q has no line with + or -", ErrNotPatch, n+1, f.From)
			}
		}
	}
	return nil
}

// text joins new lines to the content of a file.
func text(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Text)
		if !l.Open {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
