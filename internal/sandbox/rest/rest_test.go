package rest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox/rest"
)

var errNamed = errors.New("the service")

// serve answers requests with these statuses in turn, and then with 200 and an object.
func serve(t *testing.T, statuses ...int) (*rest.Client, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(asked.Add(1))
		if r.Header.Get("Authorization") != "me" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if n <= len(statuses) {
			w.WriteHeader(statuses[n-1])
			_, _ = w.Write([]byte(`{"reason":"Busy","message":"` + strings.Repeat("x", 400) + `"}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":"a"}`))
	}))
	t.Cleanup(s.Close)
	return &rest.Client{HTTP: s.Client(), URL: s.URL, Who: "the test", Retry: time.Millisecond,
		MaxWait: time.Millisecond, CallWait: time.Minute, MaxAnswer: 1 << 10,
		Authorize: func(h http.Header) error {
			h.Set("Authorization", "me")
			return nil
		}, Named: func(err error) error { return errors.Join(errNamed, err) }}, &asked
}

func TestCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statuses []int
		safe     bool
		asked    int64
		status   int // of the error, 0 for none
	}{
		"an answer":                                     {nil, false, 1, 0},
		"what did not begin is asked again":             {[]int{429, 503}, false, 3, 0},
		"what may have begun is asked again where safe": {[]int{500, 502, 504}, true, 4, 0},
		"what may have begun is not asked again":        {[]int{500}, false, 1, 500},
		"what is refused for good is not asked again":   {[]int{404}, true, 1, 404},
		"not for ever":                                  {[]int{429, 429, 429, 429, 429, 429}, true, 5, 429},
	} {
		t.Run("SBX-5 "+name, func(t *testing.T) {
			t.Parallel()
			client, asked := serve(t, c.statuses...)
			var got struct{ ID string }
			_, err := client.Call(t.Context(), http.MethodPost, "/x", map[string]int{"a": 1}, &got, c.safe)
			said, refused := errors.AsType[*rest.Refusal](err)
			if asked.Load() != c.asked || refused != (c.status != 0) ||
				refused && (said.Status != c.status || !errors.Is(err, errNamed) || len(said.Message) != 300) {
				t.Errorf("got %d requests, %v", asked.Load(), err)
			}
			if (err == nil) != (got.ID == "a") || rest.Missing(err) != (c.status == 404) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	t.Run("SBX-5 an end of its context ends the wait", func(t *testing.T) {
		t.Parallel()
		client, _ := serve(t, 429)
		client.Retry, client.MaxWait = time.Hour, time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		client.Authorize = func(h http.Header) error {
			h.Set("Authorization", "me")
			time.AfterFunc(10*time.Millisecond, cancel)
			return nil
		}
		if _, err := client.Call(ctx, http.MethodGet, "/x", nil, nil, true); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
