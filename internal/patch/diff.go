package patch

import (
	"fmt"
	"strings"
)

const (
	// stay is how many lines that stay are shown around a change.
	stay = 3
	// maxTable bounds the search for lines that two texts share; beyond it what differs is shown as one block.
	maxTable = 1 << 20
)

// change is a line of a diff: its sign, and where it stands in the old and the new text.
type change struct {
	sign     byte
	old, new int
	text     string
}

// Unified shows how a new text differs from an old one, as a unified diff that Parse reads; empty where it does not.
func Unified(name, before, after string) string {
	if before == after {
		return ""
	}
	list := changes(lines(before), lines(after))
	var b strings.Builder
	fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", name, name)
	for from := 0; from < len(list); {
		for from < len(list) && list[from].sign == ' ' {
			from++
		}
		if from == len(list) {
			break
		}
		end, quiet := from, 0
		for end < len(list) && quiet <= 2*stay {
			if quiet++; list[end].sign != ' ' {
				quiet = 0
			}
			end++
		}
		hunk(&b, list[max(0, from-stay):end-max(0, quiet-stay)])
		from = end
	}
	return b.String()
}

func hunk(b *strings.Builder, list []change) {
	olds, news := 0, 0
	for _, c := range list {
		if c.sign != '+' {
			olds++
		}
		if c.sign != '-' {
			news++
		}
	}
	first := list[0]
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", first.old+sign(olds), olds, first.new+sign(news), news)
	for _, c := range list {
		b.WriteByte(c.sign)
		b.WriteString(c.text)
		if !strings.HasSuffix(c.text, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// sign is 1 where there are lines: a range without lines names the line before it.
func sign(n int) int { return min(n, 1) }

func lines(s string) []string {
	l := strings.SplitAfter(s, "\n")
	return l[:len(l)-1+sign(len(l[len(l)-1]))]
}

// changes lists all lines of two texts, those that they share once.
func changes(a, b []string) []change {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	out := make([]change, 0, len(a)+len(b))
	for i := range head {
		out = append(out, change{' ', i, i, a[i]})
	}
	out = middle(out, head, a[head:len(a)-tail], b[head:len(b)-tail])
	for i := tail; i > 0; i-- {
		out = append(out, change{' ', len(a) - i, len(b) - i, a[len(a)-i]})
	}
	return out
}

// middle finds the longest row of lines that both share, which stays.
func middle(out []change, head int, a, b []string) []change {
	w := len(b) + 1
	var table []int32
	if (len(a)+1)*w <= maxTable {
		table = make([]int32, (len(a)+1)*w)
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				if a[i] == b[j] {
					table[i*w+j] = table[(i+1)*w+j+1] + 1
				} else {
					table[i*w+j] = max(table[(i+1)*w+j], table[i*w+j+1])
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case table != nil && i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, change{' ', head + i, head + j, a[i]})
			i, j = i+1, j+1
		case i < len(a) && (table == nil || j == len(b) || table[(i+1)*w+j] >= table[i*w+j+1]):
			out = append(out, change{'-', head + i, head + j, a[i]})
			i++
		default:
			out = append(out, change{'+', head + i, head + j, b[j]})
			j++
		}
	}
	return out
}
