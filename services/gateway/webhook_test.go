package gateway_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/webhook"
)

const hookKey = "0123456789abcdef0123456789abcdef"

func mac(text string) []byte {
	m := hmac.New(sha256.New, []byte(hookKey))
	m.Write([]byte(text))
	return m.Sum(nil)
}

// github signs a call as GitHub does.
func github(event, body string) []string {
	return []string{"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(mac(body)), "X-GitHub-Event", event}
}

// standard signs a call as Standard Webhooks say.
func standard(id string, at time.Time, body string) []string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return []string{"webhook-id", id, "webhook-timestamp", stamp, "webhook-signature", "v1," + base64.StdEncoding.EncodeToString(mac(id+"."+stamp+"."+body))}
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir, secrets := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(secrets, "key"): hookKey,
		filepath.Join(dir, "pr.toml"): "kind = \"github\"\nsecret = \"secret:key\"\nevents = [\"pull_request.opened\"]\nagent = \"helper\"\nautonomy = 5\n" +
			"task = \"Review {{pull_request.number}}\"\nsession = \"pr-{{pull_request.number}}\"\n[variables]\ntitle = \"{{pull_request.title}}\"\n",
		filepath.Join(dir, "std.toml"):     "kind = \"standard-webhooks\"\nsecret = \"secret:key\"\nevents = [\"*\"]\nagent = \"helper\"\nautonomy = 5\ntask = \"See {{data.x}}\"\n",
		filepath.Join(dir, "nobody.toml"):  "kind = \"github\"\nsecret = \"secret:key\"\nevents = [\"*\"]\nagent = \"nobody\"\ntask = \"x\"\n",
		filepath.Join(dir, "git-lab.toml"): "kind = \"gitlab\"\nsecret = \"secret:key\"\nevents = [\"push\"]\nagent = \"helper\"\nautonomy = 5\ntask = \"x\"\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.hooks, err = webhook.Load(dir, secrets); err != nil {
		t.Fatal(err)
	}
	d := w.open(t, nil)
	const opened = `{"action":"opened","pull_request":{"number":7,"title":"A <b>title</b>"}}`
	call := func(t *testing.T, status int, path, body string, headers ...string) answered {
		t.Helper()
		return d.want(t, status, "POST", path, "", body, headers...)
	}
	t.Run("TRIG-7 TRIG-8 TRIG-9 a signed call starts one run, whose task and session come from the payload", func(t *testing.T) {
		a := in[gateway.WebhookAnswer](t, call(t, 202, "/hooks/pr", opened, github("pull_request", opened)...))
		got := in[gateway.RunAnswer](t, d.want(t, 200, "GET", "/api/v1/runs/"+a.Run+"?wait=2m", "all", ""))
		if got.Status != events.Completed || a.Duplicate {
			t.Fatalf("%+v %+v", a, got)
		}
		s, err := w.client.State(t.Context(), a.Run)
		if err != nil || s.Created.Task != "Review 7" || s.Created.Session != "pr-7" || s.Created.By != "webhook pr" || s.Created.Variables["title"] != "A <b>title</b>" {
			t.Errorf("%+v, %v", s.Created, err)
		}
		again := w.open(t, nil) // duplicates are known after a restart, too
		for _, headers := range [][]string{github("pull_request", opened), append(github("pull_request", opened), "X-GitHub-Delivery", "another")} {
			if b := in[gateway.WebhookAnswer](t, again.want(t, 200, "POST", "/hooks/pr", "", opened, headers...)); b.Run != a.Run || !b.Duplicate {
				t.Errorf("%+v", b)
			}
		}
	})
	t.Run("TRIG-7 calls that come at the same time start one run", func(t *testing.T) {
		body := `{"action":"opened","pull_request":{"number":8,"title":"t"}}`
		ids := make(chan string, 6)
		for range cap(ids) {
			go func() {
				res, err := web.Do(d.request(t, "POST", "/hooks/pr", "", body, github("pull_request", body)...))
				if err != nil {
					ids <- err.Error()
					return
				}
				_ = res.Body.Close()
				ids <- strconv.Itoa(res.StatusCode / 100)
			}()
		}
		for range cap(ids) {
			if s := <-ids; s != "2" {
				t.Error(s)
			}
		}
		all := in[page[struct{}]](t, d.want(t, 200, "GET", "/api/v1/runs?session_id=pr-8", "all", ""))
		for all.Total == 0 { // the index follows
			pause(t)
			all = in[page[struct{}]](t, d.want(t, 200, "GET", "/api/v1/runs?session_id=pr-8", "all", ""))
		}
		s, err := w.client.Sessions().Get(t.Context(), "pr-8")
		if err != nil || s.Runs != 1 || all.Total != 1 {
			t.Errorf("%d runs, %+v, %v", all.Total, s, err)
		}
	})
	t.Run("TRIG-7 a call sent again by Standard Webhooks is the same run, a late one is refused", func(t *testing.T) {
		const body = `{"type":"x","data":{"x":1}}`
		a := in[gateway.WebhookAnswer](t, call(t, 202, "/hooks/std", body, standard("msg_1", time.Now().Add(-time.Minute), body)...))
		if b := in[gateway.WebhookAnswer](t, call(t, 200, "/hooks/std", body, standard("msg_1", time.Now(), body)...)); b.Run != a.Run || !b.Duplicate {
			t.Errorf("%+v", b)
		}
		call(t, 401, "/hooks/std", body, standard("msg_2", time.Now().Add(-webhook.Tolerance-time.Minute), body)...)
		call(t, 401, "/hooks/std", body, standard("msg_2", time.Now().Add(webhook.Tolerance+time.Minute), body)...)
		if b := in[gateway.WebhookAnswer](t, call(t, 202, "/hooks/std", body, standard("msg_2", time.Now(), body)...)); b.Run == a.Run {
			t.Error("another message is the same run")
		}
	})
	t.Run("TRIG-7 a forged call is told nothing", func(t *testing.T) {
		none := call(t, 401, "/hooks/none", opened).body
		for what, headers := range map[string][]string{"no signature": nil, "of another body": github("pull_request", opened+" "), "a token": {"Authorization", "Bearer " + d.secrets["all"]},
			"the signature in another case": {"X-Hub-Signature-256", "SHA256=" + hex.EncodeToString(mac(opened))}} {
			if a := call(t, 401, "/hooks/pr", opened, headers...); a.body != none {
				t.Errorf("%s: %s, of no webhook %s", what, a.body, none)
			}
		}
		call(t, 401, "/hooks/git-lab", `{"object_kind":"push"}`, "X-Gitlab-Token", hookKey[1:])
		if p := in[gateway.Problem](t, answered{body: none}); p.Detail != "" || p.Hint != "" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("TRIG-8 what is not listed starts nothing, and what a payload lacks is said to its sender", func(t *testing.T) {
		const closed = `{"action":"closed","pull_request":{"number":9,"title":"t"}}`
		if a := call(t, 204, "/hooks/pr", closed, github("pull_request", closed)...); a.body != "" {
			t.Error(a.body)
		}
		call(t, 204, "/hooks/pr", `{"zen":"x"}`, github("ping", `{"zen":"x"}`)...)
		call(t, 204, "/hooks/git-lab", `{"object_kind":"tag_push"}`, "X-Gitlab-Token", hookKey)
		call(t, 202, "/hooks/git-lab", `{"object_kind":"push"}`, "X-Gitlab-Token", hookKey)
		const bare = `{"action":"opened"}`
		if p := in[gateway.Problem](t, call(t, 422, "/hooks/pr", bare, github("pull_request", bare)...)); p.Code != "bad_payload" || !strings.Contains(p.Detail, "pull_request.number") {
			t.Errorf("%+v", p)
		}
		call(t, 400, "/hooks/pr", "x", github("pull_request", "x")...)
		call(t, 415, "/hooks/pr", opened, append(github("pull_request", opened), "Content-Type", "application/x-www-form-urlencoded")...)
		call(t, 413, "/hooks/pr", strings.Repeat("x", 1<<20+1))
		if p := in[gateway.Problem](t, call(t, 422, "/hooks/nobody", bare, github("x", bare)...)); p.Code != "unknown_agent" {
			t.Errorf("%+v", p)
		}
		d.want(t, 405, "GET", "/hooks/pr", "all", "")
	})
}
