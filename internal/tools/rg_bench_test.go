package tools

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkSearch searches 100,000 files of which 100 hold the word, in turns with ripgrep and without it.
func BenchmarkSearch(b *testing.B) {
	dir := b.TempDir()
	text := strings.Repeat("func main() { return nil }\n", 20)
	for i := range 100_000 {
		at := filepath.Join(dir, fmt.Sprintf("d%03d", i/1000), fmt.Sprintf("e%d", i/100%10))
		if i%100 == 0 {
			if err := os.MkdirAll(at, 0o755); err != nil {
				b.Fatal(err)
			}
		}
		body := text
		if i%1000 == 0 {
			body += "the needle\n"
		}
		if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("f%d.go", i)), []byte(body), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	env, _ := searchEnv(b, dir)
	for _, c := range []struct {
		name string
		many int
	}{{"ripgrep", manyFiles}, {"alone", math.MaxInt}} {
		b.Run("grep/"+c.name, func(b *testing.B) {
			for b.Loop() {
				if r, err := grepMany(b.Context(), grepArgs{Pattern: "the need[l]e"}, env, c.many); err != nil || strings.Count(r.Output, "\n") != 100 {
					b.Fatalf("%d lines, %v", strings.Count(r.Output, "\n"), err)
				}
			}
		})
	}
	b.Run("glob", func(b *testing.B) {
		for b.Loop() {
			if r, err := globFiles(b.Context(), globArgs{Pattern: "**/f1234*.go"}, env); err != nil || strings.Count(r.Output, "\n") != 10 {
				b.Fatalf("%d lines, %v", strings.Count(r.Output, "\n"), err)
			}
		}
	})
}
