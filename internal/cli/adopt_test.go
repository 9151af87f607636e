package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestImportFolders(t *testing.T) {
	t.Parallel()
	must := func(t *testing.T, args ...string) string {
		t.Helper()
		s := inspan(t, args...)
		if s.code != 0 {
			t.Fatalf("%v: exit %d\n%s%s", args, s.code, s.out, s.err)
		}
		return s.out
	}
	const from = "../adopt/testdata/"
	t.Run("a dry run writes nothing and names all; the second time each file is the same", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		out := must(t, "import", "gastown", from+"gastown", "--to", dir, "--dry-run")
		if files, err := os.ReadDir(dir); err != nil || len(files) != 0 || !strings.Contains(out, "would be made below") {
			t.Errorf("%v, %v: %s", files, err, out)
		}
		out = must(t, "import", "gastown", from+"gastown", "--to", dir)
		for _, want := range []string{"7 files made below", "refused   role odd", "inspan mail register queue/work-web", "-> policy.yaml"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is missing in\n%s", want, out)
			}
		}
		if out = must(t, "import", "gastown", from+"gastown", "--to", dir); !strings.Contains(out, "0 files made below") {
			t.Error(out)
		}
	})
	t.Run("a file that is there is never written over, and --json says so", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		mine := filepath.Join(dir, "agents", "reviewer.prompt")
		if err := os.MkdirAll(filepath.Dir(mine), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Files map[string]string `json:"files"`
			Items []struct {
				Outcome string   `json:"outcome"`
				Notes   []string `json:"notes"`
			} `json:"items"`
		}
		if err := json.Unmarshal([]byte(must(t, "import", "station", from+"station", "--to", dir, "--json")), &got); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(mine); err != nil || string(text) != "mine" || got.Files["agents/reviewer.prompt"] != "kept" ||
			got.Files["config.yaml"] != "made" || len(got.Items) != 9 {
			t.Errorf("%q, %v, %+v", text, err, got)
		}
	})
	t.Run("a folder that is not there is an error of usage", func(t *testing.T) {
		t.Parallel()
		if s := inspan(t, "import", "station", filepath.Join(t.TempDir(), "none")); s.code != 2 || !strings.Contains(s.err, "none") {
			t.Errorf("%d: %s", s.code, s.err)
		}
	})
}
