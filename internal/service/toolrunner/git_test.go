package toolrunner

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
)

func TestGitCredential(t *testing.T) {
	t.Parallel()
	keys := t.TempDir()
	const line = "b3BlbnNzaC1rZXktdjEAAAAAc4n4ryc4n4ryc4n4ryc4n4ry"
	for name, text := range map[string]string{"git.example": "-----BEGIN X-----\n" + line + "\n-----END X-----\n", "git.example_2222": "port " + line, "known_hosts": "git.example ssh-ed25519 AAAA\n", "..data": "no"} {
		if err := os.WriteFile(filepath.Join(keys, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Config{GitWork: service.GitWork{GitKeys: keys}, Calls: service.Calls{Credentials: secret.New("code.example=Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("bot:c4n4ry-pass")) +
		", token.example:8443=Authorization: Bearer c4n4ry-token, other.example=X-Key: c4n4ry-other, http://plain.example=Authorization: Bearer c4n4ry-plain")}}
	t.Run("GIT-12 SAFE-11 each remote is shown what is stored for that host, port and scheme", func(t *testing.T) {
		t.Parallel()
		keys, _, err := c.Keys()
		if err != nil {
			t.Fatal(err)
		}
		credential, err := c.gitCredential(keys)
		if err != nil {
			t.Fatal(err)
		}
		for at, want := range map[[2]string][2]string{
			{"https", "code.example"}: {"bot", "c4n4ry-pass"}, {"https", "CODE.example:443"}: {"bot", "c4n4ry-pass"}, {"https", "code.example:8443"}: {}, {"http", "code.example"}: {},
			{"https", "evil-code.example"}: {}, {"https", "code.example.evil"}: {}, {"https", "token.example:8443"}: {"", "c4n4ry-token"}, {"https", "token.example"}: {}, {"https", "other.example"}: {},
			{"http", "plain.example"}: {"", "c4n4ry-plain"}, {"https", "plain.example"}: {}, {"https", "10.0.0.1"}: {}, {"https", "0x7f.1"}: {},
		} {
			got, err := credential(t.Context(), at[0], at[1])
			if err != nil || got.User != want[0] || got.Password.Reveal() != want[1] || !got.Key.Empty() {
				t.Errorf("%v: got %s %s, %v, want %v", at, got.User, got.Password.Reveal(), err, want)
			}
		}
		for host, want := range map[string]string{"git.example": "-----BEGIN", "git.example:22": "-----BEGIN", "git.example:2222": "port", "code.example": "", "known_hosts": ""} {
			got, err := credential(t.Context(), "ssh", host)
			if host == "known_hosts" {
				continue // it is no name of a host, and no one is asked about it
			}
			if err != nil || !strings.HasPrefix(got.Key.Reveal(), want) || (want == "") != got.Key.Empty() || !strings.Contains(got.KnownHosts, "ssh-ed25519") {
				t.Errorf("%s: got %q, %v", host, got.Key.Reveal(), err)
			}
		}
	})
	t.Run("SAFE-11 keys and passwords are masked in what tools answer", func(t *testing.T) {
		t.Parallel()
		_, masked, err := c.Keys()
		if err != nil {
			t.Fatal(err)
		}
		more, err := service.Secrets(&c)
		if err != nil {
			t.Fatal(err)
		}
		if text := secret.Mask(append(masked, more...)...)("a " + line + " b c4n4ry-pass c c4n4ry-token"); strings.Contains(text, "c4n4ry") {
			t.Errorf("got %s", text)
		}
	})
}
