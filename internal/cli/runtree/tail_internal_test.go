package runtree

import (
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	t.Parallel()
	t.Run("CLI-9 the newest line of growing text is kept, and no more than a line's worth", func(t *testing.T) {
		t.Parallel()
		text := ""
		for _, chunk := range []string{"one\ntw", "o\nth", "ree\x1b[2J", "\n"} {
			text = Newest(text, chunk)
		}
		d := Drawing{Tail: map[string]string{"c1": text, "c2": strings.Repeat("x", 50) + "end"}}
		if got := d.news("c1", 40); got != "three·[2J" {
			t.Errorf("got %q", got)
		}
		if got := d.news("c2", 10); got != "…xxxxxxend" {
			t.Errorf("got %q", got)
		}
		if n := len(Newest("", strings.Repeat("ä", 10_000))); n > MaxTail {
			t.Errorf("%d bytes are kept", n)
		}
	})
}
