package runtree

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/cli/app"
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
	t.Run("SAFE-11 an address is shown without its password", func(t *testing.T) {
		t.Parallel()
		for in, want := range map[string]string{"nats://anna:secret@h:4222,h2": "nats://***@h:4222,h2", "anna:se@cret@h": "***@h", "nats://h": "nats://h"} {
			if got := app.HideSecrets(in); got != want {
				t.Errorf("shown(%q) = %q, want %q", in, got, want)
			}
		}
		for in, want := range map[string]string{"nats://h": "h:4222", "h:1": "h:1", "wss://h": "h:443", "tls://[::1]:5": "[::1]:5"} {
			if got, err := app.HostPort(in); err != nil || got != want {
				t.Errorf("hostPort(%q) = %q, %v", in, got, err)
			}
		}
		if _, err := app.HostPort("nats://"); app.Code(err) != app.ExitUsage {
			t.Errorf("error %v", err)
		}
	})
}
