package tools

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/tool"
)

// forest makes a tree of n files as programs have them: folders of 50, 40 lines a file, 1 of 500 files with a word.
func forest(b *testing.B, dir string, n int) {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("func return if err nil range string int the of value index error map make append len struct type package import context")
	for i := range n {
		at := filepath.Join(dir, fmt.Sprintf("m%02d", i/2500), fmt.Sprintf("p%02d", i/50%50))
		if i%50 == 0 {
			if err := os.MkdirAll(at, 0o755); err != nil {
				b.Fatal(err)
			}
		}
		var text strings.Builder
		for range 40 {
			for range 8 {
				text.WriteString(words[r.IntN(len(words))] + " ")
			}
			fmt.Fprintf(&text, "x%d\n", r.IntN(1000))
		}
		if i%500 == 0 {
			text.WriteString("call 555-1234 for the needle\n")
		}
		name := fmt.Sprintf("f%05d.%s", i, []string{"go", "md"}[i%2])
		if err := os.WriteFile(filepath.Join(at, name), []byte(text.String()), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPaired compares searches among 20,000 files with ripgrep itself, in turns: the metric is the median of how
// many times as long ours took.
func BenchmarkPaired(b *testing.B) {
	dir := b.TempDir()
	forest(b, dir, 20_000)
	env, _ := searchEnv(b, dir)
	grep := func(a grepArgs) func() (tool.Result, error) {
		return func() (tool.Result, error) { return grepFiles(b.Context(), a, env) }
	}
	for _, c := range []struct {
		name string
		ours func() (tool.Result, error)
		rg   []string
	}{
		{"glob-half", func() (tool.Result, error) { return globFiles(b.Context(), globArgs{Pattern: "**/*.go"}, env) }, []string{"--files", "--glob=**/*.go"}},
		{"glob-few", func() (tool.Result, error) { return globFiles(b.Context(), globArgs{Pattern: "**/f0123*.go"}, env) }, []string{"--files", "--glob=**/f0123*.go"}},
		{"grep-word", grep(grepArgs{Pattern: "needle"}), []string{"-n", "needle"}},
		{"grep-fold", grep(grepArgs{Pattern: "(?i)NEEDLE"}), []string{"-n", "(?i)NEEDLE"}},
		{"grep-no-text", grep(grepArgs{Pattern: `\d{3}-\d{4}`}), []string{"-n", `\d{3}-\d{4}`}},
		{"grep-in-half", grep(grepArgs{Pattern: `needle`, Glob: "*.md"}), []string{"-n", "--glob=*.md", "needle"}},
		{"grep-common", grep(grepArgs{Pattern: `return`, Limit: 200}), []string{"-n", "return"}},
		{"grep-folder", grep(grepArgs{Pattern: `needle`, Path: "m00/p00"}), []string{"-n", "needle", "m00/p00"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var ratios, took []float64
			for b.Loop() {
				begin := time.Now()
				if r, err := c.ours(); err != nil || r.Failed {
					b.Fatalf("%.200q, %v", r.Output, err)
				}
				ours := time.Since(begin)
				begin = time.Now()
				cmd := exec.CommandContext(b.Context(), "rg", append([]string{"--no-config", "--no-ignore", "--hidden"}, c.rg...)...)
				cmd.Dir = dir
				if out, err := cmd.Output(); err != nil && len(c.rg) == 0 {
					b.Fatalf("%v: %.200s", err, out)
				}
				theirs := time.Since(begin)
				ratios, took = append(ratios, float64(ours)/float64(theirs)), append(took, float64(ours.Microseconds())/1000)
			}
			slices.Sort(ratios)
			slices.Sort(took)
			b.ReportMetric(ratios[len(ratios)/2], "x-ripgrep")
			b.ReportMetric(took[len(took)/2], "ms")
		})
	}
}
