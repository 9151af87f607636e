package app

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func TestNarrow(t *testing.T) {
	t.Parallel()
	text := `Runs a station on this machine until it is interrupted. Everything is
kept in its store.

With --local there is no server.

Usage:
  inspan up [flags]

Examples:
  inspan up --listen 127.0.0.1:4333 --station lab --store /var/lib/inspan --json

Look:
  checkpoints List the checkpoints of a run, one for each step
  top         Show what the station does

Flags:
  -h, --help             help for up
      --listen string    host:port for NATS clients; port 0 is any free one
`
	t.Run("CLI-7 prose is filled, columns stay columns, and an example stays whole", func(t *testing.T) {
		t.Parallel()
		want := `Runs a station on this machine until it is
interrupted. Everything is kept in its store.

With --local there is no server.

Usage:
  inspan up [flags]

Examples:
  inspan up --listen 127.0.0.1:4333 --station lab --store /var/lib/inspan --json

Look:
  checkpoints List the checkpoints of a run,
              one for each step
  top         Show what the station does

Flags:
  -h, --help             help for up
      --listen string
        host:port for NATS clients; port 0 is
        any free one
`
		if got := narrow(text, 46); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("CLI-7 no word is lost at any width, and no line is wider that can be broken", func(t *testing.T) {
		t.Parallel()
		words := strings.Fields(text)
		for width := 10; width < 120; width++ {
			got := narrow(text, width)
			if now := strings.Fields(got); strings.Join(now, " ") != strings.Join(words, " ") {
				t.Fatalf("at %d the words are\n%s", width, got)
			}
			if width < 2*leastHelp {
				continue
			}
			for line := range strings.Lines(got) {
				if line = strings.TrimRight(line, "\n"); ansi.StringWidth(line) > width && !strings.HasPrefix(line, "  inspan ") {
					t.Errorf("at %d: %q", width, line)
				}
			}
		}
	})
}
