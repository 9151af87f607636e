package service

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/secret"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	const hidden = "canary-8c1f55"
	t.Run("SAFE-11 credentials of hosts are read, and masked with all else that is secret", func(t *testing.T) {
		t.Parallel()
		c := Calls{Credentials: secret.New("api.example=Authorization: Bearer " + hidden + ", http://plain.example:8080=X-Key: other-" + hidden)}
		held, err := c.HostCredentials()
		if err != nil || len(held) != 2 {
			t.Fatal(held, err)
		}
		got := fmt.Sprint(held[0].Host, held[0].Plain, held[0].Header, held[1].Host, held[1].Plain, held[1].Header)
		if want := fmt.Sprint("api.example", false, "Authorization", "plain.example:8080", true, "X-Key"); got != want || held[0].Value.Reveal() != "Bearer "+hidden {
			t.Errorf("got %s, want %s", got, want)
		}
		masked, err := Secrets(&Config{Calls: c})
		if err != nil {
			t.Fatal(err)
		}
		text := secret.Mask(masked...)("a " + hidden + " b other-" + hidden)
		if strings.Contains(text, "canary") {
			t.Errorf("got %s", text)
		}
	})
	t.Run("SAFE-11 an entry that is none is refused and not repeated", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{hidden, "api.example=" + hidden, "=Authorization: " + hidden, hidden + "/x=Authorization: " + hidden, "api.example=" + hidden + " x: " + hidden, "api.example=Host: " + hidden, "10.0.0.1=A: " + hidden, "api.example=A: short"} {
			c := Calls{Credentials: secret.New("ok.example=Authorization: " + hidden + "," + bad)}
			_, err := c.HostCredentials()
			if err == nil || !strings.Contains(err.Error(), "INSPAN_EGRESS_CREDENTIALS: entry 2") || strings.Contains(err.Error(), "canary") {
				t.Errorf("%q: got %v", bad, err)
			}
		}
	})
}
