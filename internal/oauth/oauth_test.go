package oauth_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/oauth"
)

func TestGrant(t *testing.T) {
	t.Parallel()
	g := oauth.Grant{Server: "https://mcp.example/mcp", ClientID: "c", ClientSecret: "secret-of-it", TokenURL: "https://as.example/token",
		Access: "access-token", Refresh: "refresh-token", Expiry: time.Unix(1_800_000_000, 0).UTC()}
	t.Run("SAFE-11 a grant comes back from its file, which is the owner's alone, and prints as nothing", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tracker")
		if err := g.Write(file); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := oauth.Parse(string(text)); !ok || got != g {
			t.Errorf("%v %v", got, ok)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", g, g, &g, struct{ G oauth.Grant }{g})} {
			if strings.Contains(text, "token") || strings.Contains(text, "secret-of-it") {
				t.Errorf("it prints as %s", text)
			}
		}
	})
	t.Run("a secret of another kind is no grant", func(t *testing.T) {
		for _, text := range []string{"", "Bearer x", "{", `{"oauth2":null}`, `{"oauth2":{}}`, `{"token":"x"}`, `[1]`} {
			if got, ok := oauth.Parse(text); ok {
				t.Errorf("%q is %v", text, got)
			}
		}
	})
	t.Run("SAFE-11 a grant is for its origin alone", func(t *testing.T) {
		for address, want := range map[string]bool{"https://mcp.example/mcp": true, "https://MCP.example/other": true,
			"http://mcp.example/mcp": false, "https://mcp.example:8443/mcp": false, "https://mcp.example.evil/mcp": false,
			"https://evil/?https://mcp.example": false, "": false, "::": false} {
			if g.For(address) != want {
				t.Errorf("%q: %v", address, !want)
			}
		}
	})
}
