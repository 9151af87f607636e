package cli_test

import (
	"strings"
	"testing"
)

// These tests set variables of the process and so run one after the other.

func TestVariables(t *testing.T) {
	d := newDesk(t).up()
	t.Run("ECO-10 NATS_URL names the station", func(t *testing.T) {
		t.Setenv("NATS_URL", d.station.URL())
		if s := inspan(t, "agents"); s.code != 0 || !strings.Contains(s.out, "reader") {
			t.Errorf("exit %d %s%s", s.code, s.out, s.err)
		}
		t.Setenv("INSPAN_NATS_URL", "nats://127.0.0.1:1")
		if s := inspan(t, "agents"); s.code == 0 || !strings.Contains(s.err, "127.0.0.1:1:") {
			t.Errorf("INSPAN_NATS_URL does not come first: exit %d %s", s.code, s.err)
		}
		if s := inspan(t, "agents", "--server", d.station.URL()); s.code != 0 {
			t.Errorf("the flag does not come first: %s", s.err)
		}
	})
}
