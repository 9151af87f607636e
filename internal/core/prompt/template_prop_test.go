package prompt

import (
	"strings"
	"testing"
	"text/template"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	// filled is what text/template makes of a text.
	filled := func(t *rapid.T, text string, data any) string {
		tmpl, err := template.New("").Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := tmpl.Execute(&b, data); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(b.String())
	}
	some := rapid.SampledFrom([]string{"", "", "a", "b c", "\n", "<x>&{{.Y}}", `"q"`, "é\x00\u202e"})
	skill := rapid.Custom(func(t *rapid.T) events.Skill {
		return events.Skill{Name: some.Draw(t, "name"), Description: some.Draw(t, "description")}
	})
	t.Run("PRMT-8 a prompt is what text/template makes of its template", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			r := role{System: some.Draw(t, "system"), Name: some.Draw(t, "name"), Description: some.Draw(t, "description"),
				Tools: some.Draw(t, "tools"), Context: some.Draw(t, "context"), Session: some.Draw(t, "session"),
				Workspace: some.Draw(t, "workspace"), Attended: rapid.Bool().Draw(t, "attended"),
				Skills: rapid.SliceOfN(skill, 0, 3).Draw(t, "skills"), Delegates: rapid.SliceOfN(skill, 0, 3).Draw(t, "delegates")}
			for range rapid.IntRange(0, 2).Draw(t, "memory") {
				r.Memory = append(r.Memory, events.Document{Name: some.Draw(t, "name"), Text: some.Draw(t, "text")})
			}
			w := work{Work: some.Draw(t, "work"), Handoff: some.Draw(t, "handoff"), Summary: some.Draw(t, "summary")}
			for range rapid.IntRange(0, 3).Draw(t, "mail") {
				w.Mail = append(w.Mail, events.Letter{From: some.Draw(t, "from"), Subject: some.Draw(t, "subject"),
					Body: some.Draw(t, "body"), Priority: some.Draw(t, "priority")})
			}
			for what, pair := range map[string][2]string{"full": {fill(full, r), filled(t, fullText, r)},
				"short": {fill(short, r), filled(t, shortText, r)}, "work": {fill(opened, w), filled(t, workText, w)}} {
				if pair[0] != pair[1] {
					t.Fatalf("%s\n got %q\nwant %q", what, pair[0], pair[1])
				}
			}
		})
	})
}
