package agentfile_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/dialects/*.prompt")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, c := range refusals {
		f.Add(file(c.lines))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, warnings, err := agentfile.Parse("demo", data)
		again, warnings2, err2 := agentfile.Parse("demo", data)
		if fmt.Sprint(a, warnings, err) != fmt.Sprint(again, warnings2, err2) {
			t.Fatal("equal bytes, different answers")
		}
		if err != nil {
			if n := len(all(err)); n == 0 || n > agentfile.MaxErrors {
				t.Fatalf("%d errors: %v", n, err)
			}
			if text := err.Error(); len(text) > agentfile.MaxErrors*8<<10 {
				t.Fatalf("the error has %d bytes", len(text))
			}
			return
		}
		if a.Name != "demo" || a.Digest == "" || !strings.Contains(a.Model, "/") || a.Autonomy < 0 || a.Autonomy > 5 || a.MaxSteps < 0 || a.TimeoutMS < 0 {
			t.Fatalf("%+v", a)
		}
		for _, r := range a.Guards {
			if !events.ValidID(r.ID) || r.Action == "" && !r.Remove {
				t.Fatalf("rule %+v", r)
			}
		}
		if _, err := json.Marshal(a); err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(a.Prompt) {
			t.Fatal("the body is not UTF-8")
		}
	})
}

func FuzzRender(f *testing.F) {
	f.Add("{{role \"system\"}}S{{role \"user\"}}{{userInput}}{{x}}", "task", "x")
	f.Add("{{!-- c --}}{{~{x}~}} \\{{ \\\\{{x}}", "{{", "}}")
	f.Fuzz(func(t *testing.T, body, task, x string) {
		a := events.Agent{Name: "demo", Prompt: body}
		in := agentfile.RenderInput{Task: task, Variables: map[string]string{"x": x}}
		r, err := agentfile.Render(a, in)
		again, err2 := agentfile.Render(a, in)
		if r != again || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatal("equal inputs, different answers")
		}
		if err != nil {
			if len(all(err)) != 1 || len(err.Error()) > 8<<10 {
				t.Fatalf("%v", err)
			}
			return
		}
		if len(r.System)+len(r.User) > agentfile.MaxRendered+len(task)+2 {
			t.Fatal("too large")
		}
	})
}

// TestParseIsBounded gives the parser what makes parsers slow. The limit is far above what is needed, so that only
// work that grows faster than the input trips it.
func TestParseIsBounded(t *testing.T) {
	t.Parallel()
	fill := func(unit string, n int) string { return strings.Repeat(unit, n/len(unit)) }
	const front, body = agentfile.MaxFrontmatter - 100, agentfile.MaxFile - 100
	var steps strings.Builder
	for i := 0; steps.Len() < front-400; i++ {
		steps.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, data := range map[string]string{
		"flow lists":         "---\nx-a: " + fill("[", front) + "\n---\n",
		"flow maps":          "---\nx-a: " + fill("{a: ", front) + "\n---\n",
		"hidden flow lists":  "---\nx-a:\n" + fill("[ # ]\n", front) + "\n---\n",
		"lists on one line":  "---\nx-a:\n " + fill("- ", front) + "\n---\n",
		"maps on one line":   "---\n" + fill("? ", front) + "\n---\n",
		"keys on one line":   "---\n" + fill("a: ", front) + "\n---\n",
		"indented maps":      "---\n" + steps.String() + "\n---\n",
		"long keys":          "---\n" + fill("k", front) + ": 1\n---\n",
		"quotes":             "---\n" + fill("\"", front) + "\n---\n",
		"many unknown keys":  "---\n" + fill("a?", front) + ": 1\n---\n",
		"many items":         "---\nx-a: [" + fill("1,", front) + "1]\n---\n",
		"comments":           "---\nmodel: a/b\n---\n" + fill("{{!-- --}}", body),
		"escapes":            "---\nmodel: a/b\n---\n" + fill("\\{{", body),
		"triples":            "---\nmodel: a/b\n---\n" + fill("{{{x}}}", body),
		"trims":              "---\nmodel: a/b\n---\n" + fill("{{~x~}} ", body),
		"roles and trims":    "---\nmodel: a/b\n---\n" + fill(`{{role "user"}}{{~history~}}`, body),
		"space before trims": "---\nmodel: a/b\n---\n" + fill(" {{!x}}", body) + "{{~x}}",
		"dashes":             fill("---\n", body),
		"lines":              "---\n" + fill("\n", body),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			a, _, _ := agentfile.Parse("demo", []byte(data))
			if a.Name != "" {
				_, _ = agentfile.Render(a, agentfile.RenderInput{Task: "t", Variables: map[string]string{"x": ""}})
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("took %v", took)
			} else {
				t.Logf("took %v", took)
			}
		})
	}
}
