package llmtest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm"
)

// Address checks where a model of d sends a request to name, and with which headers: want has the path with its query
// first, then lines "Header: value" in their order. The address is the same with and without a slash at its end.
func Address(t *testing.T, d Dialect, name, below string, want ...string) {
	t.Helper()
	f, _ := d.Frames(answer())
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = []string{r.Method + " " + r.URL.RequestURI()}
		for key, values := range r.Header {
			if key != "Accept-Encoding" && key != "Content-Length" { // of net/http
				got = append(got, key+": "+strings.Join(values, ", "))
			}
		}
		slices.Sort(got[1:])
		Stream(f...)(w, r)
	}))
	defer server.Close()
	for _, base := range []string{server.URL + below, server.URL + below + "/"} {
		m, err := d.New(base, Key)
		if err != nil {
			t.Fatal(err)
		}
		q := llm.Request{Model: name, Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}
		if _, err := m.Ask(t.Context(), q, nil); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", base, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
