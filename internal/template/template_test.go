package template_test

import (
	"strings"
	"testing"
	texttemplate "text/template"

	"github.com/inspan/inspan/internal/template"
)

type data struct {
	Name, Empty string
	Count       int
	On          bool
	List        []data
	// Others are none.
	Names, Others []string
}

func TestFill(t *testing.T) {
	t.Parallel()
	in := data{Name: "<a>&\"b\"", Count: 3, On: true, Names: []string{"x", "", "z"}, List: []data{{Name: "one"}, {On: true, Names: []string{"y"}}}}
	for what, text := range map[string]string{
		"text alone": " a\n", "fields": "{{.Name}} {{.Empty}} {{.Count}} {{.On}} {{.Names}}", "if": "{{if .On}}a{{else}}b{{end}}{{if .Empty}}c{{else}}d{{end}}{{if .Count}}e{{end}}",
		"else if": "{{if .Empty}}a{{else if .On}}b{{else}}c{{end}}", "with": "{{with .Name}}[{{.}}]{{end}}{{with .Empty}}a{{else}}{{.Name}}{{end}}{{with .List}}{{range .}}{{.Name}}{{end}}{{end}}",
		"range": "{{range .List}}<{{.Name}}{{range .Names}},{{.}}{{end}}>{{end}}", "range of none": "{{range .Others}}a{{else}}b{{end}}",
		"range with variables": "{{range $i, $n := .Names}}{{if $i}}, {{end}}{{$n}}{{end}}{{range $i, $d := .List}}{{$d.Name}}{{end}}", "printf": `{{printf "%q" .Name}}{{printf "%03d" .Count}}`,
		"trimmed": "a  {{- .Name -}}  b", "a comment": "a{{/* nothing */}}b",
	} {
		text = strings.NewReplacer("{{len2}}", "{{range .}}{{.Name}}{{end}}", ".Others", ".Others").Replace(text)
		t.Run("what is filled is what text/template makes of it: "+what, func(t *testing.T) {
			t.Parallel()
			var want strings.Builder
			if err := texttemplate.Must(texttemplate.New("").Parse(text)).Execute(&want, in); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := template.New(text).Fill(in); got != want.String() {
					t.Errorf("got %q, want %q", got, want.String())
				}
			}
		})
	}
	for what, text := range map[string]string{"a field that there is not": "{{.Nothing}}", "a function": "{{len .Name}}",
		"two commands": `{{.Name | printf "%q"}}`, "a number": "{{1}}", "another action": `{{template "x"}}`, "half an action": "{{if .Name}}"} {
		t.Run("a template panics with "+what, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("it is filled")
				}
			}()
			template.New(text).Fill(data{Name: "a"})
		})
	}
}
