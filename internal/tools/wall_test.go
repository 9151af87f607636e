package tools_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// outsideText is in a file beside the workspace and must never be shown.
const outsideText = "the secret outside"

// TestGitStaysInTheWorkspace proves that neither a repository above the workspace nor a work tree elsewhere is shown.
func TestGitStaysInTheWorkspace(t *testing.T) {
	t.Parallel()
	t.Run("WS-12 GUARD-12 a repository above the workspace is not found", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		above := filepath.Dir(b.dir)
		if out, err := exec.CommandContext(t.Context(), "git", "-C", above, "init", "-q").CombinedOutput(); err != nil {
			t.Fatalf("git init: %v: %s", err, out)
		}
		if err := os.WriteFile(filepath.Join(above, "beside"), []byte(outsideText), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"git_status", "git_diff", "git_log"} {
			r := b.run(name, args{})
			if !r.Failed || strings.Contains(r.Output, "beside") {
				t.Errorf("%s: got failed %v %q, want a failed result", name, r.Failed, r.Output)
			}
		}
	})
	t.Run("WS-12 GUARD-12 a work tree outside is not shown", func(t *testing.T) {
		t.Parallel()
		b := repository(t)
		outside := filepath.Join(filepath.Dir(b.dir), "outside")
		if err := os.Mkdir(outside, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(outside, "a.txt"), []byte(outsideText+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(outside, "beside"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		b.git("config", "core.worktree", outside)
		for name, a := range map[string]args{"git_status": {}, "git_diff": {"rev": "HEAD"}} {
			if r := b.run(name, a); strings.Contains(r.Output, outsideText) || strings.Contains(r.Output, "beside") {
				t.Errorf("%s shows the outside: %q", name, r.Output)
			}
		}
	})
	t.Run("WS-12 GUARD-12 files outside of any repository are not compared", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		secret := filepath.Join(filepath.Dir(b.dir), "secret")
		if err := os.WriteFile(secret, []byte(outsideText), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := b.run("git_diff", args{"rev": "/dev/null", "path": secret}); strings.Contains(r.Output, outsideText) {
			t.Errorf("git_diff shows the outside: %q", r.Output)
		}
	})
}

// TestHostilePatternsEnd proves that a pattern cannot keep a search busy past its time.
func TestHostilePatternsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(strings.Repeat("a/", 60)+strings.Repeat("a", 200), strings.Repeat("a", 5000)+"\n")
	for name, pattern := range map[string]string{
		"alternatives": strings.Repeat("{a,aa,aaa,a*}", 40) + "b",
		"stars":        strings.Repeat("*a", 200) + "b",
		"double stars": strings.Repeat("**/a/", 100) + "b",
		"mixed":        strings.Repeat("**/{a,*}/", 50) + "b",
		"nested":       strings.Repeat("{a,", 150) + "b" + strings.Repeat("}", 150),
		"braces":       "**/" + strings.Repeat("{a,*a}", 60) + "b",
	} {
		for _, tl := range []string{"glob", "grep"} {
			t.Run("SAFE-12 "+tl+" with many "+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				a := args{"pattern": pattern}
				if tl == "grep" {
					a = args{"pattern": "a", "glob": pattern}
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					// Found nothing or refused: either is an answer.
					if r, err := b.try(ctx, tl, a); err == nil && strings.Contains(r.Output, ":a") {
						t.Errorf("got %q, want no match", r.Output)
					}
				}()
				select {
				case <-ended:
				case <-ctx.Done():
					t.Fatal("the search does not end")
				}
			})
		}
	}
}
