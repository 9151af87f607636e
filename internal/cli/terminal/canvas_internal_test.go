package terminal

import (
	"bytes"
	"strings"
	"testing"
)

func TestCanvas(t *testing.T) {
	t.Parallel()
	t.Run("CLI-9 a block is drawn over the one before, and the last one stays", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		c := Canvas{Screen: Screen{Out: &out, TTY: true}}
		c.Draw([]string{"a", "b"})
		out.Reset()
		c.Draw([]string{"c"})
		if got := out.String(); got != beginUpdate+"\x1b[2A\rc"+clearLine+"\n"+ClearBelow+endUpdate {
			t.Errorf("drawn as %q", got)
		}
		c.Keep([]string{"d"})
		out.Reset()
		c.Draw([]string{"e"})
		if strings.Contains(out.String(), "A\r") {
			t.Errorf("what was kept is drawn over: %q", out.String())
		}
	})
}
