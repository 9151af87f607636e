package tools_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/tool"
)

func TestSecretScan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// Pieces are joined here, so that no scanner of this repository takes them for real.
	key, token := "AKIA"+"Q3EGRZ7XW2LM5NBV", "ghp_"+strings.Repeat("a1B2c3", 6)
	b.put("app/config.env", "# settings\nDB_PASSWORD=hunter2_Tr0ub4dor\nAWS="+key+"\nDEBUG=true\n")
	b.put("app/main.go", "package main\n// token "+token+"\nvar password = os.Getenv(\"PASSWORD\")\n")
	b.put("id_key", "-----BEGIN OPENSSH "+"PRIVATE KEY-----\nabc\n")
	b.put("docs.md", "password: changeme\napi_key: YOUR_API_KEY_HERE1\nsecret: the same as before\npostgres://anna:${PASSWORD}@db\n")
	b.put("db.yaml", "url: postgres://anna:s3cr3tP4ss@db/x\n")
	b.put("raw.bin", "\x00\x01"+key)
	t.Run("TOOL-20 TOOL-4 secrets are found by file and line, and never shown whole", func(t *testing.T) {
		r, err := b.try(t.Context(), "secret_scan", args{})
		if err != nil || r.Failed {
			t.Fatal(err, r)
		}
		for _, want := range []string{"app/config.env:2: assigned-secret: hunt*** (17 characters)", "app/config.env:3: aws-access-key: AKIA***", "app/main.go:2: github-token: ghp_***", "id_key:1: private-key", "db.yaml:1: password-in-address", "5 findings in 5 files scanned, 1 files skipped"} {
			if !strings.Contains(r.Output, want) {
				t.Errorf("%q is not in\n%s", want, r.Output)
			}
		}
		for _, secret := range []string{key, token, "Tr0ub4dor", "s3cr3tP4ss"} {
			if strings.Contains(r.Output, secret) {
				t.Errorf("%s is shown", secret)
			}
		}
	})
	t.Run("TOOL-20 path, glob and limit narrow it", func(t *testing.T) {
		r, err := b.try(t.Context(), "secret_scan", args{"path": "app", "glob": "*.env", "limit": 1})
		if err != nil || !strings.Contains(r.Output, "truncated") || strings.Contains(r.Output, "main.go") || strings.Contains(r.Output, "id_key") {
			t.Errorf("%v\n%s", err, r.Output)
		}
		if _, err := b.try(t.Context(), "secret_scan", args{"path": "../x"}); tool.ClassOf(err) != tool.Denied {
			t.Errorf("%v", err)
		}
	})
}
