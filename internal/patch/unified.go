package patch

import (
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/pattern"
)

// hunkHead is the head of a hunk with its line numbers.
var hunkHead = pattern.New(`^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@`)

// noFile is the name of the side on which a file is not.
const noFile = "/dev/null"

// ranged returns the old line number of a head.
func ranged(l string) (int, bool) {
	m := hunkHead.FindStringSubmatch(l)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// unified reads the form of diff -u and git diff. What stands before the first file is passed over.
func (r *reader) unified() error {
	for r.more() {
		var err error
		switch l := r.line(); {
		case strings.HasPrefix(l, "diff --git "):
			err = r.git()
		case r.pair():
			err = r.plain(File{Op: Update})
		case strings.HasPrefix(l, "@@ "):
			return r.fail("a hunk without a file name: start with --- a/FILE and +++ b/FILE")
		case len(r.files) > 0 && l != "" && strings.IndexByte("+-", l[0]) >= 0 && l != "-- ":
			return r.fail("%.80q is not part of a hunk", l)
		default:
			r.at++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pair reports whether the two names of a file stand here.
func (r *reader) pair() bool {
	return strings.HasPrefix(r.line(), "--- ") && strings.HasPrefix(r.next(), "+++ ")
}

// git reads what git says of a file before its hunks.
func (r *reader) git() error {
	f := File{Op: Update}
	f.From, f.To = halves(strings.TrimPrefix(r.line(), "diff --git "))
	for r.at++; r.more() && !r.pair() && !strings.HasPrefix(r.line(), "diff --git "); r.at++ {
		l := r.line()
		var err error
		switch {
		case strings.HasPrefix(l, "new file mode "):
			f.Op, f.Mode = Create, strings.TrimPrefix(l, "new file mode ")
		case strings.HasPrefix(l, "new mode "):
			f.Mode = strings.TrimPrefix(l, "new mode ")
		case strings.HasPrefix(l, "deleted file mode "):
			f.Op = Delete
		case strings.HasPrefix(l, "rename from "):
			f.Op = Move
			f.From, err = unquoted(strings.TrimPrefix(l, "rename from "))
		case strings.HasPrefix(l, "rename to "):
			f.Op = Move
			f.To, err = unquoted(strings.TrimPrefix(l, "rename to "))
		case strings.HasPrefix(l, "copy from "):
			return r.fail("a copy is not supported: add the new file instead")
		case strings.HasPrefix(l, "GIT binary patch"), strings.HasPrefix(l, "Binary files "):
			return r.fail("a binary file cannot be patched")
		}
		if err != nil {
			return r.fail("%v", err)
		}
	}
	if r.more() && r.pair() {
		return r.plain(f)
	}
	if f.Op != Move && (f.From == "" || f.From != f.To) {
		return r.fail("no file name: --- a/FILE and +++ b/FILE are missing")
	}
	return r.put(f)
}

// halves takes "a/NAME b/NAME" apart.
func halves(names string) (from, to string) {
	if half := (len(names) - 1) / 2; len(names)%2 == 1 && half > 2 && names[half] == ' ' && strings.HasPrefix(names,
		"a/") && strings.HasPrefix(names[half+1:], "b/") && names[2:half] == names[half+3:] {
		return names[2:half], names[half+3:]
	}
	return "", ""
}

// plain reads the two names and the hunks of a file; f is what git said of it before.
func (r *reader) plain(f File) error {
	from, err := named(r.line()[4:])
	if err != nil {
		return r.fail("%v", err)
	}
	to, err := named(r.next()[4:])
	if err != nil {
		return r.fail("%v", err)
	}
	if (strings.HasPrefix(from, "a/") || from == noFile) && (strings.HasPrefix(to, "b/") || to == noFile) {
		from, to = strings.TrimPrefix(from, "a/"), strings.TrimPrefix(to, "b/")
	}
	switch {
	case from == noFile && to == noFile:
		return r.fail("both sides are /dev/null")
	case from == noFile:
		f.Op, from = Create, to
	case to == noFile:
		f.Op, to = Delete, from
	case from != to:
		f.Op = Move
	case f.Op == Move:
		return r.fail("the names of a moved file are the same")
	}
	f.From, f.To = from, to
	for r.at += 2; r.more() && strings.HasPrefix(r.line(), "@@"); {
		h, err := r.hunk()
		if err == nil {
			err = r.counted(h, &f)
		}
		if err != nil {
			return err
		}
	}
	if f.Op == Create {
		if len(f.Hunks) > 1 || len(f.Hunks) == 1 && len(f.Hunks[0].Old) > 0 {
			return r.fail("new file %q: want one hunk with + lines only", to)
		}
		if len(f.Hunks) == 1 {
			f.New, f.Hunks = text(f.Hunks[0].New), nil
		}
	}
	return r.put(f)
}

// hunk reads a head and its lines. The numbers of lines that the head gives are often miscounted by whoever writes
// patches by hand: they only decide where a line could as well begin the next file.
func (r *reader) hunk() (Hunk, error) {
	h := Hunk{Start: -1}
	old, added := 0, 0
	if m := hunkHead.FindStringSubmatch(r.line()); m != nil {
		h.Start, _ = ranged(r.line())
		old, added = count(m[2]), count(m[4])
	} else if strings.TrimSpace(strings.Trim(r.line(), "@. -+0123456789,")) != "" || strings.ContainsAny(r.line(),
		"0123456789") {
		return h, r.fail("%.80q: want @@ -LINE,COUNT +LINE,COUNT @@, or @@ alone", r.line())
	}
	for r.at++; r.more(); r.at++ {
		l := r.line()
		due := len(h.Old) < old || len(h.New) < added
		switch {
		case l == "" || l == "\r":
			if !due && r.blankTail() {
				return h, nil
			}
			h.add(' ', l)
		case l[0] == '\\':
			h.open()
		case strings.HasPrefix(l, "@@"), strings.HasPrefix(l, "diff "), strings.HasPrefix(l, "Index: "):
			return h, nil
		case r.pair() && (!due || len(h.Old) >= old):
			return h, nil
		case l == "-- " && !due:
			return h, nil // the signature of a mailed patch
		case l[0] == ' ' || l[0] == '+' || l[0] == '-':
			h.add(l[0], l[1:])
		default:
			return h, r.fail("%.80q: each line of a hunk begins with a space, + or -", l)
		}
	}
	return h, nil
}

// blankTail reports whether only blank lines lie between here and the next hunk, file or end.
func (r *reader) blankTail() bool {
	for _, l := range r.lines[r.at:] {
		if strings.TrimSpace(l) != "" {
			return strings.HasPrefix(l, "@@") || strings.HasPrefix(l, "diff ") || strings.HasPrefix(l, "--- ") ||
				strings.HasPrefix(l, "*** ")
		}
	}
	return true
}

func count(digits string) int {
	if digits == "" {
		return 1
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 1
	}
	return n
}

// open says of the last line that the file ends there without a line end.
func (h *Hunk) open() {
	if n := len(h.New); n > 0 && h.last != '-' {
		h.New[n-1].Open = true
	}
	if o := len(h.Old); o > 0 && h.last != '+' {
		h.Old[o-1].Open = true
	}
}

// named reads the name behind --- or +++.
func named(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		s, _, _ = strings.Cut(s, "\t")
	}
	return unquoted(strings.TrimRight(s, " \r"))
}

// unquoted undoes the quotes that git puts around a name.
func unquoted(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		return s, nil
	}
	return strconv.Unquote(s)
}
