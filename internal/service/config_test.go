package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFromEnv(t *testing.T) {
	t.Run("ECO-10 standard names are honoured, ours win, and no other name is read", func(t *testing.T) {
		for _, r := range Reference() {
			t.Setenv(r.Name, "")
			if err := os.Unsetenv(r.Name); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("NATS_URL", "nats://127.0.0.1:9999")
		t.Setenv("NATS_CREDS", "standard.creds")
		t.Setenv("INSPAN_NATS_CREDS", "ours.creds")
		t.Setenv("ANTHROPIC_API_KEY", "sk-canary")
		t.Setenv("GEMINI_API_KEY", "g-canary")
		t.Setenv("STATION", "stranger")
		t.Setenv("HTTP", "0.0.0.0:1")
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("OPENAI_API_KEY_FILE", file)
		c, err := FromEnv()
		if err != nil {
			t.Fatal(err)
		}
		if c.NATSURL != "nats://127.0.0.1:9999" || c.NATSCreds != "ours.creds" || c.Station != "default" || c.HTTP != "127.0.0.1:0" {
			t.Errorf("%+v", c)
		}
		if c.AnthropicKey.Reveal() != "sk-canary" || c.OpenAIKey.Reveal() != "from a file" || c.GeminiKey.Reveal() != "g-canary" {
			t.Error("keys were not read")
		}
		if printed := fmt.Sprintf("%+v %#v %s", c, c, c.AnthropicKey); strings.Contains(printed, "canary") || strings.Contains(printed, "from a file") {
			t.Errorf("SAFE-11: a key was printed: %s", printed)
		}
	})
	t.Run("SAFE-1 a wrong value is named with its variable", func(t *testing.T) {
		t.Setenv("INSPAN_REPLICAS", "2")
		t.Setenv("INSPAN_STATION", "a.b")
		t.Setenv("INSPAN_SNAPSHOT_FORM", "xml")
		t.Setenv("INSPAN_OPENAI_API", "both")
		t.Setenv("INSPAN_STATE_BUCKET", "a.b")
		t.Setenv("INSPAN_FILES_BUCKET", "harness-artifacts")
		_, err := FromEnv()
		for _, name := range []string{"INSPAN_REPLICAS", "INSPAN_STATION", "INSPAN_SNAPSHOT_FORM", "INSPAN_OPENAI_API", "INSPAN_STATE_BUCKET", "INSPAN_FILES_BUCKET"} {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s is not named: %v", name, err)
			}
		}
	})
}
