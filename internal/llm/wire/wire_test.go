package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/llm/wire"
)

var provider = wire.Provider{Name: "p", KeyEnv: "P_API_KEY", Key: llmtest.Key}

func object(t *testing.T, text string) wire.Object {
	t.Helper()
	o, err := wire.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestMerge(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pieces []string
		want   string
	}{
		"strings grow":                    {[]string{`{"a":"x"}`, `{"a":"y"}`, `{"a":"<z>"}`}, `{"a":"xy<z>"}`},
		"names and ids are kept":          {[]string{`{"id":"","role":"r"}`, `{"id":"1","role":"r"}`, `{"id":"2"}`}, `{"id":"1","role":"r"}`},
		"null changes nothing":            {[]string{`{"a":"x","b":null}`, `{"a":null,"b":null}`}, `{"a":"x","b":null}`},
		"a value after null":              {[]string{`{"a":null}`, `{"a":"x"}`, `{"a":"y"}`}, `{"a":"xy"}`},
		"numbers are kept as written":     {[]string{`{"a":1.50}`, `{"b":12345678901234567890}`, `{"a":1e2}`}, `{"a":1e2,"b":12345678901234567890}`},
		"objects merge":                   {[]string{`{"o":{"a":"x"}}`, `{"o":{"a":"y","b":true}}`}, `{"o":{"a":"xy","b":true}}`},
		"lists grow":                      {[]string{`{"l":[1]}`, `{"l":[{"a":"x"}]}`, `{"l":[{"a":"y"}]}`}, `{"l":[1,{"a":"x"},{"a":"y"}]}`},
		"elements with an index merge":    {[]string{`{"l":[{"index":1,"a":"x"}]}`, `{"l":[{"index":0,"a":"-"}]}`, `{"l":[{"index":1,"a":"y"}]}`}, `{"l":[{"index":1,"a":"xy"},{"index":0,"a":"-"}]}`},
		"another type replaces":           {[]string{`{"a":"x"}`, `{"a":7}`, `{"a":{"b":1}}`, `{"a":[2]}`, `{"a":"z"}`}, `{"a":"z"}`},
		"what is no index is no index":    {[]string{`{"l":[{"index":"0","a":"x"}]}`, `{"l":[{"index":"0","a":"y"}]}`}, `{"l":[{"index":"0","a":"x"},{"index":"0","a":"y"}]}`},
		"an object that was decoded once": {[]string{`{}`, `{"o":{"p":{"q":"x"}}}`, `{"o":{"p":{"q":"y"}}}`}, `{"o":{"p":{"q":"xy"}}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := object(t, c.pieces[0])
			for _, p := range c.pieces[1:] {
				o.Merge(object(t, p))
			}
			if got, err := wire.Marshal(o); err != nil || !llmtest.SameJSON(got, []byte(c.want)) {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

func FuzzMerge(f *testing.F) {
	f.Add(`{"a":"x","l":[{"index":0,"b":"c"}]}`, `{"a":7,"l":[{"index":0,"b":{}}]}`)
	f.Add(`{"l":{"a":1}}`, `{"l":[[[]]]}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errX := wire.Decode([]byte(a))
		y, errY := wire.Decode([]byte(b))
		if errX != nil || errY != nil || x == nil {
			return
		}
		x.Merge(y)
		x.Merge(y)
		got, err := wire.Marshal(x)
		if err != nil || !json.Valid(got) {
			t.Errorf("got %s, %v", got, err)
		}
		for key := range y {
			if _, has := x[key]; !has {
				t.Errorf("%q was lost", key)
			}
		}
	})
}

func FuzzRefusal(f *testing.F) {
	for _, s := range []string{`{"error":{"type":"overloaded_error","message":"m"}}`, `{"error":"x"}`, `{"error":{"code":401}}`, `[]`, "", "\xff"} {
		f.Add([]byte(s), 400)
		f.Add([]byte(s), 200)
	}
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		res := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(body)))}
		for _, err := range []error{provider.Check(res), provider.StreamError(body)} {
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Class == "" || len(e.Error()) > 10_000 {
				t.Errorf("got %v", err)
			}
			llmtest.NoKey(t, err)
		}
	})
}

type endless struct{ closed bool }

func (e *endless) Read(p []byte) (int, error) { return len(p), nil }
func (e *endless) Close() error               { e.closed = true; return nil }

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnEndlessAnswerEnds(t *testing.T) {
	t.Parallel()
	body := &endless{}
	c := wire.Client(&http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: body, Request: r}, nil
	})})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, res.Body)
	if n != wire.MaxAnswerBytes || !errors.Is(err, wire.ErrTooMuch) {
		t.Errorf("got %d bytes and %v", n, err)
	}
	if err := res.Body.Close(); err != nil || !body.closed {
		t.Errorf("got %v, closed %v", err, body.closed)
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := provider.Broken(ctx, io.ErrUnexpectedEOF); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error to win", err)
	}
	for class, cause := range map[llm.Class]error{
		llm.Transient: fmt.Errorf("odd header %s", llmtest.Key),
		llm.Invalid:   fmt.Errorf("read: %w", wire.ErrTooMuch),
	} {
		err := provider.Broken(t.Context(), cause)
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class != class {
			t.Errorf("got %v, want class %s", err, class)
		}
		llmtest.NoKey(t, err)
	}
}
