package harness_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// page is what a page of Markdown has: the files of its modules, and what they print.
type page struct {
	files  map[string]map[string]string
	prints map[string]string
}

// readPage reads a page. A module begins with <!-- module NAME -->, its files are ```go FILE, and ```text NAME is what it
// prints.
func readPage(text string) page {
	p := page{map[string]map[string]string{}, map[string]string{}}
	module := ""
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		if name, ok := strings.CutPrefix(strings.TrimSpace(lines[i]), "<!-- module "); ok {
			module = strings.TrimSuffix(name, " -->")
			p.files[module] = map[string]string{}
			continue
		}
		info, fenced := strings.CutPrefix(strings.TrimSpace(lines[i]), "```")
		if !fenced {
			continue
		}
		body := ""
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			body += lines[i]
		}
		switch kind, name, _ := strings.Cut(info, " "); kind {
		case "go":
			p.files[module][name] = body
		case "text":
			p.prints[name] = body
		}
	}
	return p
}

// TestPage compiles all code of docs/harness-sdk.md within this module, runs it, and compares what it prints.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/harness-sdk.md")
	if err != nil {
		t.Fatal(err)
	}
	p := readPage(string(text))
	if len(p.files) != 3 || len(p.prints) != 2 {
		t.Fatalf("the page has %d programs and %d outputs", len(p.files), len(p.prints))
	}
	for name, files := range p.files {
		t.Run("TEST-6 the program "+name+" of docs/harness-sdk.md compiles and prints what the page says", func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args := []string{"build", "-o", filepath.Join(dir, "program")}
			for file, body := range files {
				path := filepath.Join(dir, file)
				if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
					t.Fatal(err)
				}
				args = append(args, path)
			}
			// files that are named are compiled with the module of the working directory
			if out, err := exec.CommandContext(within(t), "go", args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want, runs := p.prints[name]
			if !runs {
				return
			}
			out, err := exec.CommandContext(within(t), filepath.Join(dir, "program")).CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("%v, got\n%s\nwant\n%s", err, out, want)
			}
		})
	}
	t.Run("TEST-6 the page is read block by block", func(t *testing.T) {
		got := readPage("<!-- module a -->\n```go x.go\npackage x\n```\n```text a\nhi\n```\n")
		if got.files["a"]["x.go"] != "package x\n" || got.prints["a"] != "hi\n" {
			t.Errorf("got %q", got)
		}
	})
}
