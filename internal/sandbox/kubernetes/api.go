package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// callWait bounds one request, maxAnswer is the most bytes of an answer, maxWord of an error text of it.
	callWait  = 30 * time.Second
	maxAnswer = 32 << 20
	maxWord   = 300
	// tries is how often a request is made that the server refuses for now, maxRetry the longest wait between two.
	tries    = 5
	maxRetry = 10 * time.Second
	// maxPages is the most pages of a list.
	maxPages = 1000
)

// cluster speaks the API of a cluster.
type cluster struct {
	cfg       Config
	url       string
	token, ca string // files
	http      *http.Client
}

// status is a refusal, as the API says it.
type status struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	after   time.Duration
}

// Error says what the server said, quoted.
func (s *status) Error() string {
	return fmt.Sprintf("the API server answers %d %.60q %.*q", s.Code, s.Reason, maxWord, s.Message)
}

// missing reports whether an error says that something is not there.
func missing(err error) bool {
	said, ok := errors.AsType[*status](err)
	return ok && said.Code == http.StatusNotFound
}

// pods is the path of the pods, or of one.
func (c *cluster) pods(name string) string {
	at := "/api/v1/namespaces/" + url.PathEscape(c.cfg.Namespace) + "/pods"
	if name != "" {
		at += "/" + url.PathEscape(name)
	}
	return at
}

// call makes a request until it is answered for good. A refusal for now is waited for.
func (c *cluster) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	for try := 1; ; try++ {
		err := c.once(ctx, method, path, body, out)
		if err == nil {
			return nil
		}
		said, ok := errors.AsType[*status](err)
		if !ok || said.Code != http.StatusTooManyRequests && said.Code != http.StatusServiceUnavailable || try == tries {
			return fmt.Errorf("%w: %s %s: %w", ErrCluster, method, path, err)
		}
		timer := time.NewTimer(min(max(said.after, c.cfg.Poll)<<(try-1), maxRetry))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %s %s: %w: %w", ErrCluster, method, path, ctx.Err(), err)
		}
	}
}

// authorize adds the token, read anew.
func (c *cluster) authorize(h http.Header) error {
	if c.token == "" {
		return nil
	}
	token, err := os.ReadFile(c.token)
	if err != nil {
		return fmt.Errorf("INSPAN_KUBERNETES_TOKEN_FILE: %w", err)
	}
	h.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return nil
}

func (c *cluster) once(ctx context.Context, method, path string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if err := c.authorize(req.Header); err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return refusal(res)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// refusal reads an answer that says no.
func refusal(res *http.Response) *status {
	data, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // what was read of it will do
	s := &status{}
	if json.Unmarshal(data, s) != nil || s.Message == "" {
		s.Message = strings.ToValidUTF8(string(data[:min(len(data), maxWord)]), "\uFFFD")
	}
	s.Code = res.StatusCode
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
		s.after = min(time.Duration(n)*time.Second, maxRetry)
	}
	return s
}

// list returns the objects of a path that have a label.
func list[T any](ctx context.Context, c *cluster, at, selector string) ([]T, error) {
	query := url.Values{"labelSelector": {selector}, "limit": {"200"}}
	var all []T
	for range maxPages {
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []T `json:"items"`
		}
		if err := c.call(ctx, http.MethodGet, at+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
	return all, nil
}

// remove deletes a pod and returns when it is gone; one that is not there is.
func (c *cluster) remove(ctx context.Context, name string) error {
	return c.gone(ctx, "pod "+name, c.pods(name), "gracePeriodSeconds="+strconv.Itoa(grace))
}

// gone deletes an object and returns when it is not there.
func (c *cluster) gone(ctx context.Context, what, at, query string) error {
	err := c.call(ctx, http.MethodDelete, at+"?"+query, nil, nil)
	tick := time.NewTicker(c.cfg.Poll)
	defer tick.Stop()
	for err == nil {
		if err = c.call(ctx, http.MethodGet, at, nil, nil); err != nil {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if missing(err) {
		return nil
	}
	return fmt.Errorf("delete %s: %w", what, err)
}
