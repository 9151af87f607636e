package service

import (
	"strings"
	"testing"
	"time"
)

func TestGitSettings(t *testing.T) {
	t.Parallel()
	t.Run("GIT-12 settings that cannot be followed are refused by name", func(t *testing.T) {
		t.Parallel()
		for want, c := range map[string]GitWork{
			"INSPAN_GIT_PROTOCOLS": {GitProtocols: []string{"https", "ext"}}, "INSPAN_GIT_HOSTS": {GitHosts: []string{"a b"}}, "INSPAN_GIT_PRIVATE": {GitPrivate: []string{"10.0.0.1"}},
			"INSPAN_GIT_TIMEOUT": {GitTimeout: time.Millisecond}, "INSPAN_GIT_MAX_BYTES": {GitMaxBytes: -1}, "INSPAN_GIT_CA_FILE": {GitCAFile: "ca.pem"}, "INSPAN_GIT_PROXY": {GitProxy: "http://user:c4n4ry@proxy:1"}, "INSPAN_GIT_KEYS": {GitKeys: "/no/such/folder"},
		} {
			if err := c.check(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "c4n4ry") {
				t.Errorf("%s: got %v", want, err)
			}
		}
		c := GitWork{GitProtocols: []string{"https", "ssh", "http", "file"}, GitHosts: []string{"*", "*.a.example", "b.example"}, GitPrivate: []string{"10.0.0.0/8", "fd00::/8"}}
		if err := c.check(); err != nil {
			t.Error(err)
		}
	})
}
