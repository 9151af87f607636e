package llmtest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

func examRefusals(t *testing.T, d Dialect) {
	date := time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)
	cases := map[string]struct {
		reply    Reply
		class    llm.Class
		status   int
		min, max time.Duration
		hint     string
	}{
		"400": {Refuse(400, d.ErrorBody(BadRequest, "bad "+Key)), llm.Invalid, 400, 0, 0,
			"refused again"},
		"400 with a long prompt":   {Refuse(400, d.ErrorBody(LongPrompt, "")), llm.TooLong, 400, 0, 0, "shorten"},
		"401 that repeats the key": {Refuse(401, d.ErrorBody(BadKey, "no such key: "+Key)), llm.Auth, 401, 0, 0, "API_KEY"},
		"403":                      {Refuse(403, d.ErrorBody(BadKey, "not allowed")), llm.Auth, 403, 0, 0, "API_KEY"},
		"404": {Refuse(404, d.ErrorBody(NoModel, "no such model")), llm.Invalid, 404, 0, 0,
			"model name"},
		"429": {Refuse(429, d.ErrorBody(TooMany, "slow down")), llm.RateLimit, 429, 0, 0, ""},
		"429 with seconds": {Refuse(429, d.ErrorBody(TooMany, ""), "Retry-After", "7"), llm.RateLimit, 429,
			7 * time.Second, 7 * time.Second, ""},
		"429 with milliseconds": {Refuse(429, d.ErrorBody(TooMany, ""), "Retry-After", "7", "Retry-After-Ms", "1500"),
			llm.RateLimit, 429, 1500 * time.Millisecond, 1500 * time.Millisecond, ""},
		"429 with a date": {Refuse(429, d.ErrorBody(TooMany, ""), "Retry-After", date), llm.RateLimit, 429,
			30 * time.Second, time.Minute, ""},
		"429 with nonsense": {Refuse(429, d.ErrorBody(TooMany, ""), "Retry-After", "soon"), llm.RateLimit, 429, 0, 0,
			""},
		"429 with an endless wait": {Refuse(429, d.ErrorBody(TooMany, ""), "Retry-After", "1e300"), llm.RateLimit, 429,
			24 * time.Hour, 24 * time.Hour, ""},
		"429 without credit": {Refuse(429, d.ErrorBody(NoCredit, "no credit")), llm.Auth, 429, 0, 0, "billing"},
		"500":                {Refuse(500, d.ErrorBody(Internal, "oops")), llm.Transient, 500, 0, 0, ""},
		"502 with a page":    {Refuse(502, "<html>bad gateway "+Key+"</html>"), llm.Transient, 502, 0, 0, ""},
		"503 with a wait": {Refuse(503, "", "Retry-After", "3"), llm.Transient, 503, 3 * time.Second,
			3 * time.Second, ""},
		"504": {Refuse(504, "null"), llm.Transient, 504, 0, 0, ""},
		"529": {Refuse(529, d.ErrorBody(Overloaded, "overloaded"), "Retry-After", "2"), llm.Transient,
			529, 2 * time.Second, 2 * time.Second, ""},
		"500 with a huge body": {Refuse(500, strings.Repeat("x", 1<<20)), llm.Transient, 500, 0, 0, ""},
		"400 with odd JSON": {Refuse(400, `{"error":{"message":{"a":[1]},"code":[],"type":7}}`), llm.Invalid, 400, 0,
			0, ""},
		"a page where a stream is wanted": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>hello</html>"))
		}, llm.Invalid, 200, 0, 0, "base url"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Serve(t, c.reply)
			e := refused(t, model(t, d, s), question())
			if e.Class != c.class || e.Status != c.status || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("got class %s, status %d: %v", e.Class, e.Status, e)
			}
			if e.RetryAfter < c.min || e.RetryAfter > c.max {
				t.Errorf("got retry after %v, want between %v and %v", e.RetryAfter, c.min, c.max)
			}
			if s.Requests() != 1 {
				t.Errorf("got %d requests, want one: the executor has the only retries", s.Requests())
			}
			if len(e.Error()) > 1000 {
				t.Errorf("got an error of %d bytes", len(e.Error()))
			}
		})
	}
}

func examElsewhere(t *testing.T, d Dialect) {
	t.Run("a redirect is not followed and takes the key nowhere", func(t *testing.T) {
		t.Parallel()
		other := Serve(t, Stream(frames(d, answer())...))
		s := Serve(t, Refuse(307, "", "Location", other.URL))
		if e := refused(t, model(t, d, s), question()); e.Class != llm.Invalid || other.Requests() != 0 {
			t.Errorf("got %v and %d requests at the other place", e, other.Requests())
		}
	})

	t.Run("a server that is not there is transient", func(t *testing.T) {
		t.Parallel()
		m, err := d.New("http://127.0.0.1:1", Key)
		if err != nil {
			t.Fatal(err)
		}
		if e := refused(t, m, question()); e.Class != llm.Transient || e.Status != 0 {
			t.Errorf("got %v", e)
		}
	})
}

func examCuts(t *testing.T, d Dialect) {
	all, need := d.Frames(answer())

	t.Run("a stream that ends early is transient, after every frame", func(t *testing.T) {
		t.Parallel()
		for n := range need {
			e := refused(t, model(t, d, Serve(t, Stream(all[:n]...))), question())
			if _, retry := llm.Retryable(e); !retry || e.Class != llm.Transient {
				t.Errorf("after %d of %d frames: got %v", n, len(all), e)
			}
		}
	})

	t.Run("a stream that ends inside a frame is transient", func(t *testing.T) {
		t.Parallel()
		whole := strings.Join(all[:need], "")
		last := len(whole) - len(all[need-1])
		for n := last + 1; n < len(whole)-2; n += 7 {
			if e := refused(t, model(t, d, Serve(t, Stream(whole[:n]))), question()); e.Class != llm.Transient {
				t.Errorf("after %d bytes: got %v", n, e)
			}
		}
	})

	t.Run("a broken connection is transient, after every frame", func(t *testing.T) {
		t.Parallel()
		for n := range all {
			if e := refused(t, model(t, d, Serve(t, Broken(all[:n]...))), question()); e.Class != llm.Transient {
				t.Errorf("after %d of %d frames: got %v", n, len(all), e)
			}
		}
	})
}

func examStreams(t *testing.T, d Dialect) {
	all, need := d.Frames(answer())
	troubles := map[Fault]llm.Class{
		Overloaded: llm.Transient, Internal: llm.Transient, TooMany: llm.RateLimit,
		BadRequest: llm.Invalid, BadKey: llm.Auth, LongPrompt: llm.TooLong, NoCredit: llm.Auth,
	}
	for trouble, class := range troubles {
		t.Run("an error event: "+string(trouble), func(t *testing.T) {
			t.Parallel()
			for n := range need {
				s := Serve(t, Stream(append(append([]string{}, all[:n]...), d.ErrorFrame(trouble))...))
				if e := refused(t, model(t, d, s), question()); e.Class != class || e.Status != 0 {
					t.Errorf("after %d frames: got %v, want class %s", n, e, class)
				}
			}
		})
	}

	t.Run("an error event of an unknown kind is transient", func(t *testing.T) {
		t.Parallel()
		odd := strings.NewReplacer("overloaded_error", "odd_error", "529", "0").Replace(d.ErrorFrame(Overloaded))
		if e := refused(t, model(t, d, Serve(t, Stream(all[0], odd))), question()); e.Class != llm.Transient {
			t.Errorf("got %v", e)
		}
	})

	t.Run("a frame that is no JSON is a broken stream", func(t *testing.T) {
		t.Parallel()
		s := Serve(t, Stream(all[0], "data: {\"type\":\n\n", all[1]))
		if e := refused(t, model(t, d, s), question()); e.Class != llm.Transient {
			t.Errorf("got %v", e)
		}
	})

	t.Run("an event that is too large is invalid, and is not tried again", func(t *testing.T) {
		t.Parallel()
		s := Serve(t, Stream(all[0], "data: \"", strings.Repeat("x", wire.MaxLineBytes), "\"\n\n"))
		if e := refused(t, model(t, d, s), question()); e.Class != llm.Invalid {
			t.Errorf("got %v", e)
		}
	})

	t.Run("comments, pings, empty lines and carriage returns change nothing", func(t *testing.T) {
		t.Parallel()
		var noisy []string
		for _, f := range all {
			noisy = append(noisy, ": keep-alive\n\n", "\n\n", strings.ReplaceAll(f, "\n", "\r\n"), ":\r\r")
		}
		a := Sound(t, model(t, d, Serve(t, Stream(noisy...))), question())
		if a.Text != "I will look. é好" || len(a.Calls) != 2 {
			t.Errorf("got %+v", a)
		}
	})
}

func examContexts(t *testing.T, d Dialect) {
	all, need := d.Frames(answer())

	t.Run("a context that is over asks nothing", func(t *testing.T) {
		t.Parallel()
		s := Serve(t, Stream(all...))
		Ends(t, model(t, d, s), question())
		if s.Requests() != 0 {
			t.Errorf("got %d requests", s.Requests())
		}
	})

	t.Run("a context that ends in the middle of a stream", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a, err := model(t, d, Serve(t, Stuck(all[:need-1]...))).Ask(ctx, question(), func(llm.Delta) { cancel() })
		ended(t, a, err, context.Canceled)
	})

	t.Run("a context that ends before the answer begins", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := Serve(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		a, err := model(t, d, s).Ask(ctx, question(), nil)
		ended(t, a, err, context.Canceled)
	})

	t.Run("a deadline", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		a, err := model(t, d, Serve(t, Stuck(all[:1]...))).Ask(ctx, question(), nil)
		ended(t, a, err, context.DeadlineExceeded)
	})
}

func ended(t *testing.T, a llm.Answer, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || a.Raw != nil {
		t.Errorf("got %+v, %v, want %v", a, err, want)
	}
	if _, retry := llm.Retryable(err); retry {
		t.Errorf("got %v, which would be tried again", err)
	}
	NoKey(t, err)
}

func examSettings(t *testing.T, d Dialect) {
	cases := map[string]struct {
		base, key string
		class     llm.Class
	}{
		"no key and no address":        {"", "", llm.Auth},
		"a key with a line break":      {"", Key + "\n", llm.Auth},
		"a key with other characters":  {"", Key + "é", llm.Auth},
		"an address without a scheme":  {"127.0.0.1:80", Key, llm.Invalid},
		"an address of a file":         {"file:///etc/passwd", Key, llm.Invalid},
		"an address with a password":   {"http://user:" + Key + "@127.0.0.1", Key, llm.Invalid},
		"an address that cannot be":    {"http://[::1" + Key, Key, llm.Invalid},
		"an address with a query":      {"http://127.0.0.1/?key=" + Key, Key, llm.Invalid},
		"an address without a machine": {"http:///v1", Key, llm.Invalid},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := d.New(c.base, c.key)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Class != c.class {
				t.Fatalf("got %v, want class %s", err, c.class)
			}
			NoKey(t, err)
		})
	}

	t.Run("a local server needs no key", func(t *testing.T) {
		t.Parallel()
		s := Serve(t, Stream(frames(d, answer())...))
		m, err := d.New(s.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		Sound(t, m, question())
		for _, name := range []string{"Authorization", "X-Api-Key"} {
			if v := s.Header(0).Get(name); v != "" {
				t.Errorf("got header %s %q, want none", name, v)
			}
		}
	})
}
