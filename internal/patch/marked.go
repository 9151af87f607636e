package patch

import "strings"

// Words of the marked form.
const (
	beginMark  = "*** Begin Patch"
	endMark    = "*** End Patch"
	addMark    = "*** Add File: "
	updateMark = "*** Update File: "
	deleteMark = "*** Delete File: "
	moveMark   = "*** Move to: "
	eofMark    = "*** End of File"
)

// marked reads the form between beginMark and endMark.
func (r *reader) marked() error {
	for r.at++; r.more(); {
		l := r.line()
		name := func(mark string) string { return strings.TrimSpace(strings.TrimPrefix(l, mark)) }
		var err error
		switch {
		case strings.TrimSpace(l) == endMark:
			for r.at++; r.more(); r.at++ {
				if strings.TrimSpace(r.line()) != "" {
					return r.fail("unexpected text after %s", endMark)
				}
			}
			return nil
		case strings.HasPrefix(l, addMark):
			err = r.markedAdd(name(addMark))
		case strings.HasPrefix(l, deleteMark):
			r.at++
			err = r.put(File{Op: Delete, From: name(deleteMark), To: name(deleteMark)})
		case strings.HasPrefix(l, updateMark):
			err = r.markedUpdate(name(updateMark))
		case strings.TrimSpace(l) == "":
			r.at++
		default:
			err = r.fail("%.80q: want %q, %q, %q or %q", l, strings.TrimSpace(addMark), strings.TrimSpace(updateMark),
				strings.TrimSpace(deleteMark), endMark)
		}
		if err != nil {
			return err
		}
	}
	return r.fail("%s is missing", endMark)
}

func (r *reader) markedAdd(name string) error {
	var lines []Line
	for r.at++; r.more() && !strings.HasPrefix(r.line(), "*** "); r.at++ {
		l := r.line()
		if !strings.HasPrefix(l, "+") {
			return r.fail("%.80q: each line of a new file begins with +", l)
		}
		lines = append(lines, Line{Text: l[1:]})
	}
	return r.put(File{Op: Create, From: name, To: name, New: text(lines)})
}

func (r *reader) markedUpdate(name string) error {
	f := File{Op: Update, From: name, To: name}
	if r.at++; r.more() && strings.HasPrefix(r.line(), moveMark) {
		if to := strings.TrimSpace(strings.TrimPrefix(r.line(), moveMark)); to != name {
			f.Op, f.To = Move, to
		}
		r.at++
	}
	for r.more() && (!strings.HasPrefix(r.line(), "*** ") || strings.TrimSpace(r.line()) == eofMark) {
		h, err := r.markedHunk()
		if err == nil {
			err = r.counted(h, &f)
		}
		if err != nil {
			return err
		}
	}
	return r.put(f)
}

// markedHunk reads lines that begin with @@, which may name a line to look for, and the lines of one hunk.
func (r *reader) markedHunk() (Hunk, error) {
	h := Hunk{Start: -1}
	for ; r.more() && strings.HasPrefix(r.line(), "@@"); r.at++ {
		if start, ok := ranged(r.line()); ok {
			h.Start = start
		} else if anchor := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(r.line(), "@@"), "@@")); anchor != "" {
			h.Anchors = append(h.Anchors, anchor)
		}
	}
	for ; r.more(); r.at++ {
		l := r.line()
		switch {
		case strings.TrimSpace(l) == eofMark:
			h.AtEnd = true
			r.at++
			return h, nil
		case strings.HasPrefix(l, "*** "), strings.HasPrefix(l, "@@"):
			return h, nil
		case l == "" || l == "\r":
			if !r.blankTail() {
				h.add(' ', l)
			}
		case l[0] == ' ' || l[0] == '+' || l[0] == '-':
			h.add(l[0], l[1:])
		case l[0] == '\\':
			h.open()
		default:
			return h, r.fail("%.80q: each line of a hunk begins with a space, + or -", l)
		}
	}
	return h, nil
}
