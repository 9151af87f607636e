package service

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/secret"
)

func TestGitSettings(t *testing.T) {
	t.Parallel()
	t.Run("GIT-12 settings that can not be followed are refused by name", func(t *testing.T) {
		t.Parallel()
		for want, c := range map[string]Config{
			"INSPAN_GIT_PROTOCOLS": {GitProtocols: []string{"https", "ext"}}, "INSPAN_GIT_HOSTS": {GitHosts: []string{"a b"}}, "INSPAN_GIT_PRIVATE": {GitPrivate: []string{"10.0.0.1"}},
			"INSPAN_GIT_TIMEOUT": {GitTimeout: time.Millisecond}, "INSPAN_GIT_MAX_BYTES": {GitMaxBytes: -1}, "INSPAN_GIT_CA_FILE": {GitCAFile: "ca.pem"}, "INSPAN_GIT_PROXY": {GitProxy: "http://user:c4n4ry@proxy:1"}, "INSPAN_GIT_KEYS": {GitKeys: "/no/such/folder"},
		} {
			if err := c.checkGit(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "c4n4ry") {
				t.Errorf("%s: got %v", want, err)
			}
		}
		c := Config{GitProtocols: []string{"https", "ssh", "http", "file"}, GitHosts: []string{"*", "*.a.example", "b.example"}, GitPrivate: []string{"10.0.0.0/8", "fd00::/8"}}
		if err := c.checkGit(); err != nil {
			t.Error(err)
		}
	})
	keys := t.TempDir()
	const line = "b3BlbnNzaC1rZXktdjEAAAAAc4n4ryc4n4ryc4n4ryc4n4ry"
	for name, text := range map[string]string{"git.example": "-----BEGIN X-----\n" + line + "\n-----END X-----\n", "git.example_2222": "port " + line, "known_hosts": "git.example ssh-ed25519 AAAA\n", "..data": "no"} {
		if err := os.WriteFile(filepath.Join(keys, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Config{GitKeys: keys, Credentials: secret.New("code.example=Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("bot:c4n4ry-pass")) +
		", token.example:8443=Authorization: Bearer c4n4ry-token, other.example=X-Key: c4n4ry-other, http://plain.example=Authorization: Bearer c4n4ry-plain")}
	t.Run("GIT-12 SAFE-11 each remote is shown what is stored for that host, port and scheme", func(t *testing.T) {
		t.Parallel()
		keys, _, err := c.gitKeys()
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
				continue // it is no name of a host, and nobody is asked about it
			}
			if err != nil || !strings.HasPrefix(got.Key.Reveal(), want) || (want == "") != got.Key.Empty() || !strings.Contains(got.KnownHosts, "ssh-ed25519") {
				t.Errorf("%s: got %q, %v", host, got.Key.Reveal(), err)
			}
		}
	})
	t.Run("SAFE-11 keys and passwords are masked in what tools answer", func(t *testing.T) {
		t.Parallel()
		_, masked, err := c.gitKeys()
		if err != nil {
			t.Fatal(err)
		}
		_, more, err := c.secrets()
		if err != nil {
			t.Fatal(err)
		}
		if text := secret.Mask(append(masked, more...)...)("a " + line + " b c4n4ry-pass c c4n4ry-token"); strings.Contains(text, "c4n4ry") {
			t.Errorf("got %s", text)
		}
	})
}
