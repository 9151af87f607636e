package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/payload"
	"github.com/inspan/inspan/pkg/events"
)

const key = "0123456789abcdef0123456789abcdef"

// hook makes one of a file.
func hook(t testing.TB, text string) *Hook {
	t.Helper()
	h, err := parse("pr", []byte("secret = \"secret:s\"\nagent = \"reviewer\"\ntask = \"look\"\nevents = [\"*\"]\n"+text), func(string) (string, error) { return key, nil })
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func signed(body string) []byte {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(body))
	return m.Sum(nil)
}

// headers makes headers of names and values.
func headers(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(kv); i += 2 {
		h.Set(kv[i], kv[i+1])
	}
	return h
}

func TestVerify(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	const body = `{"a":1}`
	standard := func(id string, at time.Time, body string) http.Header {
		stamp := strconv.FormatInt(at.Unix(), 10)
		return headers("webhook-id", id, "webhook-timestamp", stamp, "webhook-signature", "v1,AAAA v1,"+base64.StdEncoding.EncodeToString(signed(id+"."+stamp+"."+body)))
	}
	for name, c := range map[string]struct {
		file string
		ok   http.Header
		bad  map[string]http.Header
	}{
		"github": {`kind = "github"`, headers("X-Hub-Signature-256", "sha256="+hex.EncodeToString(signed(body))), map[string]http.Header{
			"none": {}, "of another body": headers("X-Hub-Signature-256", "sha256="+hex.EncodeToString(signed(body+" "))), "without prefix": headers("X-Hub-Signature-256", hex.EncodeToString(signed(body))),
			"cut": headers("X-Hub-Signature-256", "sha256="+hex.EncodeToString(signed(body))[:62]), "empty": headers("X-Hub-Signature-256", "sha256="), "the older one": headers("X-Hub-Signature", "sha256="+hex.EncodeToString(signed(body)))}},
		"gitlab": {`kind = "gitlab"`, headers("X-Gitlab-Token", key), map[string]http.Header{"none": {}, "empty": headers("X-Gitlab-Token", ""), "another": headers("X-Gitlab-Token", key[1:]+"0")}},
		"hmac hex": {"kind = \"hmac\"\nheader = \"X-Sign\"\nprefix = \"v0=\"", headers("X-Sign", "v0="+hex.EncodeToString(signed(body))), map[string]http.Header{
			"none": {}, "no prefix": headers("X-Sign", hex.EncodeToString(signed(body))), "base64": headers("X-Sign", "v0="+base64.StdEncoding.EncodeToString(signed(body)))}},
		"hmac base64": {"kind = \"hmac\"\nheader = \"X-Sign\"\nencoding = \"base64\"", headers("X-Sign", base64.StdEncoding.EncodeToString(signed(body))), map[string]http.Header{
			"none": {}, "hex": headers("X-Sign", hex.EncodeToString(signed(body)))}},
		"standard": {`kind = "standard-webhooks"`, standard("msg_1", now.Add(-Tolerance), body), map[string]http.Header{
			"none": {}, "late": standard("msg_1", now.Add(-Tolerance-time.Second), body), "of the future": standard("msg_1", now.Add(Tolerance+time.Second), body), "of another body": standard("msg_1", now, body+" "),
			"an id with a dot": standard("msg.1", now, body), "no id": standard("", now, body), "another id": func() http.Header { h := standard("msg_1", now, body); h.Set("webhook-id", "msg_2"); return h }(),
			"another time": func() http.Header {
				h := standard("msg_1", now.Add(-time.Hour), body)
				h.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
				return h
			}()}},
	} {
		t.Run("TRIG-7 a call counts only with a signature that fits: "+name, func(t *testing.T) {
			t.Parallel()
			h := hook(t, c.file)
			if _, err := h.Verify(c.ok, []byte(body), now); err != nil {
				t.Errorf("signed: %v", err)
			}
			for what, header := range c.bad {
				if _, err := h.Verify(header, []byte(body), now); !errors.Is(err, ErrForged) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	t.Run("TRIG-7 a call that is sent again later is the same run, another one is not", func(t *testing.T) {
		t.Parallel()
		h, ids := hook(t, `kind = "standard-webhooks"`), map[string]bool{}
		for _, header := range []http.Header{standard("msg_1", now, body), standard("msg_1", now.Add(time.Minute), body), standard("msg_2", now, body)} {
			identity, err := h.Verify(header, []byte(body), now)
			if err != nil {
				t.Fatal(err)
			}
			id := h.RunID(identity)
			if err := events.CheckID("run", id); err != nil {
				t.Error(err)
			}
			ids[id] = true
		}
		if len(ids) != 2 {
			t.Errorf("%v", ids)
		}
		g := hook(t, `kind = "github"`)
		sign := headers("X-Hub-Signature-256", "sha256="+hex.EncodeToString(signed(body)), "X-Github-Delivery", "1")
		one, _ := g.Verify(sign, []byte(body), now)
		sign.Set("X-Github-Delivery", "2")
		sign.Set("X-Github-Event", "push")
		if two, _ := g.Verify(sign, []byte(body), now); one == "" || g.RunID(one) != g.RunID(two) {
			t.Error("headers that are not signed change the run")
		}
		other := hook(t, `kind = "github"`)
		if other.Name = strings.Repeat("n", 32); other.RunID(one) == g.RunID(one) || events.CheckID("run", other.RunID(one)) != nil {
			t.Errorf("%s", other.RunID(one))
		}
	})
}

// said reads a payload.
func said(t *testing.T, text string) payload.Payload {
	t.Helper()
	p, err := payload.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTask(t *testing.T) {
	t.Parallel()
	h := func(text string) *Hook {
		t.Helper()
		h, err := parse("pr", []byte("kind = \"github\"\nsecret = \"secret:s\"\nagent = \"reviewer\"\n"+text), func(string) (string, error) { return key, nil })
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	const opened = `{"action":"opened","pull_request":{"number":12345678901234567,"title":"a {{repository.name}} \u001b[31m\u202e","draft":false,"head":{"sha":"abc"}},"repository":{"clone_url":"https://example.com/x.git","name":"secret"},"labels":[{"name":"first"}]}`
	t.Run("TRIG-8 TRIG-9 task, session, repo and ref come from the payload, which is data", func(t *testing.T) {
		t.Parallel()
		got, err := h("events = [\"*\"]\nautonomy = 2\ntask = \"Review {{pull_request.number}}: {{ pull_request.title }} {{labels.0.name}} {{pull_request.draft}}\"\nsession = \"pr-{{pull_request.number}}\"\nrepo = \"{{repository.clone_url}}\"\nref = \"{{pull_request.head.sha}}\"\n[variables]\nname = \"{{repository.name}}\"\n").
			Task(said(t, opened), "run-1")
		if err != nil {
			t.Fatal(err)
		}
		if got.Task != "Review 12345678901234567: a {{repository.name}} [31m first false" || got.Session != "pr-12345678901234567" ||
			got.Repo != "https://example.com/x.git" || got.Ref != "abc" || got.Variables["name"] != "secret" || *got.Autonomy != 2 || got.By != "webhook pr" || got.ID != "run-1" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("TRIG-8 what a payload lacks or has of another kind starts nothing", func(t *testing.T) {
		t.Parallel()
		for _, task := range []string{"{{pull_request.body}}", "{{pull_request}}", "{{labels}}", "{{labels.1.name}}", "{{labels.-1.name}}", "{{action.x}}"} {
			if got, err := h("events = [\"*\"]\ntask = \"x "+task+"\"\n").Task(said(t, opened), "r"); err == nil || !strings.Contains(err.Error(), "the payload has no") {
				t.Errorf("%s: %+v, %v", task, got, err)
			}
		}
		if _, err := h("events = [\"*\"]\ntask = \"x\"\nsession = \"{{repository.clone_url}}\"\n").Task(said(t, opened), "r"); err == nil {
			t.Error("an address is taken for a session")
		}
		for _, body := range []string{"", "[]", "null x", `{"a":`, `{} {}`, "7"} {
			if _, err := payload.Read([]byte(body)); err == nil {
				t.Errorf("%q is taken for a payload", body)
			}
		}
	})
	t.Run("TRIG-8 only listed events fire", func(t *testing.T) {
		t.Parallel()
		listed := h("events = [\"pull_request.opened\", \"push\"]\ntask = \"x\"\n")
		for family, want := range map[string]bool{"pull_request": true, "issues": false, "": false, "push": false} {
			if e := listed.Event(headers("X-Github-Event", family), said(t, opened)); listed.Fires(e) != want {
				t.Errorf("%q: %q fires: %v", family, e, !want)
			}
		}
		if !listed.Fires(listed.Event(headers("X-Github-Event", "push"), said(t, `{}`))) {
			t.Error("push")
		}
		lab := hook(t, `kind = "gitlab"`)
		if e := lab.Event(nil, said(t, `{"object_kind":"merge_request","object_attributes":{"action":"open"}}`)); e != "merge_request.open" {
			t.Error(e)
		}
		own := hook(t, "kind = \"hmac\"\nheader = \"X-S\"\nevent = \"meta.kind\"")
		if e := own.Event(nil, said(t, `{"meta":{"kind":"done"}}`)); e != "done" {
			t.Error(e)
		}
	})
}

func TestLoad(t *testing.T) {
	t.Parallel()
	t.Run("TRIG-7 a folder of webhooks is read, with secrets by reference", func(t *testing.T) {
		t.Parallel()
		dir, secrets := t.TempDir(), t.TempDir()
		write := func(path, text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(filepath.Join(secrets, "hub"), key+"\n")
		write(filepath.Join(secrets, "short"), "123\n")
		good := "kind = \"github\"\nsecret = \"secret:hub\"\nevents = [\"push\"]\nagent = \"a\"\ntask = \"t\"\n"
		write(filepath.Join(dir, "one.toml"), good)
		write(filepath.Join(dir, "README.md"), "x")
		hooks, err := Load(dir, secrets)
		if err != nil || len(hooks) != 1 || hooks[0].Name != "one" || hooks[0].Secret().Reveal() != key {
			t.Fatalf("%+v, %v", hooks, err)
		}
		for what, c := range map[string]struct{ name, text, want string }{
			"an unknown key":    {"x.toml", good + "color = \"red\"\n", "color"},
			"no TOML":           {"x.toml", "kind", ""},
			"the secret itself": {"x.toml", strings.Replace(good, "secret:hub", key, 1), "secret:NAME"},
			"no such secret":    {"x.toml", strings.Replace(good, "secret:hub", "secret:none", 1), "no such file"},
			"a short secret":    {"x.toml", strings.Replace(good, "secret:hub", "secret:short", 1), "guessed"},
			"out of the folder": {"x.toml", strings.Replace(good, "secret:hub", "secret:../hub", 1), "secret:NAME"},
			"no events":         {"x.toml", strings.Replace(good, `["push"]`, `[]`, 1), "events"},
			"an unknown kind":   {"x.toml", strings.Replace(good, "github", "gitea", 1), "gitea"},
			"no agent":          {"x.toml", strings.Replace(good, `"a"`, `""`, 1), "agent"},
			"an open place":     {"x.toml", strings.Replace(good, `"t"`, `"{{a"`, 1), "task"},
			"code in a place":   {"x.toml", strings.Replace(good, `"t"`, `"{{range .}}"`, 1), "task"},
			"a header":          {"x.toml", good + "header = \"X-S\"\n", "hmac"},
			"autonomy":          {"x.toml", good + "autonomy = 6\n", "autonomy"},
			"a name":            {"X Y.toml", good, "name the file"},
			"too large":         {"x.toml", good + strings.Repeat("#", maxFile), "at most"},
		} {
			bad := t.TempDir()
			write(filepath.Join(bad, c.name), c.text)
			if hooks, err := Load(bad, secrets); err == nil || !strings.Contains(err.Error(), c.want) || len(hooks) != 0 {
				t.Errorf("%s: %v, %v", what, hooks, err)
			}
		}
		if _, err := Load(dir, ""); err == nil || !strings.Contains(err.Error(), "INSPAN_GATEWAY_SECRETS") {
			t.Errorf("%v", err)
		}
		if _, err := Load(filepath.Join(dir, "none"), secrets); err == nil {
			t.Error("no folder")
		}
	})
}

func TestCreate(t *testing.T) {
	t.Parallel()
	t.Run("CLI-11b a webhook that is made can be read, and none is written over", func(t *testing.T) {
		t.Parallel()
		dir, secrets := filepath.Join(t.TempDir(), "hooks"), filepath.Join(t.TempDir(), "secrets")
		f := File{Kind: GitHub, Events: []string{"push"}, Agent: "a", Task: "say \"x\"\n{{a.b}} \x01", Variables: map[string]string{"v": "{{c}}"}}
		secret, err := Create(dir, secrets, "one", f)
		if err != nil || len(secret) != 64 {
			t.Fatalf("%q, %v", secret, err)
		}
		f.Kind = Standard
		if s, err := Create(dir, secrets, "two", f); err != nil || !strings.HasPrefix(s, "whsec_") {
			t.Errorf("%q, %v", s, err)
		}
		hooks, err := Load(dir, secrets)
		if err != nil || len(hooks) != 2 || hooks[0].Secret().Reveal() != secret {
			t.Fatalf("%v, %v", hooks, err)
		}
		if got, err := hooks[0].Task(said(t, `{"a":{"b":"z"},"c":"d"}`), "r"); err != nil || got.Task != "say \"x\"\nz \x01" {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := Create(dir, secrets, "one", f); err == nil {
			t.Error("it was written over")
		}
		for name, f := range map[string]File{"X": f, "three": {Kind: GitHub}, "../x": f} {
			if _, err := Create(dir, secrets, name, f); err == nil {
				t.Errorf("%s was made", name)
			}
		}
		if again, err := Load(dir, secrets); err != nil || len(again) != 2 || again[0].Secret().Reveal() != secret {
			t.Errorf("%v, %v", again, err)
		}
	})
}
