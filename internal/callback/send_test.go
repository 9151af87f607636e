package callback

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/notify"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const key = "0123456789abcdef0123456789abcdef"

// target makes one of a file.
func target(t testing.TB, text string) Target {
	t.Helper()
	got, err := Parse("one", []byte("on = [\"completed\"]\n"+text), func(ref string) (string, error) {
		if ref == "secret:url" {
			return "https://hooks.example.com/T0/B0/hidden", nil
		}
		return key, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func delivery() Delivery {
	n := notify.Notice{Kind: notify.Completed, Station: "s", Run: "r1", Agent: "a", Text: "a <!channel> & `x` is done after 1 s", Command: "inspan inspect r1", Time: time.Unix(1_790_000_000, 0)}
	return Delivery{ID: idOf("s", "r1", "9", "one"), Target: "one", Notice: n, Body: json.RawMessage(`{"type":"run.completed"}`)}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	const hook, post = "kind = \"webhook\"\nsecret = \"secret:k\"\n", "kind = \"mail\"\nserver = \"m.example.com:587\"\nfrom = \"i@example.com\"\nto = [\"a@example.com\"]\n"
	for name, text := range map[string]string{
		"webhook": hook + "url = \"https://example.com/x\"\n", "a secret address": "kind = \"slack\"\nurl = \"secret:url\"\n",
		"one's own network": hook + "url = \"http://10.0.0.1/x\"\nprivate = true\n", "mail": post + "tls = \"starttls\"\nuser = \"u\"\npassword = \"secret:k\"\n",
	} {
		target(t, text)
		_ = name
	}
	for name, text := range map[string]string{
		"no kind": "url = \"https://example.com\"\n", "no URL": hook, "no TLS": hook + "url = \"http://example.com\"\n", "a user in the URL": hook + "url = \"https://u:p@example.com\"\n",
		"another scheme": hook + "url = \"file:///etc/passwd\"\nprivate = true\n", "a secret in the file": "kind = \"webhook\"\nsecret = \"" + key + "\"\nurl = \"https://example.com\"\n",
		"no secret": "kind = \"webhook\"\nurl = \"https://example.com\"\n", "an unknown key": hook + "url = \"https://example.com\"\nretry = 3\n", "an unknown notice": hook + "url = \"https://example.com\"\non = [\"x\"]\n",
		"mail without TLS": post + "tls = \"none\"\n", "a password in the clear": post + "tls = \"none\"\nprivate = true\nuser = \"u\"\npassword = \"secret:k\"\n", "mail without tls": post,
		"two addresses in one": strings.Replace(post, "a@example.com", "a@example.com, b@example.com", 1) + "tls = \"tls\"\n", "a line in an address": strings.Replace(post, "a@example.com", "a@example.com\\r\\nRCPT TO:<x@y>", 1) + "tls = \"tls\"\n",
	} {
		t.Run("DLV-8 is refused: "+name, func(t *testing.T) {
			t.Parallel()
			if got, err := Parse("one", []byte("on = [\"completed\"]\n"+text), func(string) (string, error) { return key, nil }); err == nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	d := delivery()
	var inside atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	t.Cleanup(other.Close)
	var got http.Header
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/gone":
			w.WriteHeader(http.StatusGone)
		case "/later":
			w.Header().Set("Retry-After", "999999999")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case "/header":
			w.Header().Set("X", strings.Repeat("x", 2*maxAnswerHeader))
		default:
			got = r.Header
			body, _ = io.ReadAll(r.Body)
		}
	}))
	t.Cleanup(s.Close)
	at := func(path string) Target {
		return target(t, "kind = \"webhook\"\nsecret = \"secret:k\"\nprivate = true\nurl = \""+s.URL+path+"\"\n")
	}
	t.Run("PLUS-15b DLV-8 a call is signed as Standard Webhooks says", func(t *testing.T) {
		if err := at("/ok").send(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		m := hmac.New(sha256.New, []byte(key))
		m.Write([]byte(d.ID + "." + got.Get("webhook-timestamp") + "." + string(d.Body)))
		if want := "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil)); got.Get("webhook-signature") != want || got.Get("webhook-id") != d.ID || string(body) != string(d.Body) || strings.Contains(d.ID, ".") {
			t.Errorf("%v\n%s", got, body)
		}
	})
	t.Run("DLV-8 no redirect is followed", func(t *testing.T) {
		if err := at("/redirect").send(t.Context(), d); err == nil || inside.Load() != 0 {
			t.Errorf("%v, %d calls", err, inside.Load())
		}
	})
	t.Run("DLV-8 what a receiver answers is bounded", func(t *testing.T) {
		if err := at("/endless").send(t.Context(), d); err != nil {
			t.Error(err)
		}
		if err := at("/header").send(t.Context(), d); err == nil {
			t.Error("a header without an end was read")
		}
		var wait *waitError
		if err := at("/later").send(t.Context(), d); !errors.As(err, &wait) || wait.least > maxLeast {
			t.Error(err)
		}
		var gone *goneError
		if err := at("/gone").send(t.Context(), d); !errors.As(err, &gone) {
			t.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(other.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "127.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "2130706433", "0x7f000001", "0.0.0.0", "10.0.0.1", "169.254.169.254", "[fd00::1]", "100.64.0.1"} {
		t.Run("DLV-8 no private address is reached: "+host, func(t *testing.T) {
			before := inside.Load()
			public := target(t, "kind = \"webhook\"\nsecret = \"secret:k\"\nurl = \"https://"+host+":"+port+"/\"\n")
			if err := public.send(t.Context(), d); err == nil || inside.Load() != before || strings.Contains(err.Error(), "tls") {
				t.Error(err)
			}
		})
	}
	t.Run("DLV-8 private = true opens neither what a cloud tells its machines nor other special addresses", func(t *testing.T) {
		for _, host := range []string{"169.254.169.254", "0.0.0.0", "[fe80::1]", "224.0.0.1"} {
			err := target(t, "kind = \"webhook\"\nsecret = \"secret:k\"\nprivate = true\nurl = \"http://"+host+":"+port+"/\"\n").send(t.Context(), d)
			if err == nil || !strings.Contains(err.Error(), "no public address") {
				t.Errorf("%s: %v", host, err)
			}
		}
	})
	t.Run("DLV-8 an error has no secret", func(t *testing.T) {
		hidden := target(t, "kind = \"slack\"\nurl = \"secret:url\"\n")
		hidden.url = target(t, "kind = \"slack\"\nurl = \"https://127.0.0.1:"+port+"/hidden\"\n").url
		if err := hidden.send(t.Context(), d); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Error(err)
		}
		if text := fmt.Sprintf("%v %+v %#v", hidden, at("/ok"), hidden); strings.Contains(text, "hidden") || strings.Contains(text, key) {
			t.Error(text)
		}
	})
	t.Run("PLUS-15c Slack gets one text without mentions, links or code that the agent chose", func(t *testing.T) {
		if err := target(t, "kind = \"slack\"\nprivate = true\nurl = \""+s.URL+"/slack\"\n").send(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		var m map[string]string
		if err := json.Unmarshal(body, &m); err != nil || len(m) != 1 || !strings.Contains(m["text"], "a &lt;!channel&gt; &amp; ") || !strings.Contains(m["text"], "`inspan inspect r1`") {
			t.Errorf("%s %v", body, err)
		}
	})
}

func TestWants(t *testing.T) {
	t.Parallel()
	created := run.State{Created: &events.RunCreatedData{}}
	away := []notify.InPlace{{For: "ann", By: "bob"}}
	for name, c := range map[string]struct {
		file File
		n    notify.Notice
		want bool
	}{
		"PLUS-23b a reminder for who is away calls the deputy's group":    {File{Groups: []string{"bob"}}, notify.Notice{To: "ann", Deputies: away}, true},
		"PLUS-23b and still the own group":                                {File{Groups: []string{"ann"}}, notify.Notice{To: "ann", Deputies: away}, true},
		"PLUS-23b a group is called for no one whom it was not escalated": {File{Groups: []string{"bob"}}, notify.Notice{To: "leads", By: "ann", Deputies: away}, false},
		"PLUS-23b people of a callback":                                   {File{People: []string{"eve", "ann"}}, notify.Notice{By: "ann"}, true},
		"PLUS-23b their deputies":                                         {File{People: []string{"bob"}}, notify.Notice{By: "ann", Deputies: away}, true},
		"PLUS-23b and no one else":                                        {File{People: []string{"eve"}}, notify.Notice{By: "ann", Deputies: away}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.n.Kind, c.file.On, c.file.Kind = notify.Reminder, []notify.Kind{notify.Reminder}, Slack
			if got := (Target{File: c.file}).wants(c.n, created); got != c.want {
				t.Errorf("%v", got)
			}
		})
	}
	t.Run("PLUS-23b a message says how a deputy answers", func(t *testing.T) {
		t.Parallel()
		d := delivery()
		d.Notice.Deputies = away
		for _, text := range []string{slackText(d.Notice), string(target(t, "kind = \"mail\"\nserver = \"m.example.com:587\"\nfrom = \"i@example.com\"\nto = [\"a@example.com\"]\ntls = \"tls\"\n").message(d))} {
			if !strings.Contains(text, "bob answers for ann (--deputy-for ann)") {
				t.Errorf("%s", text)
			}
		}
	})
}

// postbox is an SMTP server that offers what it is told to. heard gets what a client says, the message as one text.
func postbox(t *testing.T, offers ...string) (address string, heard chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	heard = make(chan string, 64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serveMail(c, heard, offers)
		}
	}()
	return l.Addr().String(), heard
}

func serveMail(c net.Conn, heard chan<- string, offers []string) {
	defer c.Close()
	r := bufio.NewReader(c)
	say := func(text string) { _, _ = io.WriteString(c, text+"\r\n") }
	say("220 box")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		heard <- line
		switch verb, _, _ := strings.Cut(line, " "); verb {
		case "EHLO":
			for _, o := range offers {
				say("250-" + o)
			}
			say("250 8BITMIME")
		case "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(line)
			}
			heard <- text.String()
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func TestMail(t *testing.T) {
	t.Parallel()
	d := delivery()
	d.Notice.Text = "a\r\nBcc: x@example.com\r\n\r\n.\r\nümlaut is done"
	file := func(server, more string) Target {
		return target(t, "kind = \"mail\"\nprivate = true\nfrom = \"inspan@example.com\"\nto = [\"ann@example.com\", \"bob@example.com\"]\nserver = \""+server+"\"\n"+more)
	}
	t.Run("PLUS-15d a mail has one line for people and no header that the agent chose", func(t *testing.T) {
		server, heard := postbox(t)
		if err := file(server, "tls = \"none\"\n").send(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		var all []string
		for len(heard) > 0 {
			all = append(all, <-heard)
		}
		said := strings.Join(all, "\n")
		if !strings.Contains(said, "MAIL FROM:<inspan@example.com>") || !strings.Contains(said, "RCPT TO:<ann@example.com>") || !strings.Contains(said, "RCPT TO:<bob@example.com>") {
			t.Errorf("%q", all)
		}
		text := ""
		for i, line := range all {
			if line == "DATA" {
				text = all[i+1]
			}
		}
		m, err := mail.ReadMessage(strings.NewReader(text))
		if err != nil || m.Header.Get("Bcc") != "" || m.Header.Get("Message-ID") != "<"+d.ID+"@example.com>" || len(m.Header) != 9 {
			t.Errorf("%v\n%s", err, text)
		}
	})
	t.Run("PLUS-15d nothing is sent to a server that offers no TLS where it is asked for", func(t *testing.T) {
		server, heard := postbox(t)
		err := file(server, "tls = \"starttls\"\nuser = \"u\"\npassword = \"secret:k\"\n").send(t.Context(), d)
		if err == nil || !strings.Contains(err.Error(), "STARTTLS") {
			t.Error(err)
		}
		for len(heard) > 0 {
			if line := <-heard; strings.HasPrefix(line, "AUTH") || strings.HasPrefix(line, "MAIL") {
				t.Errorf("it was told %q", line)
			}
		}
	})
	t.Run("PLUS-15d a mail server in a private network needs private = true", func(t *testing.T) {
		server, heard := postbox(t)
		closed := file(server, "tls = \"starttls\"\n")
		closed.File.Private = false
		if err := closed.send(t.Context(), d); err == nil || len(heard) != 0 {
			t.Error(err)
		}
	})
}
