package tools_test

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestHostileExpressionsEnd proves that a regular expression cannot keep grep busy past its time.
func TestHostileExpressionsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("one-line.txt", strings.Repeat("ab", 3<<20)+"\n")
	b.put("lines.txt", strings.Repeat(strings.Repeat("ab", 500)+"\n", 6<<10))
	for name, pattern := range map[string]string{
		"optional":   "(a?){900}(b?){90}c",
		"overlapped": "(.{0,30}a){30}c",
		"counted":    "[ab]{900}c$",
	} {
		for _, file := range []string{"one-line.txt", "lines.txt"} {
			t.Run("SAFE-12 TOOL-22 grep for "+name+" in "+file+" heeds the end of its context", func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = b.try(ctx, "grep", args{"pattern": pattern, "path": file})
				}()
				select {
				case <-ended:
				case <-time.After(5 * time.Minute):
					t.Fatal("the search does not end")
				}
			})
		}
	}
}
