package forge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/forge"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/tool"
)

const (
	commit = "1111111111111111111111111111111111111111"
	token  = "s3cret-token"
)

// double is a forge of this machine that keeps the requests it is asked to make.
type double struct {
	t    *testing.T
	how  string
	mu   sync.Mutex
	open []map[string]any
	made int
	// fails are the statuses of the next answers; lost makes a request and answers 502.
	fails []int
	lost  bool
	sha   string
}

// ServeHTTP implements http.Handler.
func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := "/api/v3/repos/team/app/pulls"
	if d.how == forge.GitLab {
		want = "/api/v4/projects/team%2Fapp/merge_requests"
	}
	if r.URL.EscapedPath() != want || r.Header.Get("Authorization") != "Bearer "+token {
		http.Error(w, `{"message":"Bad credentials `+r.Header.Get("Authorization")+`"}`, http.StatusUnauthorized)
		return
	}
	if len(d.fails) > 0 {
		code := d.fails[0]
		d.fails = d.fails[1:]
		http.Error(w, `{"message":"no: `+token+`"}`, code)
		return
	}
	if r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(d.open)
		return
	}
	var in map[string]string
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		d.t.Error(err)
	}
	if len(d.open) > 0 {
		code := http.StatusUnprocessableEntity
		if d.how == forge.GitLab {
			code = http.StatusConflict
		}
		http.Error(w, `{"message":"exists"}`, code)
		return
	}
	d.made++
	one := map[string]any{"number": d.made, "html_url": "https://forge.example/1", "state": "open", "head": map[string]any{"ref": in["head"], "sha": d.sha}, "title": in["title"]}
	if d.how == forge.GitLab {
		one = map[string]any{"iid": d.made, "web_url": "https://forge.example/1", "state": "opened", "source_branch": in["source_branch"], "sha": d.sha, "title": in["title"]}
	}
	d.open = append(d.open, one)
	if d.lost {
		d.lost = false
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(one)
}

func start(t *testing.T, how string) (*double, *forge.Client, forge.Ask) {
	t.Helper()
	d := &double{t: t, how: how, sha: commit}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	c, err := forge.New(forge.Config{Plain: true, Token: func(context.Context, string, string) (secret.Value, error) { return secret.New(token), nil },
		Reach: func(context.Context, string, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return d, c, forge.Ask{How: how, Repo: server.URL + "/team/app.git", Branch: "agent/a", Commit: commit, Target: "main", Title: "Fix\nthe login", Body: "x"}
}

func TestForges(t *testing.T) {
	t.Parallel()
	for _, how := range []string{forge.GitHub, forge.GitLab} {
		t.Run("DLV-1 DLV-2 a request for a review is made once at "+how+", also where the answer was lost", func(t *testing.T) {
			t.Parallel()
			d, c, a := start(t, how)
			if r, err := c.Find(t.Context(), a); err != nil || r != nil {
				t.Fatalf("%+v, %v", r, err)
			}
			d.lost = true
			if _, err := c.Open(t.Context(), a); tool.ClassOf(err) != tool.Transient {
				t.Fatalf("got %v, want a fault that passes", err)
			}
			for range 2 {
				r, err := c.Open(t.Context(), a)
				if err != nil || r.Number != 1 || r.URL != "https://forge.example/1" || r.Commit != commit || r.How != how {
					t.Fatalf("%+v, %v", r, err)
				}
			}
			if r, err := c.Find(t.Context(), a); err != nil || r == nil || d.made != 1 || d.open[0]["title"] != "Fix the login" {
				t.Errorf("%+v, %v: %d requests were made, %v", r, err, d.made, d.open)
			}
		})
		t.Run("DLV-1 SEC a refusal of "+how+" has its class and what to do, and never the token", func(t *testing.T) {
			t.Parallel()
			for code, class := range map[int]tool.Class{401: tool.Denied, 403: tool.Denied, 404: tool.Invalid, 429: tool.Transient, 500: tool.Transient, 503: tool.Transient, 302: tool.Permanent, 400: tool.Permanent} {
				d, c, a := start(t, how)
				d.fails = []int{code}
				_, err := c.Open(t.Context(), a)
				e, ok := errors.AsType[*tool.Error](err)
				if !ok || e.Class != class || e.Hint == "" || !strings.Contains(err.Error(), fmt.Sprint(code)) || strings.Contains(err.Error(), token) || d.made != 0 {
					t.Errorf("%d: %v, %d made", code, err, d.made)
				}
			}
		})
		t.Run("DLV-1 a request at "+how+" that is at another commit is not the one that was asked for", func(t *testing.T) {
			t.Parallel()
			d, c, a := start(t, how)
			d.sha = strings.Repeat("2", 40)
			if _, err := c.Open(t.Context(), a); tool.ClassOf(err) != tool.Transient {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("SEC a forge that may not be reached is not dialled, and one that is none is refused", func(t *testing.T) {
		t.Parallel()
		d, _, a := start(t, forge.GitHub)
		c, err := forge.New(forge.Config{Plain: true, Token: func(context.Context, string, string) (secret.Value, error) { return secret.New(token), nil },
			Reach: func(context.Context, string, string) ([]netip.Addr, error) { return nil, errors.New("not public") }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Open(t.Context(), a); err == nil || d.made != 0 || strings.Contains(err.Error(), token) {
			t.Errorf("%v, %d made", err, d.made)
		}
		for _, repo := range []string{"file:///tmp/x/y", "https://host.example", "https://host.example/one", "https://host.example/a/../b", "x"} {
			a.Repo = repo
			if _, err := c.Open(t.Context(), a); tool.ClassOf(err) != tool.Invalid {
				t.Errorf("%s: %v", repo, err)
			}
		}
	})
}
