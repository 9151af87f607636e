package runtree

import (
	"strings"

	"github.com/inspan/inspan/internal/core/view"
)

// MaxTail is how many bytes of what is not kept are remembered for one line.
const MaxTail = 2 << 10

// Newest is the last line of a text that grows.
func Newest(before, more string) string {
	text := before + view.Whole(more)
	if line := strings.TrimRight(text, "\n"); strings.Contains(line, "\n") {
		text = line[strings.LastIndexByte(line, '\n')+1:]
	}
	if len(text) > MaxTail {
		text = strings.ToValidUTF8(text[len(text)-MaxTail:], "")
	}
	return text
}
