// Package rest makes requests with JSON to services that may refuse them for now.
//
// Promises: a request is made a bounded number of times, each of them for a bounded time, and never again where the
// service may have carried out one that is not safe to make twice. What is read of an answer is bounded.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// tries is how often a request is made.
	tries = 5
	// maxRefusal is the most bytes that are read of a refusal, maxWord those of its text that are kept.
	maxRefusal = 64 << 10
	maxWord    = 300
)

// Refusal is an answer that is no success.
type Refusal struct {
	Status  int    `json:"-"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// After is how long the service asks to wait.
	After time.Duration `json:"-"`
	who   string
}

// Error quotes the answer of the service.
func (r *Refusal) Error() string {
	if r.Reason != "" {
		return fmt.Sprintf("%s responded %d %.60q %q", r.who, r.Status, r.Reason, r.Message)
	}
	return fmt.Sprintf("%s responded %d %q", r.who, r.Status, r.Message)
}

// Missing reports whether an error says that something is not there.
func Missing(err error) bool {
	refusal, ok := errors.AsType[*Refusal](err)
	return ok && refusal.Status == http.StatusNotFound
}

// Client speaks to one service.
type Client struct {
	HTTP *http.Client
	// URL is what paths are added to, Who the name of the service in errors.
	URL, Who string
	// Retry is how long a request that is refused waits where the answer names no time, MaxWait the longest time
	// between two tries, CallWait that of one.
	Retry, MaxWait, CallWait time.Duration
	// MaxAnswer is the most bytes of an answer.
	MaxAnswer int64
	// Authorize adds what the service knows its client by.
	Authorize func(http.Header) error
	// Named words an error that Call returns.
	Named func(error) error
}

// Call makes a request until it is answered for good. One that is not safe to make twice is made again only where the
// answer shows that it did not begin. in and out may be nil.
func (c *Client) Call(ctx context.Context, method, path string, in, out any, safe bool) (http.Header, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	for try := 1; ; try++ {
		header, err := c.once(ctx, method, path, body, out)
		if err == nil {
			return header, nil
		}
		wait, again := c.again(err, safe)
		if !again || try == tries || ctx.Err() != nil {
			return nil, fmt.Errorf("%s %s: %w", method, path, c.Named(err))
		}
		timer := time.NewTimer(min(wait<<(try-1), c.MaxWait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%s %s: %w: %w", method, path, ctx.Err(), c.Named(err))
		}
	}
}

// again tells whether and after what time a request is made again.
func (c *Client) again(err error, safe bool) (time.Duration, bool) {
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok {
		return c.Retry, safe
	}
	wait := max(refusal.After, c.Retry)
	switch refusal.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return wait, true
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return wait, safe
	}
	return 0, false
}

func (c *Client) once(ctx context.Context, method, path string, body []byte, out any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.CallWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err == nil {
		err = c.Authorize(req.Header)
	}
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, c.Refused(res)
	}
	if out != nil {
		if err := json.NewDecoder(io.LimitReader(res.Body, c.MaxAnswer)).Decode(out); err != nil {
			return nil, fmt.Errorf("read the response: %w", err)
		}
	}
	return res.Header, nil
}

// Refused reads an answer that is no success.
func (c *Client) Refused(res *http.Response) *Refusal {
	data, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // what was read of it will do
	r := &Refusal{}
	if json.Unmarshal(data, r) != nil || r.Message == "" {
		r.Message = string(data)
	}
	text := strings.ToValidUTF8(r.Message, "\uFFFD")
	r.Status, r.Message, r.who = res.StatusCode, text[:min(len(text), maxWord)], c.Who
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
		r.After = min(time.Duration(n)*time.Second, c.MaxWait)
	}
	return r
}
