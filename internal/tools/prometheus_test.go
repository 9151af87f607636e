package tools_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/tool"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func ask(t *testing.T, cfg tools.PrometheusConfig, a args) (tool.Result, error) {
	t.Helper()
	cfg.Now = func() time.Time { return noon }
	input, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	return tools.Prometheus(cfg).Run(t.Context(), tool.Call{ID: "c", Input: input, Env: b.env})
}

func TestPrometheus(t *testing.T) {
	t.Parallel()
	var asked url.Values
	var path, auth string
	answer := func(status int, body string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := r.ParseForm(); err != nil {
				t.Error(err)
			}
			asked, path, auth = r.PostForm, r.URL.Path, r.Header.Get("Authorization")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s
	}
	t.Run("TOOL-20 a query at one time gives a line for each series", func(t *testing.T) {
		s := answer(200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"b","instance":"x\n"},"value":[1767355200,"1"]},{"metric":{},"value":[1767355200.5,"0.25"]}]}}`)
		r, err := ask(t, tools.PrometheusConfig{URL: s.URL + "/prom/", Token: secret.New("canary-token")}, args{"query": "up", "time": "-1h"})
		want := "up{instance=\"x\\n\", job=\"b\"}  1 @ 2026-01-02T12:00:00Z\n{}  0.25 @ 2026-01-02T12:00:00Z"
		if err != nil || r.Failed || r.Output != want {
			t.Errorf("%v %q", err, r.Output)
		}
		if path != "/prom/api/v1/query" || asked.Get("query") != "up" || asked.Get("time") != "1767351600" || auth != "Bearer canary-token" {
			t.Errorf("%s %v %s", path, asked, auth)
		}
	})
	t.Run("TOOL-20 a range gives the values of each series", func(t *testing.T) {
		s := answer(200, `{"status":"success","warnings":["slow"],"data":{"resultType":"matrix","result":[{"metric":{"job":"a"},"values":[[1767355200,"1"],[1767355260,"2"]]}]}}`)
		r, err := ask(t, tools.PrometheusConfig{URL: s.URL}, args{"query": "up", "start": "-50m"})
		if err != nil || r.Output != "warning: slow\n{job=\"a\"}\n  1 @ 2026-01-02T12:00:00Z\n  2 @ 2026-01-02T12:01:00Z" {
			t.Errorf("%v %q", err, r.Output)
		}
		if path != "/api/v1/query_range" || asked.Get("start") != "1767352200" || asked.Get("end") != "1767355200" || asked.Get("step") != "60" {
			t.Errorf("%s %v", path, asked)
		}
	})
	t.Run("TOOL-20 a query that is wrong is told to the model", func(t *testing.T) {
		s := answer(400, `{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}`)
		r, err := ask(t, tools.PrometheusConfig{URL: s.URL}, args{"query": "sum("})
		if err != nil || !r.Failed || !strings.Contains(r.Output, "unexpected end") {
			t.Errorf("%v %+v", err, r)
		}
	})
	t.Run("TOOL-20 nothing found is said", func(t *testing.T) {
		s := answer(200, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
		if r, err := ask(t, tools.PrometheusConfig{URL: s.URL}, args{"query": "up"}); err != nil || !strings.Contains(r.Output, "no series") {
			t.Errorf("%v %+v", err, r)
		}
	})
	t.Run("TOOL-20 SAFE-8 without a server every call is refused with what to do", func(t *testing.T) {
		for _, address := range []string{"", "file:///etc/passwd", "prometheus:9090"} {
			if _, err := ask(t, tools.PrometheusConfig{URL: address}, args{"query": "up"}); tool.ClassOf(err) != tool.Permanent {
				t.Errorf("%q: %v", address, err)
			}
		}
	})
	t.Run("SAFE-8 a redirect to another server is not followed", func(t *testing.T) {
		other := answer(200, `{"status":"success","data":{"resultType":"scalar","result":[1,"stolen"]}}`)
		s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
		t.Cleanup(s.Close)
		if r, err := ask(t, tools.PrometheusConfig{URL: s.URL}, args{"query": "up"}); err == nil {
			t.Errorf("followed: %+v", r)
		}
	})
	t.Run("TOOL-20 a server that is away or overloaded may be asked again", func(t *testing.T) {
		gone := answer(200, "")
		gone.Close()
		for _, address := range []string{gone.URL, answer(503, "busy").URL} {
			if _, err := ask(t, tools.PrometheusConfig{URL: address}, args{"query": "up"}); tool.ClassOf(err) != tool.Transient {
				t.Errorf("%s: %v", address, err)
			}
		}
	})
	t.Run("TOOL-20 an answer that is too large is not taken", func(t *testing.T) {
		s := answer(200, strings.Repeat("x", 8<<20+1))
		if r, err := ask(t, tools.PrometheusConfig{URL: s.URL}, args{"query": "up"}); err != nil || !r.Failed || !strings.Contains(r.Output, "aggregate") {
			t.Errorf("%v %.100s", err, r.Output)
		}
	})
	t.Run("TOOL-20 times that make no sense are refused before anything is sent", func(t *testing.T) {
		for _, a := range []args{{"query": "x", "time": "soon"}, {"query": "x", "time": "1h"}, {"query": "x", "end": "-1h"}, {"query": "x", "start": "-1h", "end": "-2h"}, {"query": "x", "start": "-1h", "time": "-1h"}, {"query": "x", "start": "-1h", "step": "1ms"}} {
			if _, err := ask(t, tools.PrometheusConfig{URL: "http://127.0.0.1:1"}, a); tool.ClassOf(err) != tool.Invalid {
				t.Errorf("%v: %v", a, err)
			}
		}
	})
}
