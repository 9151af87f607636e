package mcp

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// watchedPage is a page that sees whether the command went on before all of it was sent.
type watchedPage struct {
	*httptest.ResponseRecorder
	went func() bool
	late bool
}

func (p *watchedPage) Flush() {
	p.late = p.went()
	p.ResponseRecorder.Flush()
}

func TestRedirected(t *testing.T) {
	t.Parallel()
	for query, what := range map[string]string{"code=c&state=s": "grants", "error=access_denied&state=s": "refuses"} {
		t.Run("ECO-3 CLI-9 who "+what+" access has the whole page before the command goes on", func(t *testing.T) {
			t.Parallel()
			r := &redirected{answers: make(chan auth.AuthorizationResult, 1), refusals: make(chan string, 1)}
			went := func() bool { return len(r.answers)+len(r.refusals) > 0 }
			p := &watchedPage{ResponseRecorder: httptest.NewRecorder(), went: went, late: true}
			r.ServeHTTP(p, httptest.NewRequest(http.MethodGet, "/callback?"+query, nil))
			if p.late || !went() || p.Header().Get("Content-Length") == "" {
				t.Errorf("late %v, %v %q", p.late, p.Header(), p.Body)
			}
		})
	}
}
