package docgen_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/docgen"
	"github.com/inspan/inspan/pkg/events"
)

const root = "../.."

// generate makes all files as no machine in particular.
func generate(t *testing.T) map[string][]byte {
	t.Helper()
	blank(t)
	files, err := docgen.Files(root)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// blank empties the variables that defaults are read from, so these tests cannot run beside each other.
func blank(t *testing.T) {
	t.Helper()
	for _, name := range docgen.Env() {
		t.Setenv(name, "")
	}
}

func TestUpToDate(t *testing.T) {
	t.Run("EVT-13 ECO-1 the files below docs are what the program says now", func(t *testing.T) {
		blank(t)
		if err := docgen.Check(root, filepath.Join(root, "docs")); err != nil {
			t.Errorf("%v (make docs)", err)
		}
	})
	t.Run("EVT-13 the same program gives the same bytes", func(t *testing.T) {
		first, second := generate(t), generate(t)
		for name, b := range first {
			if string(b) != string(second[name]) {
				t.Errorf("%s differs from one time to the next", name)
			}
			if len(b) == 0 || b[len(b)-1] != '\n' {
				t.Errorf("%s does not end with a line break", name)
			}
		}
	})
}

// TestCheck works on a copy of what the generator reads.
func TestCheck(t *testing.T) {
	blank(t)
	top := t.TempDir()
	out := filepath.Join(t.TempDir(), "docs")
	for _, dir := range []string{"pkg/events", "internal/kernel", "test/histories"} {
		if err := os.CopyFS(filepath.Join(top, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	stale := func(why string) {
		t.Helper()
		if err := docgen.Check(top, out); !errors.Is(err, docgen.ErrStale) || !strings.Contains(err.Error(), "make docs") {
			t.Errorf("%s: got %v, want ErrStale that says make docs", why, err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fix := func() {
		t.Helper()
		if _, err := docgen.Write(top, out); err != nil {
			t.Fatal(err)
		}
		if err := docgen.Check(top, out); err != nil {
			t.Errorf("after Write: %v", err)
		}
	}
	stale("nothing is there")
	fix()
	write("events.md", "something else")
	stale("a page was changed")
	fix()
	write("schemas/call.forgotten.json", "{}")
	stale("a schema of a word that is gone")
	fix()
	if err := os.Remove(filepath.Join(out, "asyncapi.yaml")); err != nil {
		t.Fatal(err)
	}
	stale("a page is missing")
	if changed, err := docgen.Write(top, out); err != nil || len(changed) != 1 || changed[0] != "docs/asyncapi.yaml" {
		t.Errorf("got changed %q, %v; want only the one that was missing", changed, err)
	}
}

func TestPages(t *testing.T) {
	files := generate(t)
	contains := func(name string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(string(files[name]), text) {
				t.Errorf("%s does not say %q", name, text)
			}
		}
	}
	t.Run("EVT-13 each kind is described with author, event and example", func(t *testing.T) {
		for _, w := range every() {
			contains("docs/events.md", "\n## "+string(w.Kind)+"\n", w.Doc, w.Kind.Type(), `"event": "`+w.Event+`"`)
		}
		contains("docs/events.md", "is the hex SHA-256 of the exact arguments permitted.", "the run exists, with its agents and options pinned")
	})
	t.Run("each stream, consumer and right is described", func(t *testing.T) {
		contains("docs/subjects.md", "LOG_", "IN_", "TMR_", "DEAD_", "harness-state", "harness-files", "$JS.ACK.")
		for _, role := range events.Services() {
			contains("docs/subjects.md", "_INBOX_", string(role))
		}
	})
	t.Run("each variable is described", func(t *testing.T) {
		contains("docs/config.md", "INSPAN_NATS_URL", "nats://127.0.0.1:4222", "INSPAN_ANTHROPIC_API_KEY", "INSPAN_SANDBOX")
	})
}
