package checks

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/pkg/events"
)

// TestRestore changes copies as agents may, and has the files of a commit put back.
func TestRestore(t *testing.T) {
	t.Parallel()
	base := []gitwork.File{
		{Path: "Makefile", Mode: "100644", Content: []byte("all")},
		{Path: "check.sh", Mode: "100755", Content: []byte("check")},
		{Path: "lib/a_test.go", Mode: "100644", Content: []byte("test")},
		{Path: "tests/run.sh", Mode: "100644", Content: []byte("run")},
		{Path: "tests/deep/data", Mode: "100644", Content: []byte("data")},
		{Path: "tests/link", Mode: "120000", Content: []byte("run.sh")},
		{Path: "tests/out", Mode: "120000", Content: []byte("/etc/passwd")},
	}
	p := protected{patterns: []string{"tests", "Makefile", "**/*_test.go", "conf/*/x.yaml"}, scripts: []string{"check.sh"}}
	for name, c := range map[string]struct {
		change  func(at string) error
		changed string
	}{
		"nothing":                      {func(string) error { return nil }, ""},
		"a file that is not protected": {func(at string) error { return os.WriteFile(at+"/lib/a.go", nil, 0o644) }, ""},
		"a test":                       {func(at string) error { return os.WriteFile(at+"/lib/a_test.go", nil, 0o644) }, "lib/a_test.go"},
		"the mode of the script":       {func(at string) error { return os.Chmod(at+"/check.sh", 0o644) }, "check.sh"},
		"the Makefile is a directory": {func(at string) error {
			return replaced(at+"/Makefile", func() error { return os.Mkdir(at+"/Makefile", 0o755) })
		}, "Makefile"},
		"the tests are gone": {func(at string) error { return os.RemoveAll(at + "/tests") }, "tests/deep/data tests/link tests/run.sh"},
		"the tests are a file": {func(at string) error {
			return replaced(at+"/tests", func() error { return os.WriteFile(at+"/tests", nil, 0o644) })
		}, "tests/deep/data tests/link tests/run.sh"},
		"the tests are a link": {func(at string) error {
			return replaced(at+"/tests", func() error { return os.Symlink("lib", at+"/tests") })
		}, "tests/deep/data tests/link tests/run.sh"},
		"a directory of tests is a link": {func(at string) error {
			return replaced(at+"/tests/deep", func() error { return os.Symlink("../lib", at+"/tests/deep") })
		}, "tests/deep/data"},
		"a file among the tests":        {func(at string) error { return os.WriteFile(at+"/tests/conf.sh", nil, 0o644) }, "tests/conf.sh"},
		"a link among the tests":        {func(at string) error { return os.Symlink("../lib/a.go", at+"/tests/conf.sh") }, "tests/conf.sh"},
		"a new test":                    {func(at string) error { return os.WriteFile(at+"/b_test.go", nil, 0o644) }, "b_test.go"},
		"a file where a link leads out": {func(at string) error { return os.WriteFile(at+"/tests/out", nil, 0o644) }, "tests/out"},
		"a link to another end": {func(at string) error {
			return replaced(at+"/tests/link", func() error { return os.Symlink("deep", at+"/tests/link") })
		}, "tests/link"},
		"a link above a protected path":    {func(at string) error { return os.Symlink("lib", at+"/conf") }, "conf"},
		"a link further above it":          {func(at string) error { return os.MkdirAll(at+"/conf", 0o755) }, ""},
		"a link in a pattern with a star":  {func(at string) error { return linkIn(at+"/conf", "any") }, "conf/any"},
		"a link that is not about a test":  {func(at string) error { return os.Symlink("lib", at+"/vendor") }, ""},
		"a link with the name of a test":   {func(at string) error { return os.Symlink("lib/a.go", at+"/c_test.go") }, "c_test.go"},
		"a file that make reads before it": {func(at string) error { return os.WriteFile(at+"/GNUmakefile", nil, 0o644) }, "GNUmakefile"},
		"a link that make reads before it": {func(at string) error { return os.Symlink("lib/a.go", at+"/makefile") }, "makefile"},
		"a Makefile of another directory":  {func(at string) error { return os.WriteFile(at+"/lib/GNUmakefile", nil, 0o644) }, ""},
		"a directory with the name of one": {func(at string) error { return os.Mkdir(at+"/d_test.go", 0o755) }, ""},
	} {
		t.Run("PLUS-10 SEC restored: "+name, func(t *testing.T) {
			t.Parallel()
			at := t.TempDir()
			write(t, filepath.Join(at, "lib", "a.go"), "work", 0o644)
			for _, f := range base {
				if f.Mode == "120000" && f.Path != "tests/out" {
					if err := os.Symlink(string(f.Content), filepath.Join(at, f.Path)); err != nil {
						t.Fatal(err)
					}
				} else if f.Mode != "120000" {
					write(t, filepath.Join(at, f.Path), string(f.Content), map[string]os.FileMode{"100644": 0o644, "100755": 0o755}[f.Mode])
				}
			}
			if err := c.change(at); err != nil {
				t.Fatal(err)
			}
			dst, err := os.OpenRoot(at)
			if err != nil {
				t.Fatal(err)
			}
			defer dst.Close()
			r := &restorer{dst: dst, protected: p, base: map[string]bool{}}
			for _, f := range base {
				if err := r.put(f); err != nil {
					t.Fatal(err)
				}
			}
			if err := fs.WalkDir(dst.FS(), ".", r.remove); err != nil {
				t.Fatal(err)
			}
			slices.Sort(r.changed)
			if got := strings.Join(r.changed, " "); got != c.changed {
				t.Errorf("restored %q, want %q", got, c.changed)
			}
			for _, f := range base {
				if b, err := os.ReadFile(filepath.Join(at, f.Path)); f.Mode != "120000" && (err != nil || string(b) != string(f.Content)) {
					t.Errorf("%s is %q, %v", f.Path, b, err)
				}
				for dir := filepath.Dir(f.Path); dir != "."; dir = filepath.Dir(dir) {
					if info, err := os.Lstat(filepath.Join(at, dir)); err != nil || !info.IsDir() {
						t.Errorf("%s is no directory: %v", dir, err)
					}
				}
			}
		})
	}
	t.Run("PLUS-10 the scripts that a command runs by their path are those of the commit, unless the check says otherwise", func(t *testing.T) {
		t.Parallel()
		for run, want := range map[string]string{"./check.sh": "check.sh", "sh tools/check.sh -v && true": "tools/check.sh", "go test ./...": "",
			"grep -q yes done.txt": "", "python3 main.py": ""} {
			if got := strings.Join(scriptsOf(events.Check{Run: run}), " "); got != want {
				t.Errorf("%s: %q, want %q", run, got, want)
			}
			if got := scriptsOf(events.Check{Run: run, From: events.FromClaim}); len(got) > 0 {
				t.Errorf("%s from the claim: %q", run, got)
			}
		}
	})
}

func replaced(at string, by func() error) error {
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	return by()
}

func linkIn(dir, name string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Symlink("../lib", filepath.Join(dir, name))
}
