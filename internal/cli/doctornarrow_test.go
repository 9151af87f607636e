package cli_test

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

func TestDoctorNarrow(t *testing.T) {
	t.Parallel()
	t.Run("CLI-7 at 40 columns no line of doctor is wider, but for a word that is", func(t *testing.T) {
		t.Parallel()
		d := &desk{t: t}
		tm := d.terminalIn(t.TempDir(), pty.Winsize{Rows: 60, Cols: 40}, []string{"INSPAN_SANDBOX=host", "NO_COLOR=1"}, "doctor", "--no-model")
		<-tm.done
		seen := ansi.Strip(tm.seen.String())
		if !strings.Contains(seen, "sandbox host") {
			t.Fatalf("%q", seen)
		}
		for line := range strings.Lines(seen) {
			if line = strings.TrimRight(line, "\r\n"); ansi.StringWidth(line) > 40 && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%d columns: %q", ansi.StringWidth(line), line)
			}
		}
	})
}

func TestHelpNarrow(t *testing.T) {
	t.Parallel()
	t.Run("CLI-7 at 60 columns no line of a help text is wider, but for an example", func(t *testing.T) {
		t.Parallel()
		d := &desk{t: t}
		for _, args := range [][]string{{"--help"}, {"up", "--help"}, {"user", "add", "--help"}} {
			tm := d.terminalIn(t.TempDir(), pty.Winsize{Rows: 60, Cols: 60}, []string{"NO_COLOR=1"}, args...)
			<-tm.done
			seen := ansi.Strip(tm.seen.String())
			if !strings.Contains(seen, "Flags:") {
				t.Fatalf("%q", seen)
			}
			for line := range strings.Lines(seen) {
				if line = strings.TrimRight(line, "\r\n"); ansi.StringWidth(line) > 60 && !strings.HasPrefix(line, "  inspan") {
					t.Errorf("%v: %d columns: %q", args, ansi.StringWidth(line), line)
				}
			}
		}
	})
}
