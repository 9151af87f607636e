package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
)

// pulls is the API of a forge like GitHub, beside its repositories.
type pulls struct {
	remote remote
	mu     sync.Mutex
	open   []map[string]any
	// fails are the statuses of the next answers.
	fails []int
}

func (p *pulls) serve(w http.ResponseWriter, q *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.fails) > 0 {
		code := p.fails[0]
		p.fails = p.fails[1:]
		http.Error(w, `{"message":"no"}`, code)
		return
	}
	if q.Method == http.MethodPost {
		var in map[string]string
		_ = json.NewDecoder(q.Body).Decode(&in)
		p.open = append(p.open, map[string]any{"number": len(p.open) + 1, "html_url": "https://forge.example/pull/1", "state": "open", "title": in["title"], "body": in["body"],
			"base": in["base"], "head": map[string]any{"ref": in["head"], "sha": p.remote.at(in["head"])}})
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(p.open[len(p.open)-1])
		return
	}
	found := []map[string]any{}
	for _, one := range p.open {
		if head, _ := one["head"].(map[string]any); "team:"+head["ref"].(string) == q.URL.Query().Get("head") {
			found = append(found, one)
		}
	}
	_ = json.NewEncoder(w).Encode(found)
}

func TestDeliveryReview(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), newForge(t)
	r := remote{t, f.dir}
	api := &pulls{remote: r}
	around := func(next http.Handler, w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/api/v3/repos/team/project/pulls") {
			api.serve(w, q)
			return
		}
		q.URL.Path = strings.TrimPrefix(q.URL.Path, "/team")
		next.ServeHTTP(w, q)
	}
	f.around.Store(&around)
	host := strings.TrimPrefix(strings.TrimSuffix(f.url, "/project.git"), "http://")
	w.tune = nearGit
	no, fast := false, 3
	w.agent(events.Agent{Name: "alice", Tools: []string{"write"}, Retry: events.Retry{MaxRetries: &fast, BaseBackoffMS: 1}, Git: &events.GitSettings{RequireApproval: &no}}, writes("alice.txt", "good"))
	w.start()
	deliver := func(w *world, id string) work.State {
		w.t.Helper()
		w.addItem(id, events.WorkSpec{Title: "Say hello"})
		c := sling("alice")
		c.Dispatch.Repo, c.Dispatch.Branch, c.Dispatch.Deliver = "http://"+host+"/team/project.git", "main", &events.WorkDeliver{Review: events.ReviewGitHub}
		w.work(id, c)
		return w.itemIs(id, "delivered, or not", func(s work.State) bool { return isReleased(s) || isFree(s) })
	}
	t.Run("DLV-1 DLV-3 the forge is asked for a review once, also where it does not answer at first", func(t *testing.T) {
		w := w.on(t)
		api.fails = []int{http.StatusBadGateway}
		s := deliver(w, "asked")
		d := s.Delivery
		if d == nil {
			t.Fatalf("%+v\n%s", s.Last, w.story(s.Last.Run))
		}
		if d.Phase != events.DeliveryIsReleased || d.Review.How != events.ReviewGitHub || d.Review.Number != 1 || d.Review.URL != "https://forge.example/pull/1" || len(api.open) != 1 {
			t.Fatalf("%+v %+v, at the forge %v\n%s", d, d.Review, api.open, w.story(s.Last.Run))
		}
		if one := api.open[0]; one["title"] != "Say hello" || one["base"] != "main" || !strings.Contains(one["body"].(string), "Work item asked") {
			t.Errorf("%v", one)
		}
	})
	t.Run("DLV-1 where the forge refuses the request the delivery bounces with what it said, and the branch stays at the remote", func(t *testing.T) {
		w := w.on(t)
		api.fails = []int{http.StatusNotFound}
		d := deliver(w, "refused").Delivery
		if d.Phase != events.DeliveryIsBounced || d.Code != events.BouncedReview || !strings.Contains(d.Reason, "404") || r.at(d.RemoteBranch) != d.Commit {
			t.Errorf("%+v", d)
		}
	})
}
