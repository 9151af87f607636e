package help_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/inspan/inspan/docs"
	"github.com/inspan/inspan/services/gateway/console/help"
)

type hit struct{ Page, Title, Heading, Excerpt string }

func TestHelp(t *testing.T) {
	t.Parallel()
	handler, err := help.Handler(docs.Pages)
	if err != nil {
		t.Fatal(err)
	}
	served := http.StripPrefix("/", handler)
	ask := func(t *testing.T, target string, code int) *httptest.ResponseRecorder {
		t.Helper()
		w := httptest.NewRecorder()
		served.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+target, nil))
		if w.Code != code {
			t.Errorf("%s: %d, want %d", target, w.Code, code)
		}
		return w
	}
	search := func(t *testing.T, q string) (all []hit) {
		t.Helper()
		if err := json.Unmarshal(ask(t, "search?q="+q, 200).Body.Bytes(), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	t.Run("PLUS-9 the index leads to every page, and pages to pages that there are", func(t *testing.T) {
		links := regexp.MustCompile(`\]\(([a-z0-9/.-]+\.md)(#[a-z0-9-]*)?\)`)
		index := ask(t, "index.md", 200).Body.String()
		named := map[string]bool{"index.md": true, "tutorials/README.md": true, "events.md": true}
		for _, m := range links.FindAllStringSubmatch(index, -1) {
			named[m[1]] = true
			ask(t, m[1], 200)
		}
		for _, pattern := range []string{"*.md", "tutorials/*.md"} {
			names, err := fs.Glob(docs.Pages, pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if !named[name] {
					t.Errorf("index.md does not lead to %s", name)
				}
			}
		}
	})
	t.Run("PLUS-9 a search finds sections by all words, those of headings first, and says where they stand", func(t *testing.T) {
		all := search(t, "signed+answers")
		if len(all) == 0 || all[0].Page != "deploy" || all[0].Heading != "Signed answers" || all[0].Title != "Deploying a station" {
			t.Errorf("%+v", all)
		}
		for _, h := range search(t, "KEDA") {
			if len(h.Excerpt) > 200 || strings.Contains(h.Excerpt, "\n") {
				t.Errorf("%+v", h)
			}
		}
	})
	t.Run("PLUS-9 what is asked wrongly is answered with nothing", func(t *testing.T) {
		for _, q := range []string{"", "+", "zzzzzz", strings.Repeat("a+", 5000), "%00%ff", "gate+zzzzzz"} {
			if all := search(t, q); len(all) > 30 {
				t.Errorf("%q finds %d", q, len(all))
			}
		}
		for _, name := range []string{"../go.mod", "adr/0001-the-fence-is-a-sequence.md", "openapi.json", "docs.go", ""} {
			ask(t, name, 404)
		}
	})
}
