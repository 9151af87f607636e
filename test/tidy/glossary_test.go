package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// glossary has the words that names and messages do not use, and the standard term for each.
var glossary = map[string]string{
	"fact": "event", "facts": "events", "hear": "receive", "heard": "received", "hears": "receives", "overhear": "apply republished",
	"ears": "fan-out", "shelf": "key-value store", "shelves": "key-value stores", "wardrobe": "cache", "furniture": "provisioned files",
	"door": "proxy, session or egress", "box": "sandbox", "boxes": "sandboxes", "census": "station stats", "loan": "alternates clone",
	"nobody": "no one or none", "rubbish": "malformed", "mend": "fix", "pen": "writer",
}

// phrases are what texts for people do not say, and what they say instead, by what each of them holds in lower case: a
// text without that is not searched.
var phrases = map[string]struct {
	found  *regexp.Regexp
	better string
}{
	"can not": {regexp.MustCompile(`(?i)\bcan not\b`), "cannot"},
	"nobody":  {regexp.MustCompile(`(?i)\bnobody\b`), "no one"},
	"rubbish": {regexp.MustCompile(`(?i)\brubbish\b`), "malformed input"},
	"mend":    {regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "fix"},
	"fact":    {regexp.MustCompile(`(?i)\b(a|the|this) facts?\b`), "event"},
}

var segment = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)

// misnamed are the names that a file declares and the texts that it has with words that are not in use.
func misnamed(file *File) []Fault {
	var faults []Fault
	fault := func(n ast.Node, text string) Fault { return Fault{"glossary", file.Path, text, file.Line(n)} }
	name := func(id *ast.Ident) {
		for _, part := range segment.FindAllString(id.Name, -1) {
			if better, ok := glossary[strings.ToLower(part)]; ok {
				faults = append(faults, fault(id, fmt.Sprintf("name %s: write %s in place of %q", id.Name, better, part)))
			}
		}
	}
	ast.Inspect(file.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name(n.Name)
		case *ast.TypeSpec:
			name(n.Name)
		case *ast.ValueSpec:
			for _, id := range n.Names {
				name(id)
			}
		case *ast.Field:
			for _, id := range n.Names {
				name(id)
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if n.Kind != token.STRING || err != nil || !strings.Contains(text, " ") {
				return true
			}
			lower := strings.ToLower(text)
			for sign, p := range phrases {
				if !strings.Contains(lower, sign) {
					continue
				}
				if found := p.found.FindString(text); found != "" {
					faults = append(faults, fault(n, fmt.Sprintf("text: write %q in place of %q", p.better, found)))
				}
			}
		}
		return true
	})
	return faults
}

func TestGlossary(t *testing.T) {
	t.Parallel()
	for _, f := range load(t) {
		if f.TestOnly() {
			continue
		}
		for _, fault := range misnamed(f) {
			t.Error(fault)
		}
	}
	src := "package p\n\ntype factBox struct{ nobody int }\n\nconst text = \"it can not be, mended by nobody\"\n"
	f, err := Parse("p.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if got := misnamed(f); len(got) != 6 {
		t.Errorf("got %d faults of 6: %v", len(got), got)
	}
}
